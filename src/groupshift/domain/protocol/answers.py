"""What a coordinator answers when a member of the other protocol comes or the last native one goes: a table.

``answers.toml`` has what each row says, with its sources. `predict` takes the first row of an event whose
condition holds, `forecast` all that a whole move will meet. A native member speaks the consumer protocol
(ConsumerGroupHeartbeat), a classic one JoinGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from groupshift.domain.group_protocol import (
    CONSUMERS,
    DOWNGRADING,
    EMPTY,
    SESSION,
    UPGRADING,
    BrokerSettings,
    KafkaGroup,
    KafkaMember,
    Kind,
    Policy,
    Protocol,
    Way,
)
from groupshift.domain.tables import table_of


class CoordinatorEvent(StrEnum):
    """What a coordinator has to answer, or to react to."""

    NATIVE_JOINS = "a native member joins"
    CLASSIC_JOINS = "a classic member joins"
    LAST_NATIVE_LEAVES = "the last native member leaves"


class AnswerOutcome(StrEnum):
    """What becomes of it. ``later``: the group converts when the session of a static member ends."""

    CREATED = "a new group"
    CONVERTS = "converts"
    ADMITTED = "admitted"
    LATER = "converts later"
    STAYS = "stays consumer"
    EMPTIED = "empty, stays consumer"
    NOTHING = "nothing to leave"
    REFUSED = "refused"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A group at a broker, and who comes. ``offers`` are the assignors of a classic member that joins,
    ``others`` those that are known of the classic members present; empty: not known, taken to be fit.
    ``instance_id`` is that of the member that joins."""

    group: KafkaGroup
    broker: BrokerSettings
    offers: frozenset[str] = frozenset()
    others: tuple[frozenset[str], ...] = ()
    instance_id: str | None = None

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self.group.members)

    @property
    def native(self) -> tuple[KafkaMember, ...]:
        """The native members."""
        return self.group.speaking(Protocol.CONSUMER)

    @property
    def classic(self) -> int:
        """How many classic members there are."""
        return len(self.group.speaking(Protocol.CLASSIC))

    @property
    def live(self) -> bool:
        """Whether the group is of type consumer and has members."""
        return self.group.kind is Kind.CONSUMER and not self.group.empty


