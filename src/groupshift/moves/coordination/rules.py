"""Which rules are asked when: before a run, around each of its acts, and when its rollback is rehearsed.

The rules themselves are those of `groupshift.domain.group_rules`; here are their numbers by phase. What must
hold before an act is asked of the live group right before it, and polled as long as the step's patience
lasts. What must hold afterwards is asked by the judge; of these, `SETTLED` only need time, and the act waits
for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from groupshift.domain import canary as canaries
from groupshift.domain.facts import Facts
from groupshift.domain.group import GroupView
from groupshift.domain.group_rules import ask
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.plain import from_plain
from groupshift.domain.plan import StageName, Until
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

ASSESS = (
    *("C01", "C02", "C03", "C04", "C05", "C06", "C07", "C28", "C09", "C10", "C11", "C18", "C20"),
    *("C24", "C25", "C26", "C27", "C29"),
)
"""Asked by assess, before anything is planned."""

_STILL_OLD = ("C02", "C03", "C04", "C05", "C06", "C07", "C28", "C11", "C18", "C24")

F7 = ("C13", "C08", "C14", "C15", "C12")
"""The preconditions of a write of kafka mode, in the order of zookeeper-coordination.md §8.10 F7. That of
zookeeper mode is C16, which is asked before either."""

BEFORE: Mapping[StageName, tuple[str, ...]] = {
    StageName.CANARY: _STILL_OLD,
    StageName.ROLL: _STILL_OLD,
    StageName.TOGGLE: ("C03", "C05", "C07", "C11", "C16", *F7),
    StageName.RETIRE: ("C03", "C08", "C11", "C12", "C14", "C22"),
    StageName.SOAK: (),
    StageName.FINALISE: ("C21",),
    StageName.UNDO_RETIRE: ("C03", "C22"),
    # N3 beside F7. A member without fence is no hindrance: zookeeper mode is its remedy.
    StageName.UNDO_TOGGLE: ("C03", "C05", "C16"),
    StageName.UNDO_MEMBERS: ("C03", "C05", "C16", "C23"),
}
"""Preconditions, asked of the live group right before the act."""

AFTER: Mapping[StageName, tuple[str, ...]] = {
    StageName.CANARY: ("C03", "C28", "C11", "C17", "C18", "C19"),
    StageName.ROLL: ("C03", "C28", "C11", "C13", "C17", "C18", "C19"),
    StageName.TOGGLE: ("C03", "C08", "C11", "C13", "C14", "C15", "C16", "C17", "C18"),
    StageName.RETIRE: ("C03", "C11", "C14", "C18", "C21", "C22"),
    StageName.SOAK: ("C03", "C11", "C17", "C18"),
    StageName.FINALISE: (),
    StageName.UNDO_RETIRE: ("C03", "C11", "C13", "C15", "C16", "C17", "C18"),
    StageName.UNDO_TOGGLE: ("C03", "C11", "C16", "C17", "C18"),
    StageName.UNDO_MEMBERS: ("C03", "C11", "C16", "C17", "C18", "C19"),
}
"""What must hold once the stage has settled; the judge asks these."""

SETTLED = ("C11", "C14", "C15", "C17", "C19", "C21")
"""Of the rules after a stage, those that only need time: the sensor waits for them."""

_IN_KAFKA = (StageName.TOGGLE, StageName.RETIRE, StageName.UNDO_RETIRE)
_IN_ZOOKEEPER = (StageName.CANARY, StageName.ROLL, StageName.UNDO_TOGGLE, StageName.UNDO_MEMBERS)
MODE_WANTED: Mapping[StageName, Mode] = {
    **dict.fromkeys(_IN_KAFKA, Mode.KAFKA),
    **dict.fromkeys(_IN_ZOOKEEPER, Mode.ZOOKEEPER),
}
"""The mode in effect once the stage has settled; soak keeps what it found."""


_COMMITS = "C24"
"""Old members commit to ZooKeeper."""
HEALS = frozenset({*ASSESS, *BEFORE[StageName.TOGGLE]}) - {"C01", "C02"}
"""Rules of `assess` that only need time. A group that is not there, or has nobody to wait for, does not."""


def assessed(view: GroupView, until: Until) -> tuple[str, ...]:
    """Return what assess asks of this group: where the toggle would be the first act, its rules too."""
    toggles = until in KAFKA_MODE_FROM and view.effective_mode is not Mode.KAFKA
    first = toggles and view.of_kind(MemberKind.AWARE) and not view.of_kind(MemberKind.OLD)
    return tuple(dict.fromkeys((*ASSESS, *(BEFORE[StageName.TOGGLE] if first else ()))))


def assess(request: CoordinationRequest, live: LiveGroup) -> Findings:
    """Judge whether a run may begin: live rules and the own login; passed ones included."""
    numbers = assessed(live.facts.view, request.until)
    return (*ask(numbers, live.facts), *live.identities)


class CoordinationRules(GroupRules[CoordinationPorts]):
    """The live rules of each phase."""

    def wanted(self, run: Run[CoordinationPorts], step: Step) -> Mode | None:
        """See `GroupRules`. What soaks keeps the mode of the last act."""
        if step.phase in MODE_WANTED:
            return MODE_WANTED[StageName(step.phase)]
        acts = [each.phase for each in run.there.steps if each.phase in MODE_WANTED]
        return MODE_WANTED[StageName(acts[-1])] if acts else None

    def facts(self, run: Run[CoordinationPorts], step: Step) -> Facts:
        """See `GroupRules`. Members that stay old are looked at twice: who commits to Kafka shows by that."""

        def look() -> Facts:
            return facts_now(run, self.wanted(run, step))

        first = look()
        return looked_twice(run.ports, first, look) if _COMMITS in self.before(step) else first


RULES = CoordinationRules(BEFORE, AFTER, SETTLED)


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
    return asdict(canaries.look_of(facts_now(run), tuple(step.args["slots"])))


def canary(run: Run[CoordinationPorts], step: Step, looks: tuple[Json, ...]) -> Findings:
    """Return what the looks say of the canary beside the old members."""
    del step
    return canaries.judged([from_plain(canaries.Look, each) for each in looks], run.ports.canary)
