"""Bad input to the moves of the protocol and of brokers: one sentence with field, value and remedy each, and
nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from groupshift.adapters.groups import KafkaGroupReader
from groupshift.bootstrap import App
from groupshift.domain.group_protocol import (
    BrokerSettings,
    Kind,
    Policy,
    Protocol,
    ProtocolGroup,
    ProtocolView,
)
from groupshift.domain.plan import MoveName
from groupshift.domain.rows import ClusterState
from groupshift.errors import Rejected
from groupshift_testing.offset_brokers import MemoryProtocolViews
from support.protocol_groups import broker, classic, view
from support.simulated_move import Bench


@dataclass(frozen=True, slots=True)
class NoOffsets:
    """A cluster whose groups have committed nothing."""

    def take(self, groups: object = None, *, progress: object = None) -> ClusterState:  # noqa: ARG002 - the port's
        """See `GroupSnapshots`."""
        return ClusterState(cluster_id="c", taken_at_ms=1)

    def cluster_id(self) -> str:
        """See `GroupSnapshots`."""
        return "c"

    def close(self) -> None:
        """Nothing is open."""


def refused_move(bench: Bench, seen: ProtocolView, **values: object) -> str:
    """What a plan of the protocol's move ends with over a cluster that looks so; the journal stays empty."""
    bench.fleet.pending = True
    reader = KafkaGroupReader(MemoryProtocolViews([seen]), NoOffsets())
    app = App(replace(bench.environment(), groups=reader))
    given: dict[str, object] = {"group": "g", "move": MoveName.PROTOCOL, "to": Protocol.CONSUMER}
    with pytest.raises(Rejected) as refused:
        app.plan(bench.request(**(given | {"driver": "manual"} | values)))
    assert bench.journal.recent(9) == ()
    return str(refused.value)


def of_kind(kind: Kind) -> ProtocolGroup:
    """The group g, of this type."""
    return ProtocolGroup(group="g", kind=kind, state="Stable")


ONE_RELEASE, ALL_NUMBERS = "bring all brokers to one release", "is no version; give all its numbers"
WAIT = "wait until the cluster has a controller"
OLD_BROKER = broker(None, features={}, heartbeats=-1, listings=4, descriptions=5)


@pytest.mark.parametrize(
    ("group", "brokers", "said"),
    [
        (
            of_kind(Kind.SHARE),
            (),
            ("group g is a share group", "leave it out"),
        ),
        (
            of_kind(Kind.STREAMS),
            (),
            ("group g is a streams group", "leave it out"),
        ),
        (classic(2, protocol_type="connect"), (), ("group g is of protocol type connect", "leave it out")),
        (
            of_kind(Kind.ABSENT),
            (),
            ("no broker knows group g", "check the name"),
        ),
        (
            classic(),
            (broker(), OLD_BROKER),
            ("native members are served", "broker 2", ONE_RELEASE),
        ),
        (classic(), (broker(Policy.DISABLED),), ("P08", "group.consumer.migration.policy", "--offline")),
    ],
)
def test_a_protocol_move_that_cannot_be_is_refused(
    bench: Bench, group: ProtocolGroup, brokers: tuple[BrokerSettings, ...], said: tuple[str, ...]
) -> None:
    """Whatever the group or its brokers are that it cannot be made with."""
    sentence = refused_move(bench, view(group, *brokers))
    assert all(each in sentence for each in said), sentence


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"to": None}, "to is missing: name the protocol, classic or consumer"),
        ({"group": ""}, "group '' has 0 characters"),
        ({"canary": 0}, "canary 0 is less than 1 member"),
        (
            {"clients": ("confluent-kafka=two",)},
            f"--client confluent-kafka 'two' {ALL_NUMBERS}",
        ),
        ({"brokers": ("four",)}, f"--broker 'four' {ALL_NUMBERS}"),
    ],
)
def test_a_value_of_a_protocol_move_is_named(bench: Bench, values: dict[str, object], said: str) -> None:
    """With what would be right."""
    sentence = refused_move(bench, view(classic()), **values)
    assert said in sentence
