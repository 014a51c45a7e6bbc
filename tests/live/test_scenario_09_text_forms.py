"""Scenario 9: round-robin members that hash different texts contend, and ours says so."""

from __future__ import annotations

import contextlib
import uuid

import pytest

from group_probe import PATIENCE_S, GroupProbe
from groupshift.consumers import MigratingConsumer
from groupshift.domain.assignment import TextForm, round_robin_assignment
from groupshift.domain.partitions import TopicPartition
from groupshift.sandbox.kafka import create_topic
from groupshift.sandbox.processes import wait_until
from reading_member import ReadingMember

PARTITIONS = 3
NOTICED_S = 120.0
OF_FORM = {TextForm.BRACKET: "0.10.2.2", TextForm.DASH: "1.1.1"}


def shares(topics, ids, form):
    """Partition → consumer id."""
    threads = {topic: [f"{each}-0" for each in ids] for topic in topics}
    assigned = round_robin_assignment(threads, dict.fromkeys(topics, range(PARTITIONS)), form)
    return {each: thread.rpartition("-")[0] for each, thread in assigned.items()}


def apart(ids):
    """Names of two topics whose partitions the two forms give to different members (RR3)."""
    while True:
        topics = [f"rr{uuid.uuid4().hex[:6]}" for _ in range(2)]
        if shares(topics, ids, TextForm.BRACKET) != shares(topics, ids, TextForm.DASH):
            return topics


@pytest.mark.parametrize("theirs", list(TextForm))
def test_scenario_09_rr_form_mismatch(cluster, group, kazoo, scala_member, theirs):
    """Beside a member of either age: the wrong form is reported, the right one shares without a word."""
    ids = [f"{group}_m1", f"{group}_s1"]
    topics = apart(ids)
    for topic in topics:
        create_topic(cluster.bootstrap, topic, PARTITIONS)
    scala_member(OF_FORM[theirs], "s1", topics, properties={"partition.assignment.strategy": "roundrobin"})
    probe = GroupProbe(kazoo, group)
    for topic in topics:
        probe.await_shares(topic, {ids[1]: PARTITIONS})
    wrong = next(form for form in TextForm if form is not theirs)
    with joined(cluster, group, topics, wrong) as consumer:
        wait_until(lambda: "text.form" in " ".join(consumer.status().alarms), NOTICED_S, "an alarm")
    with joined(cluster, group, topics, theirs) as consumer:
        wait_until(lambda: owners(probe, topics) == shares(topics, ids, theirs), PATIENCE_S, "shared")
        assert consumer.status().alarms == ()


@contextlib.contextmanager
def joined(cluster, group, topics, form):
    """A member of ours with this text form."""
    consumer = MigratingConsumer(
        {
            "group.id": group,
            "consumer.id": "m1",
            "zookeeper.connect": cluster.zookeeper,
            "bootstrap.servers": cluster.bootstrap,
            "partition.assignment.strategy": "roundrobin",
            "roundrobin.text.form": form.value,
        }
    )
    member = ReadingMember(consumer).join(topics)
    try:
        yield consumer
    finally:
        member.close()


def owners(probe, topics):
    """Partition → consumer id, by the owner nodes."""
    return {
        TopicPartition(topic, number): member
        for topic in topics
        for number, (member, _, _) in probe.owners(topic).items()
    }
