"""The supervisor's fleet as data: what is wanted of each slot, what runs there, and what to do next.

Nothing here starts or signals anything: `next_actions` looks at the memory and at what is observed and
says what to do; the supervisor does it and writes the memory down before and after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from groupshift.domain.modes import MemberKind
from groupshift.domain.plain import from_plain
from groupshift.errors import Conflict, Rejected

READY_GRACE_S = 15.0  # how long one starting member keeps others from starting
STOP_S = 20.0  # from SIGTERM to SIGKILL, where the definition says nothing else
_RESTART_S = (1.0, 2.0, 5.0, 10.0)  # pauses before the restart of a member that keeps dying


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDefinition:
    """One place of the fleet: ``release`` of its Scala occupant, ``kind`` of its first occupant; servers
    and topics (``name`` or ``name:streams``) of its own when it has any (behind a relay, for instance).

    With a ``client`` (one of `client_members.commands.CLIENTS`) its plain and native occupants are of that
    client: ``assignor`` is their strategy as plain ones, ``remote_assignor`` as native ones (the default when
    empty), ``instance_id`` makes them static members, ``commit`` is when they do (auto, each, none)."""

    name: str
    release: str = ""
    kind: MemberKind = MemberKind.ZOOKEEPER
    zookeeper: str | None = None
    bootstrap: str | None = None
    topics: tuple[str, ...] = ()
    client: str = ""
    assignor: str = ""
    remote_assignor: str = ""
    instance_id: str = ""
    commit: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDefinition:
    """What the supervisor runs; ``properties`` are member properties by kind. ``zookeeper`` is empty for a
    group that only Kafka knows. ``stop_s``: from SIGTERM to SIGKILL; clients end themselves before."""

    group: str
    topics: tuple[str, ...]
    bootstrap: str
    slots: tuple[SlotDefinition, ...]
    zookeeper: str = ""
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stop_s: float = STOP_S

    def to_json(self) -> dict[str, Any]:
        """As ``fleet.json`` holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> FleetDefinition:
        """From ``fleet.json``. Raises `Rejected` naming what is missing or unknown."""
        try:
            return from_plain(cls, document)
        except TypeError as error:
            raise Rejected(f"fleet.json cannot be used ({error!r}); write it with `sandbox up`") from error


@dataclass(slots=True, kw_only=True)
class FleetSlot:
    """What the supervisor remembers of one slot. ``kind`` is the present occupant's; ``wanted`` differs
    while ``pending`` (a change id) is to be applied, ``at_once`` or in its turn; ``change_id`` is the last
    one applied."""

    name: str
    kind: MemberKind
    wanted: MemberKind
    pending: str | None = None
    change_id: str | None = None
    incarnation: int = 0
    pid: int | None = None
    ticks: int | None = None
    held: bool = False
    at_once: bool = False

    @property
    def occupant(self) -> str:
        """``<slot>-<incarnation>``: the consumer id and the name of the member's files."""
        return f"{self.name}-{self.incarnation}"


