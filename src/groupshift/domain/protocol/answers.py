"""What a coordinator answers when a member of the other protocol comes or the last native one goes: a table.

`groupshift.domain.protocol.forecast.predict` takes the first row of an event whose condition holds; the last
row of each holds always. A native member speaks the consumer protocol (ConsumerGroupHeartbeat), a classic one
JoinGroup. Sources: KIP-848; docs/reference/group-coordinator.md §§5.2, 5.3;
docs/reference/coordinator-on-real-brokers.md §C; KAFKA-18134 and KAFKA-20640; what was seen here on 3.7.2 to
4.4.0 (docs/reference/protocol-on-real-brokers.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.group_protocol import (
    CONSUMERS,
    BrokerSettings,
    KafkaGroup,
    KafkaMember,
    Kind,
    Protocol,
)


class Event(StrEnum):
    """What a coordinator has to answer, or to react to."""

    NATIVE_JOINS = "a native member joins"
    CLASSIC_JOINS = "a classic member joins"
    LAST_NATIVE_LEAVES = "the last native member leaves"


class Outcome(StrEnum):
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
    def classic(self) -> tuple[KafkaMember, ...]:
        """The classic members."""
        return self.group.speaking(Protocol.CLASSIC)

    @property
    def live(self) -> bool:
        """Whether the group is of type consumer and has members."""
        return self.group.kind is Kind.CONSUMER and not self.group.empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``number`` is the row; ``kind`` what the group is afterwards (None: not known); ``code`` Kafka's error
    code (0: none); ``reason`` one clause; ``client`` what the member that came makes of it; ``remedy`` what
    lets it in, or lets the group convert."""

    number: str
    event: Event
    outcome: Outcome
    kind: Kind | None
    code: int = 0
    reason: str
    client: str = ""
    remedy: str = ""

    @property
    def refused(self) -> bool:
        """Whether the member does not get in."""
        return self.outcome is Outcome.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    number: str
    when: Callable[[Case], bool]
    outcome: Outcome
    kind: Kind | None = None
    code: int = 0
    reason: str
    client: str = ""


SILENT = (
    "librdkafka hands out one message with code -150 (fatal() is False, error_cb is not called) and is "
    "silent from then on; Java throws out of poll(); the other members go on"
)
RETRIES = "librdkafka tries again for ever and says so in error_cb; Java throws out of poll()"
_NONE = "a 2.10 or newer confluent-kafka says nothing at all to a broker before 4.0"
_CONSUMER, _CLASSIC = Kind.CONSUMER, Kind.CLASSIC
_NOT_TOLD = "the broker does not tell its migration policy"


def _joins_live_classic(case: Case) -> bool:
    return case.group.kind is Kind.CLASSIC and not case.group.empty


def _upgrades(case: Case) -> bool:
    return case.broker.policy is not None and case.broker.policy.upgrades


def _downgrades(case: Case) -> bool:
    return case.broker.policy is not None and case.broker.policy.downgrades


def _disabled(case: Case) -> bool:
    policy = case.broker.policy
    return policy is not None and not policy.upgrades and not policy.downgrades


def _taken(case: Case) -> bool:
    """A native member has the instance id and did not give it back."""
    return case.instance_id is not None and any(
        member.instance_id == case.instance_id and (member.epoch or 0) >= 0 for member in case.native
    )


def _perhaps_taken(case: Case) -> bool:
    """A member that has the instance id may be native: brokers before 4.0 do not tell."""
    held = (member.instance_id for member in case.group.undeclared)
    return case.instance_id is not None and case.instance_id in held


def _replaces_last(case: Case) -> bool:
    """The member that joins takes the place of the only native one."""
    return (
        case.instance_id is not None
        and not case.group.undeclared
        and [member.instance_id for member in case.native] == [case.instance_id]
    )


def _no_common_assignor(case: Case) -> bool:
    common = case.offers
    for offered in case.others:
        common &= offered
    return bool(case.offers) and bool(case.others) and not common


def _static_last(case: Case) -> bool:
    return any(member.instance_id for member in case.native)


def _always(_: Case) -> bool:
    return True


