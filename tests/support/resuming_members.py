"""Members of several clients, each in a group of its own, that read up to the end and later go on there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from groupshift_sandbox.client_members.commands import ClientMember, Commit, GroupProtocol
from groupshift_sandbox.client_members.events import delivered
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import wait_until
from support.client_processes import ClientProcess, client_processes, produce

TOPIC, PARTITIONS, EACH = "orders", 2, 50
Kind = tuple[str, GroupProtocol]
Given = dict[str, dict[int, list[int]]]
"""Every offset that was delivered, by group and partition."""


def one_of_each(cluster: Cluster, kinds: Iterable[Kind], groups: Iterable[str]) -> list[ClientMember]:
    """A member of each kind; it commits after each batch."""
    return [
        ClientMember(
            client=client,
            group=group,
            name=f"{client.replace(' ', '-')}-{protocol}",
            topic=TOPIC,
            bootstrap=cluster.bootstrap,
            protocol=protocol,
            commit=Commit.EACH,
        )
        for (client, protocol), group in zip(kinds, groups, strict=False)
    ]


def renamed(member: ClientMember, turn: str) -> ClientMember:
    """The same again: a process has its name for itself."""
    return replace(member, name=f"{member.name}-{turn}")


def offsets_of(process: ClientProcess) -> dict[int, list[int]]:
    """Every offset that was delivered, by partition."""
    return {at.partition: found for at, found in delivered(process.told()).items()}


def wanted(members: Sequence[ClientMember], first: int) -> Given:
    """Each of the `EACH` records from ``first`` on, once."""
    each = {number: list(range(first, first + EACH)) for number in range(PARTITIONS)}
    return {member.group: each for member in members}


def consumed(cluster: Cluster, members: Sequence[ClientMember], turn: str) -> Given:
    """What each member was given when it got as many records as were produced."""
    with client_processes(cluster.home) as run:
        begun = [run(renamed(member, turn)) for member in members]
        for each in begun:
            wait_until(
                lambda each=each: sum(len(found) for found in offsets_of(each).values()) >= PARTITIONS * EACH,
                120.0,
                f"{each.member.name} has what there is",
                every_s=0.2,
            )
        for each in begun:
            each.end()
        return {each.member.group: offsets_of(each) for each in begun}


def read_to_the_end(cluster: Cluster, members: Sequence[ClientMember]) -> None:
    """Make the topic, and let every member commit all that is in it."""
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    produce(cluster.bootstrap, TOPIC, PARTITIONS, EACH)
    assert consumed(cluster, members, "before") == wanted(members, 0)


def resume(cluster: Cluster, members: Sequence[ClientMember]) -> None:
    """There is more: every member gets that and nothing else."""
    produce(cluster.bootstrap, TOPIC, PARTITIONS, EACH)
    assert consumed(cluster, members, "after") == wanted(members, EACH)