_EVENTS = {
    "PN": CoordinatorEvent.NATIVE_JOINS,
    "PC": CoordinatorEvent.CLASSIC_JOINS,
    "PL": CoordinatorEvent.LAST_NATIVE_LEAVES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorAnswer:
    """``number`` is the row; ``kind`` what the group is afterwards (None: not known); ``error`` Kafka's error
    code with its name; ``reason`` one clause, in the table with blanks for values of the case; ``client``
    what the member that came makes of it (in the table its name below ``clients``); ``remedy``
    what lets it in or the group convert."""

    number: str = ""
    outcome: AnswerOutcome
    kind: Kind | None = None
    error: str = ""
    reason: str
    client: str = ""
    remedy: str = ""

    @property
    def event(self) -> CoordinatorEvent:
        """What it answers."""
        return _EVENTS[self.number[:2]]

    @property
    def code(self) -> int:
        """Kafka's error code (0: none)."""
        return int(self.error.partition(" ")[0] or 0)

    @property
    def refused(self) -> bool:
        """Whether the member does not get in."""
        return self.outcome is AnswerOutcome.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The file: what clients make of an error, by a name; rows by number, in the order of asking."""

    clients: Mapping[str, str]
    rows: Mapping[str, CoordinatorAnswer]


def _joins_live_classic(case: Case) -> bool:
    return case.group.kind is Kind.CLASSIC and not case.group.empty


def _taken(case: Case) -> bool:
    """A native member has the instance id and did not give it back."""
    return case.instance_id is not None and any(
        member.instance_id == case.instance_id and (member.epoch or 0) >= 0 for member in case.native
    )


def _replaces_last(case: Case) -> bool:
    """The member that joins takes the place of the only native one."""
    return (
        case.instance_id is not None
        and not case.group.undeclared
        and [member.instance_id for member in case.native] == [case.instance_id]
    )


WHEN: Mapping[str, Callable[[Case], bool]] = {
    "PN01": lambda c: bool(c.broker.serves),
    "PN02": lambda c: c.group.kind is Kind.UNKNOWN,
    "PN03": lambda c: c.group.kind in {Kind.SHARE, Kind.STREAMS},
    "PN04": lambda c: c.group.kind is Kind.ABSENT,
    "PN05": lambda c: c.broker.early and c.group.kind is Kind.CLASSIC,
    "PN06": lambda c: c.group.kind is Kind.CLASSIC and c.group.empty,
    "PN07": lambda c: _joins_live_classic(c) and c.broker.policy is None,
    "PN08": lambda c: _joins_live_classic(c) and c.broker.policy not in UPGRADING,
    "PN09": lambda c: _joins_live_classic(c) and c.group.protocol_type != CONSUMERS,
    "PN10": lambda c: _joins_live_classic(c) and c.size > c.broker.consumer_size,
    "PN11": lambda c: _joins_live_classic(c) and any(m.unreadable for m in c.group.members),
    "PN12": lambda c: (
        _joins_live_classic(c) and c.broker.checks_user_data and any(m.user_data for m in c.group.members)
    ),
    "PN13": lambda c: _joins_live_classic(c) and c.size >= c.broker.consumer_size,
    "PN14": _joins_live_classic,
    "PN15": lambda c: c.live and _taken(c),
    "PN16": lambda c: (
        c.live and c.instance_id is not None and c.instance_id in {m.instance_id for m in c.group.undeclared}
    ),
    "PN17": lambda c: c.live and c.size >= c.broker.consumer_size,
    "PC01": lambda c: c.group.kind is Kind.UNKNOWN,
    "PC02": lambda c: c.group.kind is Kind.SHARE or (c.group.kind is Kind.STREAMS and not c.group.empty),
    "PC03": lambda c: c.group.kind is Kind.ABSENT,
    "PC04": lambda c: c.group.kind in {Kind.CONSUMER, Kind.STREAMS} and c.group.empty,
    "PC05": lambda c: c.live and c.size >= c.broker.consumer_size,
    "PC06": lambda c: c.group.kind is Kind.CLASSIC and c.size >= c.broker.classic_size,
    "PC07": lambda c: bool(c.offers and c.others) and not c.offers.intersection(*c.others),
    "PC08": lambda c: c.group.kind is Kind.CLASSIC,
    "PC09": lambda c: c.broker.policy is None,
    "PC10": lambda c: c.broker.policy is Policy.DISABLED and c.broker.refuses_classic,
    "PC11": lambda c: c.broker.policy is Policy.DISABLED,
    "PC12": lambda c: (
        _replaces_last(c)
        and c.broker.policy in DOWNGRADING
        and c.broker.general
        and c.size <= c.broker.classic_size
    ),
    "PL01": lambda c: c.group.kind is not Kind.CONSUMER,
    "PL02": lambda c: bool(c.group.undeclared),
    "PL03": lambda c: not c.native,
    "PL04": lambda c: not c.classic,
    "PL05": lambda c: c.broker.policy is None,
    "PL06": lambda c: c.broker.policy not in DOWNGRADING,
    "PL07": lambda c: c.classic > c.broker.classic_size,
    "PL08": lambda c: any(member.instance_id for member in c.native),
}
"""When a row speaks, by its number; the last one of each event always does."""
_READ = table_of(Table, "domain/protocol/answers.toml")
_ROWS = [
    replace(row, number=number, client=_READ.clients.get(row.client, ""))
    for number, row in _READ.rows.items()
]
TABLE = {event: tuple(row for row in _ROWS if row.event is event) for event in CoordinatorEvent}
"""Every row by event, in the order in which they are asked."""


def predict(event: CoordinatorEvent, case: Case) -> CoordinatorAnswer:
    """Return the answer to ``event``: that of the first row whose condition holds."""
    row = next(row for row in TABLE[event] if row.number not in WHEN or WHEN[row.number](case))
    broker, group = case.broker, case.group
    protocol, session = group.protocol or "the assignor", broker.properties.get(SESSION, SESSION)
    words = row.reason.format(case=case, broker=broker, group=group, protocol=protocol, session=session)
    return replace(row, reason=words)


def forecast(
    to: Protocol, way: Way, group: KafkaGroup, broker: BrokerSettings
) -> tuple[CoordinatorAnswer, ...]:
    """What the coordinator answers on the way: offline to the first member that joins the emptied group,
    online to the first, which takes the place of one that was stopped, and on the way to classic to the last
    native member that leaves."""
    first = CoordinatorEvent.NATIVE_JOINS if to is Protocol.CONSUMER else CoordinatorEvent.CLASSIC_JOINS
    if way is Way.OFFLINE:
        return (predict(first, Case(group=emptied(group), broker=broker)),)
    joined = predict(first, Case(group=one_stopped(group, to), broker=broker))
    if to is Protocol.CONSUMER or group.kind is not Kind.CONSUMER or group.empty:
        return (joined,)
    left = predict(CoordinatorEvent.LAST_NATIVE_LEAVES, Case(group=nearly_classic(group), broker=broker))
    return (joined, left) if len(group.members) > 1 else (left, joined)


def way_back(group: KafkaGroup, broker: BrokerSettings) -> tuple[CoordinatorAnswer, ...]:
    """What the rollback online meets once all members of this classic group are native."""
    natives = tuple(replace(member, speaks=Protocol.CONSUMER) for member in group.members)
    there = replace(group, kind=Kind.CONSUMER, members=natives)
    return forecast(Protocol.CLASSIC, Way.ONLINE, there, broker)


def emptied(group: KafkaGroup) -> KafkaGroup:
    """The group once its members have left: its type stays."""
    return replace(group, members=(), state=group.state if group.kind is Kind.ABSENT else EMPTY)


def one_stopped(group: KafkaGroup, to: Protocol) -> KafkaGroup:
    """The group without the member that is replaced first: one that does not speak ``to`` yet, and none of
    those that stand in the way, for which of them is stopped is not known. Members that were not read (share,
    streams) are still there."""
    if len(group.members) <= 1:
        return emptied(group) if group.members else group
    free = min(group.members, key=lambda m: (m.speaks is to, bool(m.user_data or m.unreadable)))
    return replace(group, members=tuple(member for member in group.members if member is not free))


def nearly_classic(group: KafkaGroup) -> KafkaGroup:
    """The group with one native member left, a static one if there is any, and the others classic."""
    if group.undeclared or not group.members:
        return group
    *others, last = sorted(
        group.members, key=lambda m: (m.speaks is Protocol.CONSUMER, m.instance_id is not None)
    )
    return replace(group, members=(*(replace(each, speaks=Protocol.CLASSIC) for each in others), last))