_NATIVE = (
    _Row(number="PN01", when=lambda c: bool(c.broker.serves), outcome=Outcome.REFUSED, code=35,
         reason="{serves}", client=f"{SILENT}; {_NONE}"),
    _Row(number="PN02", when=lambda c: c.group.kind is Kind.UNKNOWN, outcome=Outcome.UNKNOWN,
         reason="groupshift does not know this type of group"),
    _Row(number="PN03", when=lambda c: c.group.kind in {Kind.SHARE, Kind.STREAMS}, outcome=Outcome.REFUSED,
         code=69, reason="it is a {kind} group, which never converts to one of consumers", client=SILENT),
    _Row(number="PN04", when=lambda c: c.group.kind is Kind.ABSENT, outcome=Outcome.CREATED, kind=_CONSUMER,
         reason="there is no group yet, or offsets only, which it takes over"),
    _Row(number="PN05", when=lambda c: c.broker.early and c.group.kind is Kind.CLASSIC,
         outcome=Outcome.REFUSED, code=69, client=SILENT,
         reason="3.7 (early access) converts no group, not even an empty one"),
    _Row(number="PN06", when=lambda c: c.group.kind is Kind.CLASSIC and c.group.empty,
         outcome=Outcome.CONVERTS, kind=_CONSUMER, reason="an empty group converts under every policy"),
    _Row(number="PN07", when=lambda c: _joins_live_classic(c) and c.broker.policy is None,
         outcome=Outcome.UNKNOWN, reason=_NOT_TOLD),
    _Row(number="PN08", when=lambda c: _joins_live_classic(c) and not _upgrades(c), outcome=Outcome.REFUSED,
         code=69, reason="policy {policy} does not let a group with members become one of type consumer",
         client=SILENT),
    _Row(number="PN09", when=lambda c: _joins_live_classic(c) and c.group.protocol_type != CONSUMERS,
         outcome=Outcome.REFUSED, code=69, client=SILENT,
         reason="its protocol type is {type!r}, not consumer"),
    _Row(number="PN10", when=lambda c: _joins_live_classic(c) and c.size > c.broker.consumer_size,
         outcome=Outcome.REFUSED, code=69,
         reason="its {size} members are more than group.consumer.max.size ({consumer_size})", client=SILENT),
    _Row(number="PN11", when=lambda c: _joins_live_classic(c) and any(m.unreadable for m in c.group.members),
         outcome=Outcome.REFUSED, code=69, reason="a member's subscription or assignment cannot be read",
         client=SILENT),
    _Row(number="PN12", when=lambda c: _joins_live_classic(c) and c.broker.checks_user_data
         and any(m.user_data for m in c.group.members), outcome=Outcome.REFUSED, code=69,
         reason="assignor {protocol} puts data of its own into the members' assignments (KAFKA-18134)",
         client=SILENT),
    _Row(number="PN13", when=lambda c: _joins_live_classic(c) and c.size >= c.broker.consumer_size,
         outcome=Outcome.REFUSED, code=81, reason="with one more member than its {size} it would be above "
         "group.consumer.max.size ({consumer_size})", client=SILENT),
    _Row(number="PN14", when=_joins_live_classic, outcome=Outcome.CONVERTS, kind=_CONSUMER,
         reason="policy {policy} allows it; members keep ids and partitions, the epoch is the generation"),
    _Row(number="PN15", when=lambda c: c.live and _taken(c), outcome=Outcome.REFUSED, code=111,
         reason="a native member has instance id {instance_id!r} and did not leave", client=SILENT),
    _Row(number="PN16", when=lambda c: c.live and _perhaps_taken(c), outcome=Outcome.UNKNOWN,
         reason="a member has instance id {instance_id!r}, and this broker does not tell what it speaks"),
    _Row(number="PN17", when=lambda c: c.live and c.size >= c.broker.consumer_size, outcome=Outcome.REFUSED,
         code=81, reason="its {size} members are all that group.consumer.max.size ({consumer_size}) allows",
         client=SILENT),
    _Row(number="PN18", when=_always, outcome=Outcome.ADMITTED, kind=_CONSUMER,
         reason="the group is of type consumer already"),
)  # fmt: skip

