"""Scenario 9: round-robin members that hash different texts contend, and ours says so."""

from __future__ import annotations

import contextlib
import re
import uuid

import pytest

from groupshift.consumers import MigratingConsumer
from groupshift.domain.assignment import Assignor, TextForm, assign
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox import legacy
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.processes import wait_until
from support.group_probe import PATIENCE_S, GroupProbe
from support.reading_member import ReadingMember

PARTITIONS = 3
RELEASES = {TextForm.BRACKET: "0.10.2.2", TextForm.DASH: "1.1.1"}
WRONG = {TextForm.BRACKET: TextForm.DASH, TextForm.DASH: TextForm.BRACKET}
ROUND_ROBIN = {"partition.assignment.strategy": "roundrobin"}


def due(topics, group, form):
    """Partition → consumer id, when all hash this form."""
    threads = {topic: [f"{group}_m1-0", f"{group}_s1-0"] for topic in topics}
    assigned = assign(Assignor.ROUND_ROBIN, threads, dict.fromkeys(topics, range(PARTITIONS)), form)
    return {each: thread.rpartition("-")[0] for each, thread in assigned.items()}


@pytest.fixture
def topics(cluster):
    """Two topics whose partitions the two forms give to different members, as in RR3."""
    names = []
    while due(names, "g", TextForm.BRACKET) == due(names, "g", TextForm.DASH):
        names = [f"rr{uuid.uuid4().hex[:6]}" for _ in range(2)]
    for name in names:
        create_topic(cluster.bootstrap, name, PARTITIONS)
    return names


@pytest.fixture
def groups(cluster, group, topics, process):
    """A group for each text form, with a Scala member that hashes it; form → name."""
    named = {form: f"{group}-{form}" for form in TextForm}
    for form, name in named.items():
        member = legacy.ScalaMember(
            release=RELEASES[form],
            group=name,
            consumer_id="s1",
            topics=topics,
            zookeeper=cluster.zookeeper,
            properties=ROUND_ROBIN,
        )
        command = legacy.command(cluster.home, member, file_name=member.member_id)
        process(command.name, command.argv)
    return named


def test_scenario_09_rr_form_mismatch(cluster, topics, groups, kazoo):
    """Beside a member of either age: the wrong form is reported, the right one shares without a word."""
    everything = {TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)}

    def owners(form):
        probe = GroupProbe(kazoo, groups[form])
        return {
            TopicPartition(topic, number): owner
            for topic in topics
            for number, (owner, _, _) in probe.owners(topic).items()
        }

    def await_each(condition, what):
        wait_until(lambda: all(map(condition, TextForm)), PATIENCE_S, f"with both forms, {what}")

    await_each(lambda form: set(owners(form)) == everything, "the old member owns all")
    with joined(cluster, groups, topics, WRONG) as ours:
        await_each(lambda form: named(ours[form].status().alarms) == (WRONG[form], form), "an alarm")
        assert [form for form in TextForm if set(owners(form)) == everything] == []
    with joined(cluster, groups, topics, dict(zip(TextForm, TextForm, strict=True))) as ours:
        await_each(lambda form: owners(form) == due(topics, groups[form], form), "each has its share")
        await_each(lambda form: ours[form].status().alarms == (), "there is no alarm")


def named(alarms):
    """The text forms that our member says it has, and the others seem to have."""
    key = r"roundrobin\.text\.form=(\w+)"
    found = re.search(f"this member has [^:]*{key}, the others seem to have [^:]*{key}", " ".join(alarms))
    return found.groups() if found else None


@contextlib.contextmanager
def joined(cluster, groups, topics, configured):
    """One of ours in each group, ``configured`` with this form; the group's form → consumer."""
    with contextlib.ExitStack() as stack:
        yield {
            form: stack.enter_context(member(cluster, group, topics, configured[form]))
            for form, group in groups.items()
        }


@contextlib.contextmanager
def member(cluster, group, topics, form):
    """One of ours with this text form."""
    consumer = MigratingConsumer(
        {
            "group.id": group,
            "consumer.id": "m1",
            "zookeeper.connect": cluster.zookeeper,
            "bootstrap.servers": cluster.bootstrap,
            "roundrobin.text.form": form.value,
            **ROUND_ROBIN,
        }
    )
    reading = ReadingMember(consumer).join(topics)
    try:
        yield consumer
    finally:
        reading.close()
