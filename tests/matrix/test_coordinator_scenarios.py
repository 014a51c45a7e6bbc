"""Scenarios of the group coordinator that need brokers of their own.

22 to 25 are in `tests/live`, 31 and 31b in `test_rolling_releases` and `test_downgrade`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from groupshift.adapters.kafka.broker_views import LiveProtocolViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.system import SystemClock
from groupshift.bootstrap.connect import cluster_acts
from groupshift.domain.group_protocol import POLICY, Kind, Protocol
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.protocol.live_rules import settled
from groupshift.domain.verdict import Verdict
from groupshift.log.commit_hashes import LiveCommit, live_commits
from groupshift.settings import KafkaSettings
from groupshift.spark.broker_source import Brokers
from groupshift.spark.copied_log import DirectLog
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, to_release
from groupshift_sandbox.metadata_log import await_snapshots
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.rolling import Adoption, replace_node, roll
from groupshift_sandbox.servers import stop_all
from support.classic_member import ClassicMember, assignment
from support.coordinator_members import records_of
from support.downgrade_story import Assessed, cluster_of, groups_at
from support.protocol_story import Story, story

pytestmark = pytest.mark.timeout(900)

STAY_39 = ("--release-version", "3.9", "--feature", "group.version=1")
SNAPSHOTS = {"metadata.log.max.snapshot.interval.ms": "5000", "broker.session.timeout.ms": "12000"}
SESSION = "consumer.session.timeout.ms"


@contextmanager
def told_by(folder: Path, properties: dict[str, str]) -> Iterator[Story]:
    """A story at a 4.3.1 with these properties."""
    with (
        cluster_of(folder, KraftOptions(heap="320m", properties=properties)) as cluster,
        story(cluster.bootstrap) as told,
    ):
        yield told


def test_coordinator_26_under_policy_upgrade_a_group_stays_one_of_type_consumer(
    tmp_path: Path,
) -> None:
    """Classic members are all it has, and the rules of `watch` find out by the type."""
    with cluster_of(tmp_path, KraftOptions(heap="320m", properties={POLICY: "upgrade"})) as cluster:
        with story(cluster.bootstrap) as told:
            live = told.native()
            joined = told.join_classic(live.group)
            joined.check()
            left = told.last_leaves(live)
            left.check()
            found = told.look(live.group)
        assert (joined.code, found.kind) == (0, Kind.CONSUMER)
        assert [each.speaks for each in found.members] == [Protocol.CLASSIC]
        views = LiveProtocolViews(KafkaCluster(cluster.bootstrap, timeout_s=60.0), SystemClock())
        with closing(views):
            judged = settled(views.look(live.group), Protocol.CLASSIC)
        assert "PS01" in {each.rule for each in judged if each.verdict is Verdict.FAIL}


def test_coordinator_27_a_static_member_that_was_closed_keeps_the_type_until_its_session_ends(
    tmp_path: Path,
) -> None:
    """Epoch -2 is no leaving: with classic members only beside it the group converts when it is fenced."""
    with told_by(tmp_path, {}) as told:
        static = told.native(instance_id="kept")
        told.join_classic(static.group).check()
        static.pause()
        found = told.look(static.group)
        assert found.kind is Kind.CONSUMER
        assert {each.epoch for each in found.members if each.instance_id == "kept"} == {-2}
        wait_until(
            lambda: told.look(static.group).kind is Kind.CLASSIC, 300.0, "the group is classic", every_s=0.5
        )
        assert [each.instance_id for each in told.look(static.group).members] == [None]


def test_coordinator_28_a_group_configuration_left_behind_is_lost_and_was_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """3.9.2 writes a metadata snapshot without it: back at 4.3.1 it is gone. The preflight names it."""
    options = KraftOptions(heap="320m", format_arguments=STAY_39, properties=SNAPSHOTS)
    with cluster_of(tmp_path, options) as cluster:
        create_topic(cluster.bootstrap, "orders", 1)
        acts = cluster_acts(KafkaSettings(bootstrap_servers=cluster.bootstrap), timeout_s=60.0)
        with groups_at(cluster.bootstrap, "orders") as groups:
            commit(groups.cluster, {"configured": {TopicPartition("orders", 0): (1, "")}})
            acts.configure_group("configured", {SESSION: "50000"})
            told = {"configured": {SESSION: "50000"}}
            wait_until(lambda: groups.look().group_configs == told, 90.0, "its configuration is told")
            refused = Assessed(cluster.bootstrap, capsys, "3.9.2", "--from", "4.3.1")
            assert (refused.document["verdict"], "W10" in refused.failed) == ("fail", True)
            assert "group 'configured'" in refused.said("W10")[0]
            acts.lower_feature("group.version", 0)
            acts.close()
        await_snapshots(cluster)
        older, _ = replace_node(cluster, 1, to_release("3.9.2"))
        await_snapshots(older)
        again, _ = replace_node(older, 1, to_release("4.3.1"))
        with groups_at(again.bootstrap, "orders") as groups:
            assert groups.look().group_configs == {}


def records(cluster: Cluster) -> tuple[LiveCommit, ...]:
    """Every live commit of the log now."""
    log = DirectLog(Brokers(bootstrap_servers=cluster.bootstrap, timeout_s=60.0))
    return live_commits(log.read(log.position()))


def last_state(cluster: Cluster, group: str) -> tuple[int, list[str]]:
    """Generation and member ids that the log has of a classic group."""
    found = [each for each in records_of(cluster.bootstrap, group) if each.record_type == 2 and each.decoded]
    state = found[-1].decoded or {}
    return state["generation"], [each["memberId"] for each in state["members"]]


def test_coordinator_30_brokers_of_40_roll_to_39_and_every_record_stays(tmp_path: Path) -> None:
    """20 groups at rest under a controller that stays: after each node the SHA-256 of every live commit is
    equal, and a classic group keeps its member and its generation."""
    home = Home(tmp_path / "home").create()
    options = KraftOptions(
        release="4.0.2", nodes=2, controllers=1, heap="320m", format_arguments=STAY_39, properties=SNAPSHOTS
    )
    try:
        cluster = start_kraft(home, options)
        create_topic(cluster.bootstrap, "orders", 3)
        with groups_at(cluster.bootstrap, "orders") as groups:
            offsets = {
                f"idle-{n}": {TopicPartition("orders", p): (n + p, "m") for p in range(3)} for n in range(20)
            }
            commit(groups.cluster, offsets)
            member = member_of(groups.cluster, "classic")
        acts = cluster_acts(KafkaSettings(bootstrap_servers=cluster.bootstrap), timeout_s=60.0)
        acts.lower_feature("group.version", 0)
        acts.close()
        await_snapshots(cluster)
        before, nodes = records(cluster), []
        assert len(before) == 60
        assert last_state(cluster, "classic") == (member.generation, [member.member_id])

        def equal(now: Cluster, seen: Adoption) -> None:
            assert records(now) == before
            assert last_state(now, "classic") == (member.generation, [member.member_id])
            nodes.append(seen.node.node_id)

        brokers = [node.node_id for node in cluster.brokers]
        cluster, _ = roll(cluster, to_release("3.9.2"), node_ids=brokers, after=equal)
        assert nodes == brokers
        assert [node.release for node in cluster.nodes] == ["3.9.2", "3.9.2", "4.0.2"]
    finally:
        stop_all(home, last=("kraft-101",))


def member_of(cluster: KafkaCluster, group: str) -> ClassicMember:
    """A stable classic member that says nothing for five minutes and is one still."""
    found: list[ClassicMember] = []

    def joined() -> None:
        nodes, _ = cluster.coordinators([group])
        found[:] = [ClassicMember(cluster.broker(nodes[group]), group, ["orders"])]
        found[0].join()

    cluster.attempt(joined)
    found[0].sync(assignment({"orders": [0, 1, 2]}))
    return found[0]
