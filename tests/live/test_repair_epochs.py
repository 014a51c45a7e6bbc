"""Show 6: a Java consumer that reads nothing behind a leader epoch that is one too high, and its repair."""

from __future__ import annotations

import json
import subprocess
import uuid
from contextlib import closing

import pytest
from confluent_kafka import Producer

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.group_changes import commit_rows
from groupshift.adapters.spark_submit.java import java_binary
from groupshift.cli.main import main
from groupshift.domain.rows import OffsetRow
from groupshift_sandbox.artifacts import SIMPLE_LOGGING, TOOLS, class_path
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster

RECORDS, COMMITTED = 30, 10
pytestmark = pytest.mark.timeout(300)


def console_consumer(kraft: Cluster, topic: str, group: str, timeout_ms: int) -> list[str]:
    """What Kafka's own console consumer prints until it has all, or waited so long for the next record."""
    argv = [
        java_binary(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp", class_path(SIMPLE_LOGGING, TOOLS), "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server", kraft.bootstrap, "--topic", topic, "--group", group,
        "--max-messages", str(RECORDS - COMMITTED), "--timeout-ms", str(timeout_ms),
        "--command-property", "enable.auto.commit=false",
    ]  # fmt: skip
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )
    assert "Processed a total of" in done.stderr, done.stderr
    return done.stdout.splitlines()


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict]:
    """Exit code and document of a verb."""
    code = main([*argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_f10_show_6_a_java_consumer_reads_nothing_until_the_epoch_is_repaired(
    kraft: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """One epoch too high: silence; then the audit names it, the repair mends it, and it reads."""
    topic, group = f"orders-{uuid.uuid4().hex[:8]}", f"billing-{uuid.uuid4().hex[:8]}"
    create_topic(kraft.bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": kraft.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, value=f"record {number}".encode(), partition=0)
    producer.flush(30)
    wrong = OffsetRow(
        group=group, topic=topic, partition=0, offset=COMMITTED, leader_epoch=1, metadata="kept\0"
    )
    with closing(KafkaCluster(kraft.bootstrap, timeout_s=60.0)) as cluster:
        assert commit_rows(cluster, [wrong]) == {}
    servers = ("--bootstrap-servers", kraft.bootstrap, "--timeout", "60")

    assert console_consumer(kraft, topic, group, 8000) == []

    code, document = told(capsys, "audit", "--groups", group, *servers)
    (found,) = document["differences"]
    assert (code, found["rule"], found["kind"]) == (1, "A34", "leader epoch too high")
    assert "groupshift repair epochs --execute" in found["remedy"]

    repair = ("repair", "epochs", "--groups", group, *servers)
    code, document = told(capsys, *repair)  # a noop
    (planned,) = document["repairs"]
    assert (code, document["executed"], planned["current"], planned["left"]) == (1, False, 0, "")
    assert planned["row"]["leader_epoch"] == 1
    code, document = told(capsys, *repair, "--execute")
    assert (code, document["restored"], document["not_restored"]) == (0, 1, [])
    code, document = told(capsys, *repair)
    assert (code, document["offsets"], document["repairs"]) == (0, 1, [])
    assert told(capsys, "audit", "--groups", group, *servers)[0] == 0

    lines = console_consumer(kraft, topic, group, 60000)
    assert lines == [f"record {number}" for number in range(COMMITTED, RECORDS)]
