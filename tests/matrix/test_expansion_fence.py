"""A fence that does keep clients out: an ACL of a real 4.3.1, put up and taken away by Kafka's own tool, as
docs/reference/node-drivers.md says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as At

from groupshift.adapters.spark_submit.java import java_binary
from groupshift.domain.group_partition_and_count import partition_of
from groupshift_sandbox.artifacts import SIMPLE_LOGGING, TOOLS, class_path
from groupshift_sandbox.client_members.commands import CLIENTS, ClientMember, GroupProtocol
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from support.client_processes import client_processes
from support.cluster_verbs import Verbs
from support.downgrade_story import offsets_of as committed_offsets
from support.expansion_story import home_in
from support.placement_story import audited
from support.resuming_members import TOPIC, one_of_each, read_to_the_end, renamed, resume

BEFORE, AFTER = 5, 8
PASSWORD = "wonder-land-1"
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": PASSWORD,
}
GUARDED = {
    "offsets.topic.num.partitions": str(BEFORE),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="broker" password="{PASSWORD}" user_alice="{PASSWORD}";'
    ),
}
"""The brokers and groupshift come without a login and may do everything, clients log in."""
DENIED = ("--deny-principal", "User:*", "--operation", "Read", "--group", "*")
FENCE = """
import subprocess, sys
tool, denied = {tool}, {denied}
how = {{"out": ["--add"], "in": ["--remove", "--force"]}}[sys.argv[1]]
sys.exit(subprocess.run([*tool, *how, *denied], check=False).returncode)
"""
_NOT_ALLOWED = 30
_TOLD = {GroupProtocol.CLASSIC: _NOT_ALLOWED, GroupProtocol.CONSUMER: -150}
"""librdkafka's classic member is refused and knocks again every two seconds; its native one ends with a fatal
error, says nothing any more, and has to be started again."""


def acls(bootstrap: str) -> list[str]:
    """Kafka's own tool."""
    return [
        java_binary(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m",
        "-cp", class_path(SIMPLE_LOGGING, TOOLS), "org.apache.kafka.tools.AclCommand",
        "--bootstrap-server", bootstrap,
    ]  # fmt: skip


def granted(cluster: Cluster) -> None:
    """The clients may read the topic, as members of any group."""
    rights = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", TOPIC, "--group", "*")
    subprocess.run([*acls(cluster.bootstrap), "--add", *rights], check=True, timeout=120)


def logging_in(cluster: Cluster) -> list[ClientMember]:
    """One of the classic and one of the consumer protocol, each in a group that moves."""
    kinds = [(CLIENTS[0], protocol) for protocol in (GroupProtocol.CLASSIC, GroupProtocol.CONSUMER)]
    names = (f"billing-{number}" for number in range(100))
    moving = (each for each in names if partition_of(each, BEFORE) != partition_of(each, AFTER))
    door = cluster.nodes[0].at("CLIENTS")
    return [replace(each, bootstrap=door, properties=LOGIN) for each in one_of_each(cluster, kinds, moving)]


def refused(members: Sequence[ClientMember]) -> list[int]:
    """What a commit without being a member is told, as a program with the admin API or `assign` makes it."""
    codes = []
    for each in members:
        consumer = Consumer({"bootstrap.servers": each.bootstrap, "group.id": each.group, **LOGIN})
        try:
            with pytest.raises(KafkaException) as caught:
                consumer.commit(offsets=[At(TOPIC, 0, 7)], asynchronous=False)
        finally:
            consumer.close()
        codes.append(caught.value.args[0].code())
    return codes


@pytest.mark.timeout(600)
def test_members_and_programs_that_come_too_early_are_kept_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the deletion to the end members knock and a program commits: all are refused, the run needs
    nobody, and they go on where they were."""
    with home_in(tmp_path) as home:
        cluster = start_kraft(
            home, KraftOptions(heap="384m", listeners={"CLIENTS": "SASL_PLAINTEXT"}, properties=GUARDED)
        )
        granted(cluster)
        members = logging_in(cluster)
        read_to_the_end(cluster, members)
        groups = [each.group for each in members]
        before = committed_offsets(cluster.bootstrap, groups)
        fence = FENCE.format(tool=json.dumps(acls(cluster.bootstrap)), denied=json.dumps(DENIED))
        runs = Verbs(cluster, tmp_path, capsys, "expansion", fence=fence)
        runs.killed("delete-groups.after_act", "--to", str(AFTER))
        with client_processes(home) as run:
            early = [run(renamed(each, "early")) for each in members]
            for each in early:
                told = each.await_told("error")
                assert told.fields["code"] == _TOLD[each.member.protocol]
                assert "Group authorization failed" in told.fields["said"]
            assert refused(members) == [_NOT_ALLOWED] * len(members)
            code, done = runs("continue", "--execute", "--yes")
            assert (code, done.get("state")) == (0, "finalised"), done
        assert [each.told("records", "committed") for each in early] == [[], []]
        assert committed_offsets(cluster.bootstrap, groups) == before
        assert audited(cluster).clean
        resume(cluster, members)
