"""Coordinators that move while groups are read: three KRaft nodes, one stopped and started again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from groupshift.adapters.kafka.broker_views import LiveProtocolViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots, listing
from groupshift.adapters.kafka.wire import BrokerError
from groupshift.adapters.system import SystemClock
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC
from groupshift.domain.group_protocol import Kind, Policy, ProtocolView
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.protocol.preflight import disagreements
from groupshift.domain.rows import ClusterState
from groupshift_sandbox.committing import commit
from groupshift_sandbox.elections import lead_as_preferred
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, unchanged
from groupshift_sandbox.processes import known, marked, stop, wait_until
from groupshift_sandbox.readiness import leaders_of
from groupshift_sandbox.rolling import replace_node
from groupshift_sandbox.servers import await_node, start_node

GROUPS = [f"g{number}" for number in range(60)]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three combined nodes of 4.3.1."""
    home = Home(tmp_path_factory.mktemp("three")).create()
    try:
        yield start_kraft(home, KraftOptions(nodes=3, heap="320m"))
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


def offsets(state: ClusterState) -> dict[tuple[str, int], int]:
    """Committed offsets by group and partition."""
    return {(row.group, row.partition): row.offset for row in state.offsets}


def coordinators(state: ClusterState) -> dict[str, int | None]:
    """Node id of each group's coordinator."""
    return {row.group: row.coordinator for row in state.groups}


