"""The plan of a downgrade: the order of its steps, what undoes each, and the order of the nodes."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.domain.cluster import Asked, ClusterView, QuorumView
from groupshift.domain.group_protocol import PROTOCOLS, Kind
from groupshift.domain.run import Step
from groupshift.moves.downgrade.facts import DowngradeFacts, DowngradeRequest, log_facts
from groupshift.moves.downgrade.plan_and_rollback import FORWARD_ONLY, inverse, node_order, way
from groupshift.moves.downgrade.releases import INTER_BROKER, target_of
from support.coordinator_story import consumer_group, log
from support.downgrade_clusters import broker, cluster, listed

NATIVE = [listed("busy", Kind.CONSUMER), listed("left", Kind.CONSUMER, state="Empty"), listed("classic")]


def planned(view: ClusterView, to: str = "3.9.2") -> list[Step]:
    """The plan with a log that holds both native groups."""
    target = target_of(to)
    records = [*log(*consumer_group("busy")), *log(*consumer_group("left"), start=10)]
    found = DowngradeFacts(view=view, target=target, log=log_facts(records, target))
    return list(way(DowngradeRequest(to=to), found))


def acts(view: ClusterView, to: str = "3.9.2") -> list[tuple[str, str]]:
    """What is done to what."""
    return [(each.kind, each.subject) for each in planned(view, to)]


def full(features: Mapping[str, int]) -> ClusterView:
    """Everything that a plan can have to do."""
    return cluster(
        broker(1, groups=NATIVE, properties={PROTOCOLS: "classic,streams"}),
        features=features,
        group_configs={"busy": {"consumer.session.timeout.ms": "50000"}},
        configs_asked=Asked.EVERY,
    )


def test_consumers_come_first_then_metadata_then_the_nodes() -> None:
    """The whole order of docs/reference/group-coordinator.md §6.1."""
    assert acts(full({"metadata.version": 22, "group.version": 1})) == [
        ("approve", "plan"), ("snapshot", "A"), ("convert", "busy"), ("convert-empty", "left"),
        ("compare", "B"), ("delete-configs", "busy"), ("lower", "group.version"),
        ("lower", "metadata.version"), ("await-snapshot", "__cluster_metadata"), ("edit-properties", "1"),
        ("prove", "3.9.2"), ("compare", "C0"), ("replace", "1"), ("compare", "C1"),
    ]  # fmt: skip


def test_compaction_is_forward_only_and_comes_before_the_brokers() -> None:
    """Only where the target needs it."""
    view = cluster(broker(release="3.9.2", groups=NATIVE), features={"metadata.version": 8})
    found = planned(view, "3.4.0")
    kinds = [each.kind for each in found]
    assert [inverse(each) for each in found if each.kind == "compact"] == [FORWARD_ONLY]
    assert kinds.index("compact") < kinds.index("replace")
    assert "compact" not in {each.kind for each in planned(view, "3.4.1")}


def test_every_step_that_changes_something_names_its_inverse() -> None:
    """Or says that there is none; all have a proof."""
    found = planned(full({"metadata.version": 22, "group.version": 1}))
    observing = {"approve", "snapshot", "compare", "await-snapshot", "prove"}
    assert {each.kind for each in found if not inverse(each)} == observing
    assert all(each.does and (each.proof or each.kind == "approve") for each in found)
    lowered = next(each for each in found if each.subject == "group.version")
    assert inverse(lowered) == "upgrade group.version to 1"
    configs = next(each for each in found if each.kind == "delete-configs")
    assert inverse(configs) == (
        f"set the configurations of group {configs.subject!r} again: consumer.session.timeout.ms=50000"
    )


def test_a_prepared_cluster_has_only_its_nodes_left() -> None:
    """One after the other, with a comparison after each."""
    view = cluster(broker(1), broker(2), features={"metadata.version": 25})
    found = [each for each in planned(view, "4.2.1") if each.kind != "compare"]
    assert [(each.kind, each.subject) for each in found] == [
        ("approve", "plan"), ("snapshot", "A"), ("await-snapshot", "__cluster_metadata"), ("prove", "4.2.1"),
        ("replace", "2"), ("replace", "1"),
    ]  # fmt: skip
    assert all("--move downgrade" in each.proof for each in found if each.kind == "replace")


def test_with_zookeeper_the_inter_broker_version_is_lowered_first() -> None:
    """In the place of features, broker after broker, before any gets other jars."""
    spoken = [broker(1, "3.9.2"), broker(2, "3.9.2", properties={INTER_BROKER: "3.9"})]
    view = cluster(*spoken, features={}, kraft=False, quorum=None, controller=1)
    changing = {"lower-inter-broker", "replace"}
    assert [each for each in acts(view, "3.5.2") if each[0] in changing] == [
        ("lower-inter-broker", "1"), ("lower-inter-broker", "2"), ("replace", "2"), ("replace", "1"),
    ]  # fmt: skip


def test_there_is_no_plan_where_there_is_no_way() -> None:
    """A change of the metadata log, or a target that is not older."""
    assert planned(cluster(features={"metadata.version": 30}), "4.2.1") == []
    assert planned(cluster(), "4.4.0") == []


def test_brokers_go_before_controllers_and_the_leader_last() -> None:
    """Combined or not; without a quorum (ZooKeeper mode) the controller is last."""
    brokers = [broker(node) for node in (1, 2, 3)]
    apart = cluster(*brokers, quorum=QuorumView(leader=102, voters=(101, 102, 103), high_watermark=1))
    assert node_order(apart) == (1, 2, 3, 101, 103, 102)
    mixed = cluster(*brokers, quorum=QuorumView(leader=1, voters=(1, 3), high_watermark=1))
    assert node_order(mixed) == (2, 3, 1)
    assert node_order(cluster(*brokers, quorum=None, kraft=False, controller=2)) == (1, 3, 2)
