"""The ports of drivers: `FleetDriver` replaces members, `BrokerReplacement` gives nodes another release.

`ClientFence` keeps clients out while brokers restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from groupshift.domain.facts import Slot, SlotState
from groupshift.domain.modes import MemberKind
from groupshift.errors import Rejected
from groupshift.log.releases import Coordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A member that a person has to stop, as the group shows it, and its host where that tells it."""

    member_id: str
    kind: MemberKind
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Replace the occupants of ``slots`` by members of kind ``to``, one after the other; ``change_id`` makes
    it idempotent. To `VACANT` all of them end at once and none comes, and vacant places are filled at once.

    ``token`` is the fencing token of the process that starts it, rising per ``fence`` (the run): a driver
    refuses a change whose token is lower than the highest one that it met under that fence. ``undoes``
    names the changes that this one takes back, oldest first; empty for a change forward. ``occupants`` are
    the members that have to go, told to drivers that know no places; None: it was not looked."""

    change_id: str
    group: str
    slots: tuple[str, ...]
    to: MemberKind
    fence: str = ""
    token: int = 0
    undoes: tuple[str, ...] = ()
    occupants: tuple[Occupant, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The driver accepted the change: it works on it, or has done it."""

    change_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForPerson:
    """A person has to act; ``instruction`` says what, in Markdown."""

    change_id: str
    instruction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStatus:
    """Progress of a change: ``done`` when every slot runs the wanted kind, or is vacant as wanted; ``detail``
    for people names each slot that is not, and why when the driver knows."""

    change_id: str
    done: bool
    detail: str
    slots: tuple[Slot, ...] = ()


class FleetDriver(Protocol):
    """Replaces members. No method blocks for longer than one request to the driver.

    ``start`` is idempotent by `Change.change_id`: a change that was accepted before is not applied
    twice, whoever repeats it and whatever happened in between. Every method raises `Transient` when the
    driver cannot be reached and `Rejected` for what it does not know or cannot do; a slot that is
    unknown is refused before anything is changed.
    """

    def slots(self, group: str) -> tuple[Slot, ...]:
        """All places of the group's fleet, in the order in which the driver can replace them (by name
        where it can replace any); empty when the driver cannot know."""

    def start(self, change: Change) -> Started | ForPerson:
        """Begin the change and return at once. Raises `Conflict`, and changes nothing, when a run with a
        higher token was here before (see `Change`)."""

    def observe(self, change: Change) -> ChangeStatus:
        """How far the change is; a change never started is simply not done."""

    def took_up(self, change: Change) -> bool:
        """Whether a change of this id was accepted before, in whole or in part: whoever was killed while he
        started it goes on with it. False where nobody keeps that (a person deploys)."""


def require_known(slots: Iterable[str], change: Change, source: str) -> None:
    """Raise `Rejected` for a slot of the change that is not among ``slots``; ``source`` says in a sentence
    who knows them."""
    known = sorted(slots)
    if missing := [name for name in change.slots if name not in known]:
        raise Rejected(f"slot {missing[0]!r} is unknown to {source}; it has {', '.join(known)}")


def settled(slots: tuple[Slot, ...], change: Change, source: str) -> ChangeStatus:
    """The progress of ``change`` told from what its driver knows of every slot of the fleet.

    Done when each slot of the change runs the wanted kind (a vacant one: when its member is gone) and
    carries the change's id. Raises as `require_known`."""
    known = {slot.name: slot for slot in slots}
    require_known(known, change, source)
    concerned = tuple(known[name] for name in change.slots)
    waiting = [
        slot for slot in concerned if slot.change_id != change.change_id or not _is_wanted(slot, change)
    ]
    detail = "; ".join(_lacks(slot, change) for slot in waiting)
    reached = "are vacant" if change.to is MemberKind.VACANT else f"run {change.to.value} members"
    return ChangeStatus(
        change_id=change.change_id,
        done=not waiting,
        detail=detail or f"{len(concerned)} slots {reached}",
        slots=concerned,
    )


def _is_wanted(slot: Slot, change: Change) -> bool:
    state = SlotState.DOWN if change.to is MemberKind.VACANT else SlotState.RUNNING
    return slot.kind is change.to and slot.state is state


def _lacks(slot: Slot, change: Change) -> str:
    said = f"{slot.name} is {slot.state.value} as {slot.kind.value}"
    if _is_wanted(slot, change):
        return f"{said}, but not by change {change.change_id}"
    return f"{said} ({slot.trouble})" if slot.trouble else said


class NodeState(StrEnum):
    """What a driver knows of one node."""

    RUNNING = "running"
    CHANGING = "changing"
    DOWN = "down"
    UNKNOWN = "unknown"
    """The driver cannot know: the cluster decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Start ``release`` over the folder of node ``node_id``, after it was stopped cleanly; without a release
    it is restarted as it is.

    ``coordinator`` is the group coordinator that it shall run (None: that of now), ``without`` are properties
    to leave out of its file, ``properties`` those to set there. ``change_id`` makes it idempotent; ``token``
    is the fencing token of the run, rising per ``fence`` (the run): a driver refuses one that is lower than
    the highest it met under that fence."""

    change_id: str
    node_id: int
    release: str = ""
    coordinator: Coordinator | None = None
    without: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    fence: str = ""
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """What is known of a node: ``change_id`` of the last replacement applied to it, ``release`` that it
    runs (empty: not known), ``snapshot`` the offset of its newest metadata snapshot (None: the driver
    cannot see it), ``trouble`` why it does not run."""

    node_id: int
    state: NodeState
    release: str = ""
    change_id: str = ""
    snapshot: int | None = None
    trouble: str = ""


class BrokerReplacement(Protocol):
    """Replaces nodes one at a time.

    Every method raises `Transient` when the driver cannot be reached, and `Rejected` for a node or a
    release that it does not know, before anything is changed."""

    def start(self, replacement: Replacement) -> Started | ForPerson:
        """Begin, or do it. A replacement that was done before is not done again. A node that does not come
        up is no error here: `observe` tells it. Raises `Conflict`, and changes nothing, when a run with a
        higher token was here before."""

    def observe(self, node_id: int) -> NodeStatus:
        """The node now."""


@runtime_checkable
class ClientFence(Protocol):
    """What a driver may have besides: it keeps clients out of every group (an ACL, a quota, a closed
    listener), also those that start again by themselves; the tool's own login stays.

    Both methods may be called again, and raise `Transient` when they have to be, `Rejected` for good."""

    def keep_out(self, run: str) -> None:
        """No client commits or joins when this returns, until `let_in`; ``run`` names whose fence it is."""

    def let_in(self, run: str) -> None:
        """Undo `keep_out` of this run."""
