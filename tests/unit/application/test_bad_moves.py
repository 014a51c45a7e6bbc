"""Bad input to the moves of the protocol and of brokers: one sentence with field, value and remedy each, and
nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from groupshift.adapters.groups import KafkaGroupReader
from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_run import begin, plan_run
from groupshift.bootstrap import App
from groupshift.domain.cluster import ClusterView
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
from groupshift.domain.versions import Version
from groupshift.errors import Rejected
from groupshift.moves.downgrade.releases import target_of
from groupshift_testing.offset_brokers import MemoryProtocolViews
from support.protocol_groups import broker, classic, view
from support.simulated_downgrade import Group, World, tools_of, two_of_43
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


@dataclass
class Odd(World):
    """A world whose view is changed before anybody sees it."""

    odd: Callable[[ClusterView], ClusterView] = lambda view: view

    def look(self) -> ClusterView:
        """See the port."""
        return self.odd(World.look(self))


def cluster(odd: Callable[[ClusterView], ClusterView] = lambda view: view, **groups: Group) -> Odd:
    """Two brokers of 4.3.1 with these groups besides."""
    usual = two_of_43()
    return Odd(
        groups=usual.groups | groups,
        releases=usual.releases,
        coordinators=usual.coordinators,
        features=usual.features,
        group_configs=usual.group_configs,
        odd=odd,
    )


def leaderless(seen: ClusterView) -> ClusterView:
    """The metadata quorum lost its leader."""
    assert seen.quorum is not None
    return replace(seen, quorum=replace(seen.quorum, leader=-1))


def silent(seen: ClusterView) -> ClusterView:
    """No controller answers at all."""
    return replace(seen, quorum=None, quorum_problem="timed out after 5 s")


@pytest.mark.parametrize(
    ("world", "to", "said"),
    [
        (cluster(shared=Group(kind=Kind.SHARE)), "3.9.2", ("W06", "'shared'", "delete the groups")),
        (cluster(flow=Group(kind=Kind.STREAMS)), "3.9.2", ("W06", "'flow'", "delete the groups")),
        (
            cluster(leaderless),
            "3.9.2",
            ("the metadata quorum has no leader", WAIT),
        ),
        (cluster(silent), "3.9.2", ("no controller answers: timed out after 5 s", WAIT)),
        (
            replace(cluster(), releases={1: "4.3.1", 2: "4.2.1"}),
            "3.9.2",
            ("several releases", ONE_RELEASE),
        ),
        (cluster(), "4.3.1", ("is what runs already", "name an older release with --to")),
    ],
)
def test_a_downgrade_that_cannot_be_is_refused_before_anything(
    world: Odd, to: str, said: tuple[str, ...]
) -> None:
    """Planning says it, and no run begins; the sentence has the remedy too."""
    tools = tools_of(world)
    planned = plan_run(tools, DowngradeRequest(target=target_of(to), said=Version.parse("4.3.1")))
    assert not planned.possible
    with pytest.raises(Rejected, match="the downgrade may not begin, nothing was changed") as refused:
        begin(tools, planned)
    assert all(each in str(refused.value) for each in said), refused.value
    assert (world.asked, tools.runs.open_of("cluster")) == ([], None)


def test_releases_that_are_none_are_refused() -> None:
    """Both options are named, with what is known."""
    for wrong, said in (
        ("9.9.9", "--to 9.9.9 is no release that groupshift knows"),
        ("four", f"--to 'four' {ALL_NUMBERS}"),
    ):
        with pytest.raises(Rejected, match=said):
            target_of(wrong)
    tools = tools_of(two_of_43())
    asked = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("9.9.9"))
    planned = plan_run(tools, asked)
    with pytest.raises(Rejected, match=r"not 9\.9\.9.*correct --from"):
        begin(tools, planned)


def test_a_group_of_connect_workers_is_no_obstacle_to_a_downgrade() -> None:
    """It is classic on every release: named in the findings, and left as it is."""
    world = cluster(workers=Group(kind=Kind.CLASSIC))
    planned = plan_run(
        tools_of(world), DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    )
    assert planned.possible
