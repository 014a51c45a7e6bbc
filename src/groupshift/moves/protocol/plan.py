"""From a request and an observed group to a plan, and from what was begun to the rollback. Pure.

Online, members are replaced one after the other; offline, all of them stop before the first of the new kind
starts. Source: docs/reference/group-coordinator.md §§5.2-5.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groupshift.domain.evidence import Moment
from groupshift.domain.group_protocol import Protocol
from groupshift.domain.group_rules import leftovers, resets
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import StageName
from groupshift.domain.protocol.planning import KIND, places_of
from groupshift.domain.run import (
    NOTHING,
    NoUndo,
    OnDifference,
    Plan,
    Step,
    StepRecord,
    WhenLate,
    make_plan,
    make_rollback,
)
from groupshift.engine.group import Around, measured, snapshot_name
from groupshift.engine.members import REPLACE_MEMBERS
from groupshift.errors import Rejected
from groupshift.moves.protocol.facts import LiveGroup, ProtocolRequest
from groupshift.ports.group import GroupTerms

OLD_MEMBERS = "old_members"
"""Where a rollback leads."""
_UNDONE_BY = {
    StageName.CANARY: StageName.UNDO_MEMBERS,
    StageName.ROLL: StageName.UNDO_MEMBERS,
    StageName.EMPTY: StageName.UNDO_EMPTY,
    StageName.FILL: StageName.UNDO_FILL,
}
_SOAK_EVERY_S = 2


def plan(request: ProtocolRequest, live: LiveGroup) -> Plan:
    """Return the phases that this group still needs, in order.

    Raises `Rejected` where nothing is left to do, and for a canary that is larger than the group."""
    members, everywhere = live.facts.view.members, places_of(live.facts.view, live.facts.places)
    names = tuple(each.name for each in everywhere)
    others = tuple(each.name for each in everywhere if each.kind is not KIND[request.to])
    if not others:
        raise Rejected(
            f"group {request.group} has nothing to move to the {request.to} protocol: all its "
            f"{len(members)} members speak it; roll back to undo"
        )
    if not request.offline and request.canary > len(members):
        raise Rejected(
            f"canary {request.canary} is more than the {len(members)} members of group {request.group}"
        )
    acts = _offline(names, request.to) if request.offline else _online(request, others)
    about = {
        "group": request.group,
        "driver": live.driver,
        "to": request.to.value,
        "way": request.aim.way.value,
        "slots": list(names),
        "notes": [*leftovers(live.facts.view), *resets(live.facts.view)],
        "whole": not request.canary_only or request.canary >= len(others),
    }
    return make_plan(_steps(acts, request.soak, live.terms), about)


def _online(request: ProtocolRequest, others: tuple[str, ...]) -> list[tuple[StageName, dict[str, Any]]]:
    kinds = KIND[request.to.other], KIND[request.to]
    first, rest = others[: request.canary], others[request.canary :]
    wanted = ((StageName.CANARY, first), (StageName.ROLL, () if request.canary_only else rest))
    return [(phase, _members(slots, *kinds)) for phase, slots in wanted if slots]


def _offline(names: tuple[str, ...], to: Protocol) -> list[tuple[StageName, dict[str, Any]]]:
    return [
        (StageName.EMPTY, _members(names, KIND[to.other], MemberKind.VACANT)),
        (StageName.FILL, _members(names, MemberKind.VACANT, KIND[to])),
    ]


def _members(slots: Sequence[str], old: MemberKind, new: MemberKind) -> dict[str, Any]:
    return {"slots": list(slots), "old": old.value, "new": new.value}


def _steps(
    acts: Sequence[tuple[StageName, dict[str, Any]]], soak_s: int, terms: GroupTerms
) -> tuple[Step, ...]:
    steps: list[Step] = [
        Step(phase="plan", kind="approve", repeat=True, patience_s=30, does="asks to approve the plan")
    ]
    latest = ""
    for phase, members in acts:
        emptied = phase is StageName.FILL
        around = Around(
            patience_s=terms.patience_s,
            base_before=latest,
            base_after=snapshot_name(Moment.BEFORE, StageName.EMPTY) if emptied else "",
            members=members,
            since_base={**members, "old": acts[0][1]["old"]} if emptied else None,
        )
        steps += measured(_replace(phase, members, terms, undo=_undo(phase, members, terms)), around)
        latest = snapshot_name(Moment.AFTER, phase)
    soak = Step(
        phase=StageName.SOAK,
        kind="soak",
        args={"seconds": soak_s, "every_s": _SOAK_EVERY_S, "heals_s": terms.patience_s},
        on_difference=OnDifference.EVIDENCE,
        when_late=WhenLate.JUDGE,
        patience_s=soak_s + terms.settle_s,
        does=f"judges the group for {soak_s} s",
    )
    steps += measured(soak, Around(patience_s=terms.patience_s, base_before=latest))
    return tuple(steps)


def _replace(
    phase: StageName,
    members: Mapping[str, Any],
    terms: GroupTerms,
    *,
    undo: Step | NoUndo = NOTHING,
    undoes: str = "",
) -> Step:
    slots, new = ", ".join(members["slots"]), members["new"]
    vacates = new == MemberKind.VACANT
    return Step(
        phase=phase,
        kind=REPLACE_MEMBERS,
        args=members,
        undo=undo,
        undoes=undoes,
        when_late=WhenLate.JUDGE,
        patience_s=terms.settle_s,
        does=f"stops the members at {slots}" if vacates else f"replaces {slots} by {new} members",
    )


def _undo(phase: StageName, members: Mapping[str, Any], terms: GroupTerms) -> Step:
    back = {**members, "old": members["new"], "new": members["old"]}
    return _replace(_UNDONE_BY[phase], back, terms)


def roll_back_plan(there: Plan, records: Mapping[str, StepRecord], number: int, terms: GroupTerms) -> Plan:
    """Return the inverses of the acts that ``records`` has, last one first; canary and roll are one. The last
    one is compared with the group as it was before the run. An inverse behind which an earlier rollback began
    the next one is left out: nothing that it led to is there any more."""
    acts = [
        each
        for each in there.steps
        if each.kind == REPLACE_MEMBERS and each.key in records and not records[each.key].left_out
    ]
    online = [each for each in acts if _UNDONE_BY[StageName(each.phase)] is StageName.UNDO_MEMBERS]
    undone = [online] if online else [[each] for each in reversed(acts)]
    while len(undone) > 1 and f"back {undone[1][0].key}" in records:
        undone.pop(0)
    first = next((each.subject for each in there.steps if each.kind == "snapshot"), "")
    steps: list[Step] = []
    for place, together in enumerate(undone, 1):
        one = together[0]
        back = _undo(StageName(one.phase), one.args, terms).args
        members = {**back, "slots": [slot for each in together for slot in each.args["slots"]]}
        args = {**members, "takes_back": [each.key for each in together]}
        restores = place == len(undone) and one.phase in {StageName.CANARY, StageName.ROLL, StageName.EMPTY}
        act = _replace(_UNDONE_BY[StageName(one.phase)], args, terms, undoes=one.key)
        around = Around(
            patience_s=terms.patience_s,
            base_after=first if restores else "",
            members=members,
            restores=restores,
            decides=False,
        )
        steps += measured(act, around)
    return make_rollback(steps, number)
