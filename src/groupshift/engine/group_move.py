"""What moves of one group share: facts, handlers, kinds of steps, and the order of a rollback."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from groupshift.domain.evidence import Moment
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import PhaseName
from groupshift.domain.run import (
    NOTHING,
    Json,
    NoUndo,
    Plan,
    Step,
    StepRecord,
)
from groupshift.domain.step_table import StepTable
from groupshift.domain.verdict import Verdict
from groupshift.engine import group
from groupshift.engine.group import G, GroupRules, measured, snapshot_name
from groupshift.engine.handlers import Approve, Compare, Judge, Soak, TakeSnapshot
from groupshift.engine.move import Aspects, Handler, Move, Run
from groupshift.engine.questions_and_approvers import Section
from groupshift.engine.replace_members import REPLACE_MEMBERS, ReplaceMembers, raise_fence
from groupshift.ports.group import GroupTerms
from groupshift.ports.runs import EventKind

ONLINE = frozenset({PhaseName.CANARY, PhaseName.ROLL})
"""The phases that replace members one after the other; one phase takes back both."""
_step = StepTable("engine/steps.toml").step
_RESTORES = ONLINE | {PhaseName.EMPTY}
"""Phases behind whose inverse the group is as it was before the run."""
JUDGED_HEAD = ("step", "rule", "verdict", "reason")
_GATE_S = 30
_SOAK_EVERY_S = 2


class GroupMove(Move[G]):
    """A move of one group: only what it overrides is its own."""

    scope = "group"

    def fingerprint(self, facts: Any, begun: Collection[str]) -> Aspects:
        """See `Move`. An act behind the first one compares with what the last judge met, so nothing that the
        run itself changed is left out."""
        del begun
        aspects: Aspects = facts.aspects
        return aspects

    def heals_s(self, ports: G) -> float:
        """See `Move`: as long as a failed live rule may heal."""
        return ports.terms.patience_s

    def fence(self, run: Run[G], when: Literal["claimed", "rolling_back"]) -> None:
        """See `Move`. A driver is told that a rollback begins; the journal does the rest."""
        if when == "rolling_back":
            raise_fence(run)


def group_handlers(rules: GroupRules[Any], approve: Approve[Any] | None = None) -> dict[str, Handler[Any]]:
    """Return the handlers of a move with these rules; ``approve`` where it asks in a way of its own."""
    return {
        "approve": approve or Approve(),
        "snapshot": TakeSnapshot(group.take, group.digest, calm=rules.calm),
        "compare": Compare(group.comparison, group.read),
        "judge": Judge(rules.live),
        "soak": Soak(rules.soaks),
        REPLACE_MEMBERS: ReplaceMembers(rules),
    }


def approval(phase: str, does: str) -> Step:
    """Return the step that asks to approve what follows."""
    return Step(phase=phase, kind="approve", repeat=True, patience_s=_GATE_S, does=does)


def members_at(slots: Sequence[str], old: MemberKind, new: MemberKind) -> dict[str, Any]:
    """Return the arguments of `replacement`."""
    return {"slots": list(slots), "old": old.value, "new": new.value}


def replacement(
    phase: PhaseName,
    members: Mapping[str, Any],
    terms: GroupTerms,
    *,
    undo: Step | NoUndo = NOTHING,
    undoes: str = "",
) -> Step:
    """Return the step that replaces members; ``members`` as of `members_at`."""
    said = {"slots": ", ".join(members["slots"]), "new": members["new"]}
    return _step(
        "stop_members" if members["new"] == MemberKind.VACANT else REPLACE_MEMBERS,
        said=said,
        phase=phase,
        args=members,
        undo=undo,
        undoes=undoes,
        patience_s=terms.settle_s,
    )


def undoing(phase: PhaseName, members: Json, terms: GroupTerms, undoes: str = "") -> Step:
    """Return the step that takes back what a phase replaced."""
    back = {**members, "old": members["new"], "new": members["old"]}
    inverse = PhaseName.UNDO_MEMBERS if phase in ONLINE else PhaseName(f"undo_{phase}")
    return replacement(inverse, back, terms, undoes=undoes)


def soaking(seconds: int, terms: GroupTerms) -> Step:
    """Return the step that judges the group for a while."""
    args = {"seconds": seconds, "every_s": _SOAK_EVERY_S, "heals_s": terms.patience_s}
    return _step("soak", said=args, args=args, patience_s=seconds + terms.settle_s)


class GroupSteps:
    """The steps of a plan as they come, its approval first: ``latest`` is the snapshot after the last act,
    ``gate`` the approval that covers what comes next (empty: that of the plan)."""

    def __init__(self, terms: GroupTerms) -> None:
        self.steps = [approval("plan", "approve the plan")]
        self.latest = self.gate = ""
        self.terms = terms

    def add(self, *steps: Step) -> None:
        """Add steps behind the gate of now."""
        self.steps += [each if each.gate else replace(each, gate=self.gate) for each in steps]

    def replaces(self, phase: PhaseName, members: Mapping[str, Any], **around: Any) -> None:
        """Replace the members at the places of ``members`` (as of `members_at`); none is no phase."""
        if members["slots"]:
            undo = undoing(phase, members, self.terms)
            self.measured(replacement(phase, members, self.terms, undo=undo), **around)

    def measured(self, act: Step, **around: Any) -> None:
        """Add an act with a snapshot, a comparison and a judge before and after it; ``around`` as of
        `groupshift.engine.group.measured`."""
        self.add(*measured(act, patience_s=self.terms.patience_s, base_before=self.latest, **around))
        self.latest = snapshot_name(Moment.AFTER, act.phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """An act of a rollback, and the keys of the acts that it takes back; ``restores``: the group is then to
    be as it was before the run."""

    act: Step
    keys: tuple[str, ...] = ()
    restores: bool = False


def acts_begun(there: Plan, records: Mapping[str, StepRecord], kinds: Collection[str]) -> list[Step]:
    """Return the steps of these kinds that were begun and not left out, in the order of the plan."""
    known = (each for each in there.steps if each.kind in kinds and each.key in records)
    return [each for each in known if not records[each.key].left_out]


def taken_back(acts: Sequence[Step], slots: Sequence[str], terms: GroupTerms) -> Undo:
    """Return the inverse of acts of one kind as one act over all their places."""
    one, keys = acts[0], [each.key for each in acts]
    members = {**one.args, "slots": list(slots), "takes_back": keys}
    act = undoing(PhaseName(one.phase), members, terms, undoes=one.key)
    return Undo(act=act, keys=tuple(keys), restores=one.phase in _RESTORES)


def undone(
    undos: Sequence[Undo], there: Plan, records: Mapping[str, StepRecord], terms: GroupTerms
) -> Iterator[tuple[Undo, tuple[Step, ...]]]:
    """Yield each act of a rollback with its measurements; what restores is compared with the first snapshot.

    An inverse behind which an earlier rollback began the next one is left out: nothing that it led to is
    there any more."""
    left = list(undos)
    while len(left) > 1 and left[1].keys and f"back {left[1].keys[0]}" in records:
        left.pop(0)
    first = next((each.subject for each in there.steps if each.kind == "snapshot"), "")
    for each in left:
        base, restores = first if each.restores else "", each.restores
        steps = measured(
            each.act, patience_s=terms.patience_s, base_after=base, restores=restores, decides=False
        )
        yield each, steps


def group_sections(
    run: Run[G], said: Sequence[str], more: Sequence[tuple[str, str, str, str]] = ()
) -> tuple[Section, ...]:
    """Return the parts of a report: what the move was to do, what each judge said that did not pass (one row
    where all did), and ``more``."""
    places = f"Places of the fleet: {', '.join(run.there.about['slots'])}."
    rows: list[tuple[str, ...]] = []
    for event in run.events("", EventKind.JUDGED):
        findings = event.body["findings"]
        bad = [each for each in findings if each["verdict"] != Verdict.PASS]
        lines = [(str(each["rule"]), str(each["verdict"]), str(each["reason"])) for each in bad]
        if event.step:  # a look at a run that is over has none
            passed = [("", Verdict.PASS.value, f"{len(findings)} rules")]
            rows += ((event.step, *each) for each in lines or passed)
    return (
        Section(title="The move", sentences=(said[0], places, *said[1:])),
        Section(title="Judgements", head=JUDGED_HEAD, rows=(*rows, *more)),
    )