class Stale(KafkaCluster):
    """Looks coordinators up, but answers the first time as if each were still on the node before."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, timeout_s=60.0)
        self.asked: list[int] = []

    def coordinators(self, groups: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
        """The right ones from the second time on."""
        wanted = set(groups)
        nodes, errors = super().coordinators(wanted)
        self.asked.append(len(wanted))
        if len(self.asked) == 1:
            nodes = {group: node % 3 + 1 for group, node in nodes.items()}
        return nodes, errors


def test_a_broker_that_is_no_coordinator_any_more_is_not_believed(three: Cluster) -> None:
    """Every group is asked of a wrong broker first, which answers 16: it is looked up and asked again."""
    right = KafkaCluster(three.bootstrap, timeout_s=60.0)
    create_topic(three.bootstrap, "payments", 1)
    commit(right, {f"p-{group}": {TopicPartition("payments", 0): (5, "")} for group in GROUPS})
    right.close()
    stale = Stale(three.bootstrap)
    snapshots = LiveGroupSnapshots(stale, SystemClock(), patience_s=60.0)
    try:
        state = snapshots.take([f"p-{group}" for group in GROUPS])
    finally:
        snapshots.close()
    assert stale.asked[:2] == [len(GROUPS), len(GROUPS)]
    assert offsets(state) == {(f"p-{group}", 0): 5 for group in GROUPS}
    assert {row.state for row in state.groups} == {"Empty"}
    assert state.problems == []


def test_groups_are_read_whole_while_their_coordinators_move(three: Cluster) -> None:
    """With connections that are still to a stopped node, then with one that loads: offsets stay equal, the
    coordinators are new ones, and no group is missing."""
    cluster = KafkaCluster(three.bootstrap, timeout_s=60.0)
    snapshots = LiveGroupSnapshots(cluster, SystemClock(), patience_s=60.0)
    try:
        create_topic(three.bootstrap, "orders", 3)
        wanted = {g: {TopicPartition("orders", p): (n, "") for p in range(3)} for n, g in enumerate(GROUPS)}
        commit(cluster, wanted)
        before = snapshots.take(GROUPS)
        assert set(coordinators(before).values()) == {1, 2, 3}
        node = three.nodes[1]
        running = known(three.home, node.name)
        assert running is not None
        stop(running, 30.0)
        during = snapshots.take(GROUPS)
        assert set(coordinators(during).values()) == {1, 3}
        assert offsets(during) == offsets(before)
        assert len(offsets(during)) == 3 * len(GROUPS)
        await_node(three, node, start_node(three, node))
        seen: list[ClusterState] = []

        def back() -> bool:
            seen.append(snapshots.take(GROUPS))
            return set(coordinators(seen[-1]).values()) == {1, 2, 3}

        wait_until(back, 90.0, "node 2 coordinates groups again", every_s=0.2)
        assert all(offsets(state) == offsets(before) for state in seen)
    finally:
        snapshots.close()


def committed(three: Cluster, topic: str) -> set[str]:
    """The names of groups that committed to a new topic, which every broker knew before."""
    create_topic(three.bootstrap, topic, 1)
    wait_until(
        lambda: all(leaders_of(node.address, topic) for node in three.brokers),
        30.0,
        f"every broker knows topic {topic}",
    )
    groups = {f"{topic}-{group}" for group in GROUPS}
    with closing(KafkaCluster(three.bootstrap, timeout_s=60.0)) as cluster:
        commit(cluster, {group: {TopicPartition(topic, 0): (5, "")} for group in groups})
    return groups


class Unsettled(KafkaCluster):
    """Answers some of its questions to all brokers (counted from 1) as while the offsets topic moves."""

    def __init__(self, bootstrap: str, unsettle: Callable[[Any], Any], asked: Collection[int]) -> None:
        super().__init__(bootstrap, timeout_s=60.0)
        self._unsettle, self._asked, self._count = unsettle, asked, 0

    def ask_brokers(
        self, questions: Callable[[BrokerConnection, int], Iterable[Any]]
    ) -> dict[int, list[Any]]:
        """The answers, some of them other ones."""
        self._count += 1
        answers = super().ask_brokers(questions)
        if self._count not in self._asked:
            return answers
        return {node: [self._unsettle(each) for each in given] for node, given in answers.items()}


def newer_epoch(answer: Any) -> Any:
    """Metadata with a leader that was elected since."""
    if not hasattr(answer, "topics"):
        return answer
    (topic,) = answer.topics
    first, *others = topic.partitions
    moved = (replace(first, leader_epoch=type(first.leader_epoch)(first.leader_epoch + 1)), *others)
    return replace(answer, topics=(replace(topic, partitions=moved),))


def no_leader(answer: Any) -> Any:
    """Metadata with a partition that nobody leads."""
    if not hasattr(answer, "topics"):
        return answer
    (topic,) = answer.topics
    first, *others = topic.partitions
    nobody = replace(first, leader_id=type(first.leader_id)(-1))
    return replace(answer, topics=(replace(topic, partitions=(nobody, *others)),))


def not_yet(answer: Any) -> Any:
    """A description by a broker that leads a partition and does not serve it yet."""
    described = getattr(answer, "groups", ())
    if not described or not hasattr(described[0], "members"):
        return answer
    first, *others = described
    return replace(answer, groups=(replace(first, error_code=ErrorCode.not_coordinator), *others))


@pytest.mark.parametrize(
    ("unsettle", "asked"),
    [(newer_epoch, {1}), (newer_epoch, {4}), (no_leader, {1}), (no_leader, {4}), (not_yet, {3})],
    ids=[
        "moved during the listing",
        "moved after the listing",
        "no leader",
        "no leader any more",
        "not served yet",
    ],
)
def test_a_listing_while_a_partition_moves_does_not_count(
    three: Cluster, unsettle: Callable[[Any], Any], asked: Collection[int], request: pytest.FixtureRequest
) -> None:
    """It is refused as what may be asked again, and asked again; groups that are named are listed anyway."""
    groups = committed(three, f"t{abs(hash(request.node.callspec.id))}")
    with closing(Unsettled(three.bootstrap, unsettle, asked)) as moving:
        with pytest.raises(BrokerError, match="groups") as refused:
            listing(moving)
        assert (refused.value.code, refused.value.retriable) == (ErrorCode.not_coordinator, True)
        assert groups <= moving.attempt(lambda: listing(moving))[0].keys()
    with closing(Unsettled(three.bootstrap, unsettle, range(99))) as moving:
        assert groups <= listing(moving, whole=False)[0].keys()


def test_no_group_is_missing_while_leaders_move(three: Cluster) -> None:
    """Partitions go back to a node that was restarted while all groups are listed again and again: for a
    moment no broker lists the groups of such a partition (seen on 3.9.2 and 4.3.1)."""
    groups, lacking = committed(three, "kept"), list[set[str]]()
    lead_as_preferred(three, OFFSETS_TOPIC)
    replace_node(three, 2, unchanged)
    with closing(KafkaCluster(three.bootstrap, timeout_s=60.0)) as cluster, ThreadPoolExecutor(1) as pool:
        moved = pool.submit(lead_as_preferred, three, OFFSETS_TOPIC)
        while not moved.done() or not lacking:
            lacking.append(groups - cluster.attempt(lambda: listing(cluster))[0].keys())
        moved.result()
    assert [each for each in lacking if each] == []


def test_every_broker_is_asked_whom_it_takes_for_the_coordinator(three: Cluster) -> None:
    """A look at a group for a move of its protocol: three answers of one mind, and one broker that lists it;
    the groups of this cluster have all three for coordinators."""
    cluster = KafkaCluster(three.bootstrap, timeout_s=60.0)
    views = LiveProtocolViews(KafkaCluster(three.bootstrap, timeout_s=60.0), SystemClock())
    create_topic(three.bootstrap, "looked", 1)
    commit(cluster, {f"l-{group}": {TopicPartition("looked", 0): (5, "")} for group in GROUPS})
    cluster.close()
    looks: dict[str, ProtocolView] = {}

    def agreed() -> bool:
        for group in GROUPS:
            if group not in looks or list(disagreements(looks[group])):
                looks[group] = views.look(f"l-{group}")
        return not any(list(disagreements(look)) for look in looks.values())

    try:
        wait_until(agreed, 90.0, "all brokers agree on every group", every_s=0.2)
    finally:
        views.close()
    assert {look.group.coordinator for look in looks.values()} == {1, 2, 3}
    for look in looks.values():
        assert [broker.node_id for broker in look.brokers] == [1, 2, 3]
        assert [broker.node_id for broker in look.brokers if broker.lists] == [look.group.coordinator]
        assert (look.group.kind, look.group.state) == (Kind.CLASSIC, "Empty")
        assert {broker.settings.policy for broker in look.brokers} == {Policy.BIDIRECTIONAL}
