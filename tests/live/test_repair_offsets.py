"""``groupshift repair offsets`` on a real broker and ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.cli.main import main
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.znodes import GroupPaths
from groupshift_sandbox.committing import commit


def test_u15_offsets_that_stay_in_kafka_are_deleted_with_execute_only(
    cluster: Any,
    group: str,
    topic: Callable[[int], str],
    kazoo: KazooClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """First shown; refused while nobody is there and no mode node says where the group is at home, or a Kafka
    member lives; then deleted and read back by another client."""
    name = topic(2)
    for partition, offset in enumerate((35, 36)):
        path = f"/consumers/{group}/offsets/{name}/{partition}"
        kazoo.create(path, str(offset).encode(), makepath=True)
    places = (
        f'[kafka]\nbootstrap_servers = "{cluster.bootstrap}"\n[zookeeper]\nhosts = "{cluster.zookeeper}"\n'
    )
    own = f'[journal]\nurl = "sqlite:///{tmp_path / "j.db"}"\n[evidence]\nroot = "{tmp_path / "evidence"}"\n'
    settings = tmp_path / "settings.toml"
    settings.write_text(f'{places}{own}[fleet]\ndriver = "manual"\n')
    with closing(KafkaCluster(cluster.bootstrap)) as kafka:
        stale = {TopicPartition(name, 0): (24, ""), TopicPartition(name, 1): (30, "")}
        commit(kafka, {group: stale})
    command = ["repair", "offsets", "--group", group, "--settings", str(settings), "--json"]
    assert main(command) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["offsets"] == {f"{name}-0": 24, f"{name}-1": 30}
    assert "no member now and no mode node" in said["against"]
    assert main([*command, "--execute"]) == 3
    assert "start its old members first" in "".join(capsys.readouterr())
    kazoo.create(GroupPaths(group).mode, b"zookeeper", makepath=True)
    assert main(command) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["against"], said["removed"]) == ("", False)
    member = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    member.subscribe([name])
    while not member.assignment():
        member.poll(0.2)
    assert main([*command, "--execute"]) == 3
    assert "members at its Kafka coordinator" in "".join(capsys.readouterr())
    member.close()
    assert main([*command, "--execute"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] is True
    assert main(command) == 0
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    asked = [ConsumerGroupTopicPartitions(group)]
    left = admin.list_consumer_group_offsets(asked)[group].result(30)
    assert list(left.topic_partitions) == []
    assert kazoo.get(f"/consumers/{group}/offsets/{name}/0")[0] == b"35"
