"""The acts themselves, one per step: what is intended, doing it at most once, and reading it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from groupshift.application.environment import Environment
from groupshift.application.records import Migration
from groupshift.application.taken import change_of, taken_up
from groupshift.domain.foreign_json import shown
from groupshift.domain.group import members
from groupshift.domain.modes import Holder, MemberKind, Mode, ModeNode
from groupshift.domain.plan import Stage, StageName
from groupshift.domain.step import DeleteModeNode, ReplaceMembers, SetMode, Soak
from groupshift.errors import Conflict
from groupshift.ports.driver import Change, Occupant, Pending

Data = Mapping[str, Any]


def intent(env: Environment, found: Migration, stage: Stage) -> Data:
    """What will be wanted, and the state met: enough to recognise the act after a crash."""
    match stage.step:
        case ReplaceMembers():
            view = env.groups.read(found.record.group)
            return {
                "change_id": f"{found.id}:{stage.name}",
                "slots": list(stage.step.slots),
                "to": stage.step.new.value,
                "met": len(view.of_kind(stage.step.new)),
                "members": members(view),
                "undoes": _taken_back(found, stage.name),
            }
        case SetMode():
            return {"to": stage.step.to.value, "expected": _node_data(env.mode.read(found.record.group))}
        case DeleteModeNode():
            return {"expected": _node_data(env.mode.read(found.record.group))}
        case Soak():
            return {}


_TAKEN_BACK = {
    StageName.UNDO_RETIRE: (StageName.RETIRE,),
    StageName.UNDO_FILL: (StageName.FILL,),
    StageName.UNDO_EMPTY: (StageName.EMPTY,),
    StageName.UNDO_MEMBERS: (StageName.CANARY, StageName.ROLL),
}


def _taken_back(found: Migration, name: StageName) -> list[str]:
    """The ids of the changes that an undo stage takes back, oldest first; none for a stage forward."""
    steps = [found.steps[forward] for forward in _TAKEN_BACK.get(name, ()) if forward in found.steps]
    return [str(step.intent["change_id"]) for step in steps]


class Standing(StrEnum):
    """What became of an intended act whose end nobody wrote down."""

    AS_MET = "as_met"
    """Everything is as it was when the act was intended: it was not made."""
    MADE = "made"
    """It was made, or whoever makes it (a fleet driver) has taken it up."""
    OTHER = "other"
    """Somebody else changed what was met."""


def standing(env: Environment, found: Migration, stage: Stage, intended: Data) -> Standing:
    """Where an act stands that was intended and not journaled as made."""
    step = stage.step
    if isinstance(step, ReplaceMembers):
        return Standing.MADE if taken_up(env, found, stage, intended) else Standing.AS_MET
    if isinstance(step, Soak):
        return Standing.MADE
    node, expected = env.mode.read(found.record.group), _node_from(intended["expected"])
    if _is(node, expected):
        return Standing.AS_MET
    made = _written_after(node, expected, step.to) if isinstance(step, SetMode) else node.data is None
    return Standing.MADE if made else Standing.OTHER


def take_fence(env: Environment, found: Migration, stage: Stage, token: int) -> None:
    """Before the mode is written: let ZooKeeper know whose write it will be.

    Raises `Conflict` when a later run has claimed the migration."""
    if isinstance(stage.step, SetMode | DeleteModeNode):
        env.mode.take(found.record.group, Holder(migration=found.id, token=token))


def perform(env: Environment, found: Migration, stage: Stage, intended: Data, token: int) -> Data:
    """Make the intended change unless it is made already; what was done, as data.

    Raises `Conflict` when the mode node is neither as it was met nor as it was wanted, or when the run
    was fenced."""
    group, holder = found.record.group, Holder(migration=found.id, token=token)
    match stage.step:
        case ReplaceMembers():
            return _replace_members(env, _told(env, found, stage.step, change_of(found, intended, token)))
        case SetMode():
            return _set_mode(env, (group, holder), stage.step.to, _node_from(intended["expected"]))
        case DeleteModeNode():
            env.mode.delete(group, _node_from(intended["expected"]), holder=holder)
            return {"detail": "the mode node is gone"}
        case Soak():
            return {}


def _told(env: Environment, found: Migration, step: ReplaceMembers, change: Change) -> tuple[Change, str]:
    """The change with who is there now, for people: places of a rollback were named when others were there,
    and not each of them may have been replaced."""
    driver = found.plan.driver
    if env.fleets(driver).slots(found.record.group):
        return change, driver
    members = env.groups.read(found.record.group).members
    if change.undoes:
        going = [each for each in members if each.kind is step.old]
    else:
        going = [each for each in members if {each.member_id, each.client_id} & set(change.slots)]
    occupants = tuple(
        Occupant(member_id=each.member_id, kind=each.kind, host=(each.host or "").lstrip("/"))
        for each in going
    )
    return replace(change, occupants=occupants), driver


def _replace_members(env: Environment, told: tuple[Change, str]) -> Data:
    change, driver = told
    started = env.fleets(driver).start(change)
    does = _does(change)
    if isinstance(started, Pending):
        return {"instruction": started.instruction, "detail": f"waits for a person, who {does}"}
    return {"detail": f"the fleet driver {does}"}


def _does(change: Change) -> str:
    """What becomes of whom. Where it was looked who is there, nobody is named who stays."""
    slots, there = ", ".join(change.slots), change.occupants
    if change.to is MemberKind.VACANT:
        return f"stops {slots}"
    if there is None or (there and not change.undoes):
        return f"replaces {slots} by {change.to} members"
    if there:
        return f"takes {', '.join(each.member_id for each in there)} back to {change.to} members"
    return f"starts {change.to} members " + ("where one is missing" if change.undoes else f"at {slots}")


def _set_mode(env: Environment, who: tuple[str, Holder], to: Mode, expected: ModeNode) -> Data:
    group, holder = who
    node = env.mode.read(group)
    if _is(node, expected):
        node = env.mode.compare_and_set(group, expected, to, holder=holder)
    elif not _written_after(node, expected, to):
        raise Conflict(
            f"the mode node of group {group} was changed by someone else: it was met as version "
            f"{expected.version} and is now {_shown(node)}; look at the group and decide again"
        )
    return {"node": _node_data(node), "detail": f"the mode node holds {to} (write {node.identity})"}


def _is(node: ModeNode, expected: ModeNode) -> bool:
    return (node.identity, node.version) == (expected.identity, expected.version)


def _written_after(node: ModeNode, expected: ModeNode, to: Mode) -> bool:
    """Whether the node is what exactly one write of ``to`` made of ``expected``: the lost act."""
    same = expected.data is None or node.czxid == expected.czxid
    newer = node.mzxid > expected.mzxid and node.version == expected.version + 1
    return same and newer and node.data == to.value.encode()


def read_back(env: Environment, found: Migration, stage: Stage, result: Data, intended: Data) -> Data:
    """Look at what was done through another path. Raises `Conflict` when it is not there."""
    group = found.record.group
    match stage.step:
        case ReplaceMembers():
            status = env.fleets(found.plan.driver).observe(change_of(found, intended))
            return {"done": status.done, "detail": status.detail}
        case SetMode() | DeleteModeNode():
            node = env.groups.read(group).mode
            wanted = result.get("node")
            if node.data is None if wanted is None else _is(node, _node_from(wanted)):
                return {"node": _node_data(node)}
            raise Conflict(
                f"the mode node of group {group} reads back as {_shown(node)}, not as it was written; "
                "someone else writes it: look at the group and decide again"
            )
        case Soak():
            return {}


def _shown(node: ModeNode) -> str:
    return "absent" if node.data is None else f"{shown(node.data)} (version {node.version})"


def _node_data(node: ModeNode) -> Data:
    return {
        "data": None if node.data is None else node.data.decode("latin-1"),
        "version": node.version,
        "czxid": node.czxid,
        "mzxid": node.mzxid,
    }


def _node_from(data: Data) -> ModeNode:
    text = data["data"]
    return ModeNode(
        data=None if text is None else str(text).encode("latin-1"),
        version=int(data["version"]),
        czxid=int(data["czxid"]),
        mzxid=int(data["mzxid"]),
    )
