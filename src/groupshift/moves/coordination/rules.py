"""Which rules are asked when: before a run, around each of its acts, and when its rollback is rehearsed."""

from __future__ import annotations

from groupshift.domain import rulebook, rules_canary
from groupshift.domain.canary import Look, look_of
from groupshift.domain.facts import Facts
from groupshift.domain.group_rules import ask
from groupshift.domain.modes import Mode
from groupshift.domain.plan import StageName
from groupshift.domain.run import Findings, Json, Step
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.group import GroupRules, ask_live, facts_now
from groupshift.engine.move import Run
from groupshift.moves.coordination.facts import (
    CoordinationPorts,
    CoordinationRequest,
    LiveGroup,
    looked_twice,
)
from groupshift.ports.cluster import findings as identities

_COMMITS = "C24"
"""Old members commit to ZooKeeper."""
HEALS = frozenset({*rulebook.ASSESS, *rulebook.BEFORE[StageName.TOGGLE]}) - {"C01", "C02"}
"""Rules of `assess` that only need time. A group that is not there, or has nobody to wait for, does not."""


def assess(request: CoordinationRequest, live: LiveGroup) -> Findings:
    """Judge whether a run may begin: live rules and the own login; passed ones included."""
    numbers = rulebook.assessed(live.facts.view, request.until)
    return (*ask(numbers, live.facts), *live.identities)


class CoordinationRules(GroupRules[CoordinationPorts]):
    """The live rules of each phase."""

    def before(self, step: Step) -> tuple[str, ...]:
        """See `GroupRules`."""
        return rulebook.BEFORE[StageName(step.phase)]

    def after(self, step: Step) -> tuple[str, ...]:
        """See `GroupRules`."""
        return rulebook.AFTER[StageName(step.phase)]

    def settled(self, step: Step) -> tuple[str, ...]:
        """See `GroupRules`."""
        return tuple(each for each in self.after(step) if each in rulebook.SETTLED)

    def wanted(self, run: Run[CoordinationPorts], step: Step) -> Mode | None:
        """See `GroupRules`. What soaks keeps the mode of the last act."""
        if step.phase in rulebook.MODE_WANTED:
            return rulebook.MODE_WANTED[StageName(step.phase)]
        acts = [each.phase for each in run.there.steps if each.phase in rulebook.MODE_WANTED]
        return rulebook.MODE_WANTED[StageName(acts[-1])] if acts else None

    def facts(self, run: Run[CoordinationPorts], step: Step) -> Facts:
        """See `GroupRules`. Members that stay old are looked at twice: who commits to Kafka shows by that."""

        def look() -> Facts:
            return facts_now(run, self.wanted(run, step))

        first = look()
        return looked_twice(run.ports, first, look) if _COMMITS in self.before(step) else first


RULES = CoordinationRules()


def rehearsed(run: Run[CoordinationPorts], toggle: Step) -> Findings:
    """Return whether the toggle and what takes it back would be allowed now, and what the own login may not
    do."""
    back = toggle.undo
    if not isinstance(back, Step):
        return (Finding(rule="R01", verdict=Verdict.FAIL, reason="the toggle has no way back"),)
    said = f"the way back of mode {toggle.args['to']} is mode {back.args['to']}"
    numbers = dict.fromkeys((*RULES.before(toggle), *RULES.before(back)))
    facts = facts_now(run, RULES.wanted(run, toggle))
    return (
        Finding(rule="R01", verdict=Verdict.PASS, reason=said),
        *ask(tuple(numbers), facts),
        *identities(run.ports.side.access.prove(facts.view)),
    )


def sample(run: Run[CoordinationPorts], step: Step) -> Json:
    """Return one look at the canary beside the old members."""
    return look_of(facts_now(run), tuple(step.args["slots"])).to_data()


def canary(run: Run[CoordinationPorts], step: Step, looks: tuple[Json, ...]) -> Findings:
    """Return what the looks say of the canary beside the old members."""
    del step
    return rules_canary.judged([Look.from_data(each) for each in looks], run.ports.canary)


def soaking(run: Run[CoordinationPorts], step: Step) -> Findings:
    """Return what the rules of a soak say now."""
    return ask_live(run, RULES.after(step), RULES.wanted(run, step))
