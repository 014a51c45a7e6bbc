"""Which rules are asked when: before a run, around each of its acts, and when its rollback is rehearsed.

The rules themselves are those of `groupshift.domain.group_rules`; ``phases.toml`` beside this module has
their numbers by phase. What must hold before an act is asked of the live group right before it, and polled
as long as the step's patience lasts. What must hold afterwards is asked by the judge; of these, those that
are ``settled`` only need time, and the act waits for them.
"""

from __future__ import annotations

from dataclasses import asdict

from groupshift.domain import canary as canaries
from groupshift.domain.facts import Facts
from groupshift.domain.group import GroupView
from groupshift.domain.group_rules import ask
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.plain import from_plain
from groupshift.domain.plan import PhaseName, Until
from groupshift.domain.run import Findings, Json, Step
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.group import GroupRules, facts_now
from groupshift.engine.move import Run
from groupshift.moves.coordination.facts import (
    KAFKA_MODE_FROM,
    CoordinationPorts,
    CoordinationRequest,
    LiveGroup,
    looked_twice,
)
from groupshift.ports.cluster import findings as identities


def assessed(view: GroupView, until: Until) -> tuple[str, ...]:
    """Return what assess asks of this group: where the toggle would be the first act, its rules too."""
    toggles = until in KAFKA_MODE_FROM and view.effective_mode is not Mode.KAFKA
    first = toggles and view.of_kind(MemberKind.AWARE) and not view.of_kind(MemberKind.ZOOKEEPER)
    return tuple(dict.fromkeys((*RULES.assess, *(RULES.phases[PhaseName.TOGGLE].before if first else ()))))


def assess(request: CoordinationRequest, live: LiveGroup) -> Findings:
    """Judge whether a run may begin: live rules and the own login; passed ones included."""
    numbers = assessed(live.facts.view, request.until)
    return (*ask(numbers, live.facts), *live.identities)


_COMMITS = "C24"
"""Old members commit to ZooKeeper."""


class CoordinationRules(GroupRules[CoordinationPorts]):
    """The live rules of each phase."""

    def wanted(self, run: Run[CoordinationPorts], step: Step) -> Mode | None:
        """See `GroupRules`. What soaks keeps the mode of the last act."""
        phases = (step.phase, *(each.phase for each in reversed(run.there.steps)))
        modes = (self.phases[PhaseName(each)].mode for each in phases if each in self.phases)
        return next((each for each in modes if each is not None), None)

    def facts(self, run: Run[CoordinationPorts], step: Step) -> Facts:
        """See `GroupRules`. Members that stay old are looked at twice: who commits to Kafka shows by that."""

        def look() -> Facts:
            return facts_now(run, self.wanted(run, step))

        first = look()
        return looked_twice(run.ports, first, look) if _COMMITS in self.before(step) else first


RULES = CoordinationRules("moves/coordination/phases.toml")
_NEVER = frozenset({"C01", "C02"})
HEALS = frozenset({*RULES.assess, *RULES.phases[PhaseName.TOGGLE].before}) - _NEVER
"""Rules of `assess` that only need time. A group that is not there, or has nobody to wait for, does not."""


def rehearsed(run: Run[CoordinationPorts], toggle: Step) -> Findings:
    """Return whether the toggle and what takes it back would be allowed now, and what the own login may not
    do."""
    back = toggle.undo
    if not isinstance(back, Step):
        return (Finding(rule="R01", verdict=Verdict.FAIL, reason="the toggle cannot be rolled back"),)
    said = f"a rollback of mode {toggle.args['to']} writes mode {back.args['to']}"
    numbers = dict.fromkeys((*RULES.before(toggle), *RULES.before(back)))
    facts = facts_now(run, RULES.wanted(run, toggle))
    return (
        Finding(rule="R01", verdict=Verdict.PASS, reason=said),
        *ask(tuple(numbers), facts),
        *identities(run.ports.side.access.prove(facts.view)),
    )


def sample(run: Run[CoordinationPorts], step: Step) -> Json:
    """Return one look at the canary beside the old members."""
    return asdict(canaries.look_of(facts_now(run), tuple(step.args["slots"])))


def canary(run: Run[CoordinationPorts], step: Step, looks: tuple[Json, ...]) -> Findings:
    """Return what the looks say of the canary beside the old members."""
    del step
    return canaries.judged([from_plain(canaries.Look, each) for each in looks], run.ports.canary)
