"""Groups, members and brokers of a protocol move, made for tests of rules."""

from __future__ import annotations

from dataclasses import replace

from groupshift.domain.group_protocol import (
    ASSIGNMENT_INTERVAL,
    ASSIGNORS,
    POLICY,
    PROTOCOLS,
    SESSION,
    BrokerLook,
    BrokerSettings,
    KafkaGroup,
    KafkaMember,
    Kind,
    Policy,
    Protocol,
    ProtocolView,
)


def broker(policy: Policy | None = Policy.BIDIRECTIONAL, **other: object) -> BrokerSettings:
    """A 4.3.1."""
    told = {PROTOCOLS: "classic,consumer,streams", ASSIGNMENT_INTERVAL: "1000", ASSIGNORS: "uniform,range"}
    told[SESSION] = "45000"
    policies = {} if policy is None else {POLICY: policy.value}
    usual = BrokerSettings(
        heartbeats=1, listings=5, descriptions=6, features={"group.version": 1}, properties=told | policies
    )
    return replace(usual, **other)  # type: ignore[arg-type]


def member(speaks: Protocol | None, number: int = 1, **other: object) -> KafkaMember:
    """One of them."""
    usual = KafkaMember(member_id=f"m{number}", client_id=f"c{number}", speaks=speaks)
    return replace(usual, **other)  # type: ignore[arg-type]


def classic(size: int = 2, /, **other: object) -> KafkaGroup:
    """A classic group."""
    usual = KafkaGroup(
        group="g",
        kind=Kind.CLASSIC,
        state="Stable" if size else "Empty",
        protocol_type="consumer",
        protocol="range",
        members=tuple(member(Protocol.CLASSIC, n) for n in range(size)),
    )
    return replace(usual, **other)  # type: ignore[arg-type]


def consumer(native: int = 2, old: int = 0, **other: object) -> KafkaGroup:
    """A group of type consumer."""
    natives = (member(Protocol.CONSUMER, n, epoch=3) for n in range(native))
    olds = (member(Protocol.CLASSIC, 10 + n, epoch=3) for n in range(old))
    usual = KafkaGroup(
        group="g",
        kind=Kind.CONSUMER,
        state="Stable" if native + old else "Empty",
        protocol_type="consumer",
        protocol="uniform",
        members=(*natives, *olds),
    )
    return replace(usual, **other)  # type: ignore[arg-type]


def view(group: KafkaGroup, *at: BrokerSettings, coordinator: int = 1) -> ProtocolView:
    """A group at brokers 1, 2, … with these settings (one as `broker` makes it), all of one mind."""
    looks = tuple(
        BrokerLook(
            node_id=number,
            settings=settings,
            lists=group.kind if number == coordinator and group.kind is not Kind.ABSENT else None,
            state=group.state,
            coordinator=coordinator,
        )
        for number, settings in enumerate(at or (broker(),), 1)
    )
    described = replace(group, coordinator=coordinator)
    return ProtocolView(cluster_id="c", taken_at_ms=1, group=described, brokers=looks)