_CLASSIC_JOINS = (
    _Row(number="PC01", when=lambda c: c.group.kind is Kind.UNKNOWN, outcome=Outcome.UNKNOWN,
         reason="groupshift does not know this type of group"),
    _Row(number="PC02", when=lambda c: c.group.kind is Kind.SHARE
         or (c.group.kind is Kind.STREAMS and not c.group.empty), outcome=Outcome.REFUSED, code=23,
         reason="it is a {kind} group", client=RETRIES),
    _Row(number="PC03", when=lambda c: c.group.kind is Kind.ABSENT, outcome=Outcome.CREATED, kind=_CLASSIC,
         reason="there is no group yet, or offsets only, which it takes over"),
    _Row(number="PC04", when=lambda c: c.group.kind in {Kind.CONSUMER, Kind.STREAMS} and c.group.empty,
         outcome=Outcome.CONVERTS, kind=_CLASSIC,
         reason="an empty group converts under every policy; generations begin at 1, offsets stay"),
    _Row(number="PC05", when=lambda c: c.live and c.size >= c.broker.consumer_size,
         outcome=Outcome.REFUSED, code=81, client=RETRIES,
         reason="its {size} members are all that group.consumer.max.size ({consumer_size}) allows"),
    _Row(number="PC06", when=lambda c: c.group.kind is Kind.CLASSIC and c.size >= c.broker.classic_size,
         outcome=Outcome.REFUSED, code=81, client=RETRIES,
         reason="its {size} members are all that group.max.size ({classic_size}) allows"),
    _Row(number="PC07", when=_no_common_assignor, outcome=Outcome.REFUSED, code=23,
         reason="no assignor that it offers is one that all classic members offer", client=RETRIES),
    _Row(number="PC08", when=lambda c: c.group.kind is Kind.CLASSIC, outcome=Outcome.ADMITTED, kind=_CLASSIC,
         reason="the group is of type classic already"),
    _Row(number="PC09", when=lambda c: c.broker.policy is None, outcome=Outcome.UNKNOWN, reason=_NOT_TOLD),
    _Row(number="PC10", when=lambda c: _disabled(c) and c.broker.refuses_classic, outcome=Outcome.REFUSED,
         code=23, reason="policy disabled lets no classic member into a live group of type consumer",
         client=RETRIES),
    _Row(number="PC11", when=_disabled, outcome=Outcome.ADMITTED, kind=_CONSUMER,
         reason="this release admits it in spite of policy disabled (KAFKA-20640); the group never converts"),
    _Row(number="PC12", when=lambda c: _replaces_last(c) and _downgrades(c)
         and c.broker.general and c.size <= c.broker.classic_size, outcome=Outcome.CONVERTS, kind=_CLASSIC,
         reason="it takes the place of the last native member, whose instance id it has"),
    _Row(number="PC13", when=_always, outcome=Outcome.ADMITTED, kind=_CONSUMER,
         reason="the group stays of type consumer as long as a native member is in it"),
)  # fmt: skip

_LAST_LEAVES = (
    _Row(number="PL01", when=lambda c: c.group.kind is not Kind.CONSUMER, outcome=Outcome.NOTHING,
         reason="only groups of type consumer have native members"),
    _Row(number="PL02", when=lambda c: bool(c.group.undeclared), outcome=Outcome.UNKNOWN, kind=None,
         reason="brokers before 4.0 do not tell which protocol a member speaks"),
    _Row(number="PL03", when=lambda c: not c.native, outcome=Outcome.NOTHING, kind=_CONSUMER,
         reason="no member is native"),
    _Row(number="PL04", when=lambda c: not c.classic, outcome=Outcome.EMPTIED, kind=_CONSUMER,
         reason="nobody is left; the first classic member that joins then converts the group"),
    _Row(number="PL05", when=lambda c: c.broker.policy is None, outcome=Outcome.UNKNOWN, reason=_NOT_TOLD),
    _Row(number="PL06", when=lambda c: not _downgrades(c), outcome=Outcome.STAYS, kind=_CONSUMER,
         reason="policy {policy} keeps it of type consumer, with classic members only"),
    _Row(number="PL07", when=lambda c: len(c.classic) > c.broker.classic_size, outcome=Outcome.STAYS,
         kind=_CONSUMER,
         reason="its {classic} classic members are more than group.max.size ({classic_size})"),
    _Row(number="PL08", when=_static_last, outcome=Outcome.LATER, kind=_CLASSIC,
         reason="a static member that closes stays a member until its session ends ({session} ms)"),
    _Row(number="PL09", when=_always, outcome=Outcome.CONVERTS, kind=_CLASSIC,
         reason="policy {policy} allows it; the generation goes on from the epoch, and members rebalance"),
)  # fmt: skip

TABLE = {
    Event.NATIVE_JOINS: _NATIVE,
    Event.CLASSIC_JOINS: _CLASSIC_JOINS,
    Event.LAST_NATIVE_LEAVES: _LAST_LEAVES,
}
"""Every row by event, in the order in which they are asked."""
