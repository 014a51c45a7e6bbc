"""Scenarios 4 and 5: what we register the Scala members read, and what they register we read as they do."""

from __future__ import annotations

import json
import uuid

import pytest
from kazoo.exceptions import NoNodeError

from groupshift.consumers import Blacklist, MigratingConsumer, Whitelist, ZookeeperConsumer
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.processes import wait_until
from support.group_probe import PATIENCE_S, GroupProbe
from support.old_member_log import complaints
from support.reading_member import ReadingMember


@pytest.fixture
def join(cluster, group):
    """Factory: a consumer of this process, in the class and with the subscription given."""
    members = []

    def run(number, kind, topics):
        consumer = kind(
            {
                "group.id": group,
                "consumer.id": f"m{number}",
                "zookeeper.connect": cluster.zookeeper,
                "bootstrap.servers": cluster.bootstrap,
            }
        )
        members.append(ReadingMember(consumer))
        return members[-1].join(topics)

    yield run
    for member in members:
        member.close()


@pytest.fixture
def topics(cluster):
    """Two topics of four partitions: with a dot, and with another character in its place."""
    prefix = f"r{uuid.uuid4().hex[:6]}"
    for name in (f"{prefix}.b", f"{prefix}xb"):
        create_topic(cluster.bootstrap, name, 4)
    return f"{prefix}.b", f"{prefix}xb"


@pytest.mark.parametrize(
    ("release", "kind"), [("0.10.2.2", ZookeeperConsumer), ("1.1.1", MigratingConsumer)], ids=["0.10", "1.1"]
)
def test_scenario_04_registration_bytes(group, kazoo, join, topics, scala_member, release, kind):
    """Static, white, black and empty: the old member rebalances each time without a complaint, and takes
    exactly the share that ours leaves to it."""
    probe, (dotted, _) = GroupProbe(kazoo, group), topics
    scala = scala_member(release, "s1", [dotted], seed=4)
    probe.await_shares(dotted, {scala.member_id: 4})
    escaped, left = dotted.replace(".", r"\."), set()
    for number, (subscription, share) in enumerate(
        (
            ({dotted: 3}, 3),
            (Whitelist(rf"{escaped}|'none-of-these'"), 2),
            (Blacklist(rf"(?!{escaped}).*|{escaped}.+"), 2),
            ({}, 0),
        )
    ):
        ours = join(number, kind, subscription)
        shares = {scala.member_id: 4 - share} | ({ours.consumer.consumer_id: share} if share else {})
        if not share:
            registered = probe.paths.id_of(ours.consumer.consumer_id)
            wait_until(lambda path=registered: kazoo.exists(path), PATIENCE_S, "registered")
        probe.await_shares(dotted, shares)
        written = json.loads(kazoo.get(probe.paths.id_of(ours.consumer.consumer_id))[0])
        assert isinstance(written["timestamp"], str)
        assert written["timestamp"].isdigit()
        left.add(probe.paths.id_of(ours.consumer.consumer_id))
        ours.close()
        probe.await_shares(dotted, {scala.member_id: 4})
    assert complaints(scala.log_file.read_text(), left) == []


def test_scenario_05_regex_escape(group, kazoo, join, topics, scala_member):
    """0.10.2 escapes its expression once, 1.1 twice and then reads itself so: it matches nothing. We give
    each what it gives itself."""
    probe, (dotted, crossed) = GroupProbe(kazoo, group), topics
    expression = dotted.replace(".", r"\.") + ".*"
    once = scala_member("0.10.2.2", "s1", [expression])
    twice = scala_member("1.1.1", "s2", [expression])

    def registered(member):
        try:
            return json.loads(kazoo.get(probe.paths.id_of(member.member_id))[0])["subscription"]
        except NoNodeError:
            return None

    wait_until(lambda: registered(once) and registered(twice), PATIENCE_S, "both old members registered")
    assert registered(once) == {expression: 1}
    assert registered(twice) == {expression.replace("\\", "\\\\"): 1}
    ours = join(1, MigratingConsumer, [dotted, crossed])
    probe.await_shares(dotted, {once.member_id: 2, ours.consumer.consumer_id: 2})
    probe.await_shares(crossed, {ours.consumer.consumer_id: 4})
    wait_until(lambda: ours.consumer.status().alarms == (), PATIENCE_S, "there is no alarm")
