"""From the table of answers to one answer, and to those that a whole move will meet, in their order."""

from __future__ import annotations

from dataclasses import replace

from groupshift.domain.group_protocol import (
    EMPTY,
    SESSION,
    BrokerSettings,
    KafkaGroup,
    KafkaMember,
    Kind,
    Protocol,
    Way,
)
from groupshift.domain.protocol.answers import TABLE, Answer, Case, Event
from groupshift.domain.protocol.remedies import REMEDIES


def predict(event: Event, case: Case) -> Answer:
    """The answer to ``event``: that of the first row whose condition holds."""
    row = next(row for row in TABLE[event] if row.when(case))
    return Answer(
        number=row.number,
        event=event,
        outcome=row.outcome,
        kind=row.kind,
        code=row.code,
        reason=row.reason.format(**_values(case)),
        client=row.client,
        remedy=REMEDIES.get(row.number, ""),
    )


def forecast(to: Protocol, way: Way, group: KafkaGroup, broker: BrokerSettings) -> tuple[Answer, ...]:
    """What the coordinator answers on the way: offline to the first member that joins the emptied group,
    online to the first, which takes the place of one that was stopped, and on the way to classic to the last
    native member that leaves."""
    first = Event.NATIVE_JOINS if to is Protocol.CONSUMER else Event.CLASSIC_JOINS
    if way is Way.OFFLINE:
        return (predict(first, Case(group=emptied(group), broker=broker)),)
    joined = predict(first, Case(group=one_stopped(group, to), broker=broker))
    if to is Protocol.CONSUMER or group.kind is not Kind.CONSUMER or group.empty:
        return (joined,)
    left = predict(Event.LAST_NATIVE_LEAVES, Case(group=nearly_classic(group), broker=broker))
    return (joined, left) if len(group.members) > 1 else (left, joined)


def way_back(group: KafkaGroup, broker: BrokerSettings) -> tuple[Answer, ...]:
    """What the way back online meets once all members of this classic group are native."""
    natives = tuple(_as(member, Protocol.CONSUMER) for member in group.members)
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
    free = sorted(group.members, key=lambda m: (m.speaks is to, bool(m.user_data or m.unreadable)))
    return replace(group, members=tuple(member for member in group.members if member is not free[0]))


def nearly_classic(group: KafkaGroup) -> KafkaGroup:
    """The group with one native member left, a static one if there is any, and the others classic."""
    if group.undeclared:
        return group
    by_chance = sorted(
        group.members, key=lambda m: (m.speaks is Protocol.CONSUMER, m.instance_id is not None)
    )
    *others, last = by_chance
    members = (*(_as(member, Protocol.CLASSIC) for member in others), last)
    return replace(group, members=members)


def _as(member: KafkaMember, protocol: Protocol) -> KafkaMember:
    return replace(member, speaks=protocol)


def _values(case: Case) -> dict[str, object]:
    broker, group = case.broker, case.group
    return {
        "policy": broker.policy or "",
        "serves": broker.serves,
        "kind": group.kind.value,
        "type": group.protocol_type,
        "protocol": group.protocol or "the assignor",
        "size": case.size,
        "classic": len(case.classic),
        "consumer_size": broker.consumer_size,
        "classic_size": broker.classic_size,
        "instance_id": case.instance_id,
        "session": broker.properties.get(SESSION, "group.consumer.session.timeout.ms"),
    }