@dataclass(slots=True, kw_only=True)
class FleetMemory:
    """Desired state and accepted changes; ``queue`` holds slots waiting for replacement, in order;
    ``fences`` the highest token met under each fence."""

    places: dict[str, FleetSlot]
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    queue: list[str] = field(default_factory=list)
    fences: dict[str, int] = field(default_factory=dict)

    @classmethod
    def new(cls, definition: FleetDefinition) -> FleetMemory:
        """Every slot wanted as the definition says, nothing running."""
        return cls(
            places={
                slot.name: FleetSlot(name=slot.name, kind=slot.kind, wanted=slot.kind)
                for slot in definition.slots
            }
        )

    def to_json(self) -> dict[str, Any]:
        """As ``supervisor.json`` holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> FleetMemory:
        """The inverse of `to_json`."""
        places = {name: from_plain(FleetSlot, place) for name, place in document["places"].items()}
        return cls(**{**document, "places": places})

    def place(self, name: str) -> FleetSlot:
        """The slot of this name. Raises `Rejected` for an unknown one."""
        if name not in self.places:
            raise Rejected(f"slot {name!r} is unknown; this fleet has {', '.join(sorted(self.places))}")
        return self.places[name]

    def demand_newest(self, fence: str, token: int) -> None:
        """Raises `Conflict` when a run with a higher token was met under this fence."""
        highest = self.fences.get(fence, 0)
        if token < highest:
            raise Conflict(
                f"token {token} of {fence} is void: a process with token {highest} was here since; "
                "nothing was changed, look at the run with: groupshift status"
            )

    def accept(self, change_id: str, slots: list[str], to: MemberKind) -> bool:
        """Take up a change; False when it was accepted before. A slot that already runs the wanted kind
        is left alone. Raises `Rejected` for an unknown slot or an id used for something else."""
        wanted = {"slots": list(slots), "to": to.value}
        if change_id in self.changes:
            if self.changes[change_id] != wanted:
                raise Rejected(f"change {change_id!r} was accepted before for {self.changes[change_id]}")
            return False
        places = [self.place(name) for name in slots]
        self.changes[change_id] = wanted
        for place in places:
            self._want(place, change_id, to)
        return True

    def _want(self, place: FleetSlot, change_id: str, to: MemberKind) -> None:
        place.wanted = to
        place.at_once = MemberKind.VACANT in {to, place.kind}
        if place.name in self.queue:
            self.queue.remove(place.name)
        if place.kind is to:
            place.pending, place.change_id = None, change_id
        else:
            place.pending = change_id
            self.queue.append(place.name)

    def applied(self, place: FleetSlot) -> None:
        """The replacement of a slot is complete; nobody is left in a vacant one."""
        place.change_id, place.pending = place.pending, None
        if place.wanted is MemberKind.VACANT:
            place.kind, place.pid, place.ticks = MemberKind.VACANT, None, None
        if place.name in self.queue:
            self.queue.remove(place.name)

    def in_turn(self) -> list[str]:
        """Slots to be replaced now: the first one that is not held, and all that do not wait for others."""
        free = [name for name in self.queue if not self.places[name].held]
        first = next((name for name in free if not self.places[name].at_once), None)
        return [name for name in free if name == first or self.places[name].at_once]


class Verb(StrEnum):
    """What the supervisor can do to a slot."""

    TERMINATE = "terminate"
    KILL = "kill"
    LAUNCH = "launch"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do now to one slot."""

    verb: Verb
    slot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is known of a slot's process now. ``since_s``: seconds since it was launched, or since it was
    found dead; ``stopping_s``: since it was asked to end, None when it was not; ``deaths``: how often in
    a row it died before it was ready."""

    alive: bool
    ready: bool
    since_s: float
    stopping_s: float | None = None
    deaths: int = 0

    @property
    def restart_due(self) -> bool:
        """True when a dead member's pause is over; one that was asked to end has none."""
        if self.stopping_s is not None:
            return True
        return self.since_s >= _RESTART_S[min(self.deaths, len(_RESTART_S) - 1)]


def next_actions(
    memory: FleetMemory, observed: Mapping[str, Observed], stop_s: float = STOP_S
) -> list[Action]:
    """What to do now. Slots are replaced one after the other, a held one is passed over; they are vacated,
    and filled again, all at once. A dead member is started again, one at a time, unless it takes longer than
    the grace; a vacant slot stays so. Who has not ended after ``stop_s`` is killed."""
    active = memory.in_turn()
    actions = [action for name in active for action in _replace(memory.places[name], observed[name], stop_s)]
    starting = any(
        now.alive and not now.ready and now.since_s < READY_GRACE_S for now in observed.values()
    ) or any(action.verb is Verb.LAUNCH for action in actions)
    for name, place in sorted(memory.places.items()):
        now = observed[name]
        idle = name in active or now.alive or place.held or place.wanted is MemberKind.VACANT
        if not idle and now.restart_due and not starting:
            actions.append(Action(verb=Verb.LAUNCH, slot=name))
            starting = True
    return actions


def _replace(place: FleetSlot, now: Observed, stop_s: float) -> list[Action]:
    if now.alive and place.kind is not place.wanted:
        if now.stopping_s is None:
            return [Action(verb=Verb.TERMINATE, slot=place.name)]
        return [Action(verb=Verb.KILL, slot=place.name)] if now.stopping_s > stop_s else []
    if place.wanted is MemberKind.VACANT:
        return [Action(verb=Verb.COMPLETE, slot=place.name)]
    if not now.alive:
        due = now.restart_due or place.kind is not place.wanted
        return [Action(verb=Verb.LAUNCH, slot=place.name)] if due else []
    return [Action(verb=Verb.COMPLETE, slot=place.name)] if now.ready else []
