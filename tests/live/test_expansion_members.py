"""Members of real clients around an expansion of the offsets topic: one node of 4.3.1, first with care, then
without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as At

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.cluster_changes import LiveTopicExpansion
from groupshift.domain.group_partition_and_count import partition_of
from groupshift_sandbox.client_members.commands import CLIENTS, ClientMember, GroupProtocol
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import log_ends
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, unchanged
from groupshift_sandbox.processes import marked, stop, wait_until
from groupshift_sandbox.rolling import replace_node
from support.client_processes import client_processes
from support.cluster_verbs import Verbs
from support.downgrade_story import offsets_of as committed_offsets
from support.open_transaction import OpenTransaction
from support.placement_story import audited
from support.resuming_members import (
    EACH,
    PARTITIONS,
    TOPIC,
    offsets_of,
    one_of_each,
    read_to_the_end,
    renamed,
    resume,
)

pytestmark = pytest.mark.timeout(600)

BEFORE, AFTER, CARELESS = 5, 8, 16
PROPERTIES = {
    "offsets.topic.num.partitions": str(BEFORE),
    "offsets.retention.check.interval.ms": "86400000",
}
"""The group of the aborted transaction has no offset: it must not go between a plan and its run."""
JAVA = "kafka-clients 4.3.1"
KINDS = [
    (client, protocol)
    for client in (CLIENTS[0], JAVA)
    for protocol in (GroupProtocol.CLASSIC, GroupProtocol.CONSUMER)
]
_FATAL = -150
_REJECTED = 2


def _names() -> Iterator[str]:
    """Groups that move from 5 to 8, and again from 8 to 16."""
    for number in range(1_000):
        name = f"billing-{number}"
        first, second, third = (partition_of(name, count) for count in (BEFORE, AFTER, CARELESS))
        if first != second != third:
            yield name


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node whose offsets topic has five partitions."""
    home = Home(tmp_path_factory.mktemp("members")).create()
    try:
        yield start_kraft(home, KraftOptions(heap="384m", properties=PROPERTIES))
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


@pytest.fixture(scope="module")
def members(cluster: Cluster) -> list[ClientMember]:
    """One of each kind, each in a group of its own that moves; all have read everything, and left."""
    found = one_of_each(cluster, KINDS, _names())
    read_to_the_end(cluster, found)
    return found


def test_coordinator_20_a_transaction_that_opens_while_groups_drain(
    cluster: Cluster, members: list[ClientMember], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run was begun before it: step 3 is held up with its id, ends, and changed nothing. While it is open
    no other run may begin; when it ended, one may."""
    assert members, "they committed: the offsets topic is there"
    runs = Verbs(cluster, tmp_path, capsys, "expansion")
    runs.killed("drain.after_journal", "--to", str(AFTER))
    pending = OpenTransaction(cluster.bootstrap, "settlement", At(TOPIC, 0, 7))
    code, stopped = runs("continue", "--execute", "--yes", "--patience", "5")
    where = partition_of("settlement", BEFORE)
    said = f"transactional id 'settlement' writes offsets to partition {where} of the offsets topic now"
    assert (code, said in stopped["reason"]) == (1, True), stopped
    assert runs("status")[1]["state"] == "rejected"
    code, refused = runs("run", "--to", str(AFTER), "--execute", "--yes")
    assert (code, said in refused["error"]) == (_REJECTED, True), refused
    code, judged = runs("assess", "--to", str(AFTER))
    (against,) = [each for each in judged["findings"] if each["rule"] in judged["obstacles"]]
    assert (code, judged["ready"], against["reason"]) == (1, False, said)
    pending.abort()  # answered before the groups' coordinator has the marker
    wait_until(lambda: runs("assess", "--to", str(AFTER))[1]["ready"], 60.0, "a run may begin again")


def test_coordinator_19_killed_after_the_acts_of_four_steps(
    cluster: Cluster, members: list[ClientMember], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the acts of steps 5, 6, 7 and 10 of the procedure, before the journal knows of them: it only goes
    forward, and the next process ends it with every offset as it was."""
    groups = [each.group for each in members]
    before = committed_offsets(cluster.bootstrap, groups)
    assert len(before) == len(members) * PARTITIONS
    runs = Verbs(cluster, tmp_path, capsys, "expansion")
    first = ("--to", str(AFTER))
    for step, options in (
        ("delete-groups", first),
        ("create-partitions", ()),
        ("restart", ()),
        ("restore", ()),
    ):
        runs.killed(f"{step}.after_act", *options)
    for options in ((), ("--execute", "--yes")):
        code, said = runs("roll-back", *options)
        closed = "there is no rollback any more" in " ".join(said["error"].split())
        assert (code, closed) == (_REJECTED, True), said
    code, done = runs("continue", "--execute", "--yes")
    assert (code, done.get("state")) == (0, "finalised"), done
    assert committed_offsets(cluster.bootstrap, groups) == before
    assert audited(cluster).clean


def test_clients_resume_at_their_committed_offset(
    cluster: Cluster, members: list[ClientMember], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """confluent-kafka and Java, classic and consumer protocol: nothing lost, nothing read twice, after a run
    that was killed on the way, or, where this test is run alone, after one that was not."""
    if audited(cluster).facts.view.count == BEFORE:
        runs = Verbs(cluster, tmp_path, capsys, "expansion")
        code, done = runs("run", "--to", str(AFTER), "--execute", "--yes")
        assert code == 0, done
    assert audited(cluster).facts.view.count == AFTER
    resume(cluster, members)


def test_coordinator_31c_members_of_a_careless_expansion(
    cluster: Cluster, members: list[ClientMember]
) -> None:
    """What that did to live members: librdkafka's native one ends with a fatal error, its classic one is told
    that it lost every partition, and reads everything again."""
    classic, native = members[0], members[1]
    with client_processes(cluster.home) as run:
        begun = [run(renamed(each, "careless")) for each in (classic, native)]
        for each in begun:
            each.await_told("assigned")
        with closing(LiveTopicExpansion(KafkaCluster(cluster.bootstrap, timeout_s=60.0))) as topic:
            topic.expand(CARELESS)
            wait_until(lambda: not topic.lacks([1]), 60.0, "all partitions are led")
        replace_node(cluster, 1, unchanged)
        fatal = begun[1].await_told("error", when=lambda told: told.fields["code"] == _FATAL)
        assert "The group id does not exist" in fatal.fields["said"]
        lost = begun[0].await_told("lost")
        assert {(at.topic, at.partition) for at in lost.partitions} == {(TOPIC, n) for n in range(PARTITIONS)}
        assert begun[0].told("revoked") == []
        ends = log_ends(cluster.bootstrap, TOPIC, PARTITIONS)
        assert min(ends.values()) >= EACH, "there is something to read"
        again = {at.partition: set(range(end)) for at, end in ends.items()}
        wait_until(
            lambda: {number: set(read) for number, read in offsets_of(begun[0]).items()} == again,
            120.0,
            "the classic member reads everything again",
        )
