"""A commit of a former topic of the same name, on a real coordinator: named, and never committed anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.group_changes import LiveOffsetRestoring
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift.cli.main import main
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import OffsetRow
from groupshift.moves.expansion.restore import restore_offsets
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, unchanged
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.rolling import replace_node
from groupshift_testing.log_encoder import encode_key, encode_value

COUNT = 5
BEFORE = "pnZcymezThatEe9XU5FPyw"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node whose log holds a commit with the id of a former topic, which its coordinator has loaded."""
    home = Home(tmp_path_factory.mktemp("former")).create()
    options = KraftOptions(heap="320m", properties={"offsets.topic.num.partitions": str(COUNT)})
    try:
        cluster = start_kraft(home, options)
        create_topic(cluster.bootstrap, "orders", 2)
        with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as raw:
            commit(raw, {"g": {TopicPartition("orders", 1): (7, "")}})
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "__admin_client"})
        value = {"offset": 40, "leaderEpoch": -1, "metadata": "m", "commitTimestamp": 1_800_000_000_000}
        producer.produce(
            "__consumer_offsets",
            partition=partition_of("g", COUNT),
            key=encode_key(1, {"group": "g", "topic": "orders", "partition": 0}),
            value=encode_value(1, 4, {**value, "topicId": BEFORE}),
        )
        assert producer.flush(30) == 0
        yield replace_node(cluster, 1, unchanged)[0]
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


def test_f03_a_real_coordinator_tells_a_former_topic_and_takes_no_commit_of_it(
    node: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name it answers 40, by the topic's id nothing; the other commit has the id of today."""
    restoring = LiveOffsetRestoring(KafkaCluster(node.bootstrap, timeout_s=60.0))
    reader = LiveGroupSnapshots(KafkaCluster(node.bootstrap, timeout_s=60.0), SystemClock())
    with closing(restoring), closing(reader):
        state = reader.take(["g"])
        former, sound = state.offsets
        assert (former.partition, former.offset, former.topic_id) == (0, 40, "former")
        assert (sound.partition, sound.offset) == (1, 7)
        assert sound.topic_id == state.topics.current_id("orders") != BEFORE
        anew = replace(sound, offset=8)
        done = restore_offsets(restoring, reader, [replace(former, offset=41), anew])
        assert [each.wanted.partition for each in done.differing] == [0]
        assert "former topic" in done.differing[0].reason
        wrong = OffsetRow(group="h", topic="orders", partition=0, offset=1, topic_id=BEFORE)
        assert "UNKNOWN_TOPIC_ID (100)" in restoring.commit([wrong])["h"]
        assert [each.offset for each in reader.take(["g", "h"]).offsets] == [40, 8]
    code = main(["audit", "--groups", "g", "--json", "--bootstrap-servers", node.bootstrap])
    found = {each["partition"]: each for each in json.loads(capsys.readouterr().out)["differences"]}
    assert (code, found[0]["rule"], found[0]["kind"]) == (1, "A36", "former topic")
    assert found[1]["rule"] == "A07"  # the topic is empty: told, and nothing of a former one
