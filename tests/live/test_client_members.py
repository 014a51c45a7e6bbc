"""Members of three real clients in one group: what they tell is what happened."""

from __future__ import annotations

from itertools import pairwise

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import ClusterState
from groupshift.errors import Rejected
from groupshift_sandbox.client_members.commands import CLIENTS, ClientMember, Commit, GroupProtocol, command
from groupshift_sandbox.client_members.events import delivered, overlapping, owned
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import wait_until
from support.client_processes import DEADLINE_S, client_processes, produce

PARTITIONS, RECORDS = 3, 20


def state_of(bootstrap: str, group: str) -> ClusterState:
    """The group as its coordinator tells it."""
    snapshots = LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=60.0), SystemClock(), patience_s=60.0)
    try:
        return snapshots.take([group])
    finally:
        snapshots.close()


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """The group's offsets by partition, as its coordinator answers them."""
    return {row.partition: row.offset for row in state_of(bootstrap, group).offsets}


def test_java_and_confluent_members_of_both_protocols_share_a_group(kraft: Cluster, group: str) -> None:
    """A classic kafka-clients 3.9.2, a native 4.3.1 and a native confluent-kafka of ours: each partition has
    one owner at a time, no record is lost, and each member says that it closed."""
    topic = f"shared-{group}"
    create_topic(kraft.bootstrap, topic, PARTITIONS)
    chosen = [
        ("kafka-clients 3.9.2", GroupProtocol.CLASSIC, Commit.EACH),
        ("kafka-clients 4.3.1", GroupProtocol.CONSUMER, Commit.AUTO),
        (CLIENTS[0], GroupProtocol.CONSUMER, Commit.EACH),
    ]
    with client_processes(kraft.home) as run:
        members = [
            run(
                ClientMember(
                    client=client,
                    group=group,
                    name=f"{group}-{number}",
                    topic=topic,
                    bootstrap=kraft.bootstrap,
                    protocol=protocol,
                    assignor="range",
                    commit=commits,
                )
            )
            for number, (client, protocol, commits) in enumerate(chosen)
        ]

        def owners() -> list[set[str]]:
            found = owned(event for each in members for event in each.told())
            return [
                {each.member for each in found.get(TopicPartition(topic, p), ()) if each.to_ms is None}
                for p in range(PARTITIONS)
            ]

        wait_until(
            lambda: all(len(each) == 1 for each in owners()) and len(set.union(*owners())) == len(members),
            DEADLINE_S,
            f"each of {len(members)} members owns a partition",
            every_s=0.2,
        )
        produce(kraft.bootstrap, topic, PARTITIONS, RECORDS)
        wanted = {TopicPartition(topic, p): set(range(RECORDS)) for p in range(PARTITIONS)}

        def arrived() -> dict[TopicPartition, set[int]]:
            found = delivered(event for each in members for event in each.told())
            return {at: set(offsets) for at, offsets in found.items()}

        wait_until(
            lambda: arrived() == wanted,
            DEADLINE_S,
            "every record is delivered",
            every_s=0.2,
        )
        for each in (members[0], members[2]):
            each.await_told("committed", when=lambda told: told.fields["offsets"] and not told.fields["code"])
        wait_until(
            lambda: committed(kraft.bootstrap, group) == dict.fromkeys(range(PARTITIONS), RECORDS),
            DEADLINE_S,
            "everything is committed",
            every_s=0.2,
        )
        described = state_of(kraft.bootstrap, group).members
        assert {row.client_id for row in described} == {each.member.name for each in members}
        assert sorted(str(row.member_type) for row in described) == ["classic", "consumer", "consumer"]
    told = [event for each in members for event in each.told()]
    assert committed(kraft.bootstrap, group) == dict.fromkeys(range(PARTITIONS), RECORDS)
    assert [each.told("started")[0].fields["client"] for each in members] == [
        client for client, _, _ in chosen
    ]
    assert [each.told()[-1].event for each in members] == ["closed"] * len(members)
    assert all(overlapping(intervals) == [] for intervals in owned(told).values())
    assert all(before.at_ms <= after.at_ms for each in members[2:] for before, after in pairwise(each.told()))


def test_an_unknown_client_is_refused(kraft: Cluster, group: str) -> None:
    """With the clients that there are."""
    member = ClientMember(
        client="kafka-clients 1.0.0", group=group, name="x", topic="t", bootstrap=kraft.bootstrap
    )
    with pytest.raises(
        Rejected, match=r"client 'kafka-clients 1\.0\.0' is not known here; choose one of conf"
    ):
        command(kraft.home, member)


def test_a_native_java_member_that_the_broker_cannot_serve_tells_why_it_ended(
    cluster, topic, group: str
) -> None:
    """3.9.2 with its OLD coordinator: the consumer ends by itself, with the exception that ended it."""
    member = ClientMember(
        client="kafka-clients 4.3.1",
        group=group,
        name=f"{group}-native",
        topic=topic(1),
        bootstrap=cluster.bootstrap,
        protocol=GroupProtocol.CONSUMER,
    )
    with client_processes(cluster.home) as run:
        native = run(member)
        native.await_told("closed")
    (error,) = native.told("error")
    assert (error.fields["name"], error.fields["fatal"]) == ("UnsupportedVersionException", True)
    assert native.told("assigned", "records") == []
