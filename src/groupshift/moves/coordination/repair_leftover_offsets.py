"""What a rollback left in Kafka of a group that ZooKeeper coordinates: committed offsets that nobody updates,
and how they are removed where nobody continues from them.

Aware members commit to both sides, so a group that went to Kafka and came back has offsets there. A plain
Kafka consumer of the same group would begin at them: it would read records again, or skip some. They are
removed by a command of its own (``groupshift repair offsets``), never by a run, and only while every sign
says that the group goes on from ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupshift.domain.facts import sentence_list
from groupshift.domain.foreign_text_quoting import shell
from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import OffsetRow
from groupshift.domain.run import Target
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.changes import OffsetRestoring
from groupshift.ports.group import ZookeeperSide
from groupshift.ports.runs import Runs

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What Kafka holds of ``group`` (``offsets``), beside what ZooKeeper does."""

    group: str
    offsets: Offsets
    zookeeper: Offsets = field(default_factory=dict)

    @property
    def command(self) -> str:
        """What removes them."""
        return f"groupshift repair offsets --group {shell(self.group)} --execute"

    @property
    def sentence(self) -> str:
        """What stays, with the partition that is furthest behind ZooKeeper and the one furthest ahead of it
        (in records), and what that means for a consumer that begins there."""
        many, both = len(self.offsets), self.offsets.keys() & self.zookeeper.keys()
        held = f"Kafka still holds {many:,} committed offset{'s' if many > 1 else ''} of group {self.group}"
        lag = sorted((self.zookeeper[at] - self.offsets[at], at) for at in both)
        begins = []
        if lag and lag[-1][0] > 0:
            begins.append(f"up to {lag[-1][0]:,} records behind ZooKeeper ({lag[-1][1]}) and read them again")
        if lag and lag[0][0] < 0:
            begins.append(
                f"up to {-lag[0][0]:,} records ahead of ZooKeeper ({lag[0][1]}) and would skip them"
            )
        where = ", or ".join(begins) or "there, and nobody commits to them any more"
        return f"{held}; a plain Kafka consumer would begin {where}"


def leftover(group: str, kafka: Offsets, zookeeper: Offsets) -> Leftover | None:
    """Return what stays of a group that ZooKeeper coordinates; None where Kafka holds no offset of it."""
    return Leftover(group=group, offsets=kafka, zookeeper=zookeeper) if kafka else None


def against_removal(view: GroupView) -> str:
    """Return why Kafka's offsets of this group may not be removed now; empty where they may: somebody may go
    on from them, though Kafka has no member of the group."""
    group, members = view.group, sorted({each.client_id or each.member_id for each in view.kafka.members})
    others = sorted({each.kind.value for each in view.members if each.kind is not MemberKind.ZOOKEEPER})
    kafka, zookeeper = offsets_of(view.kafka_offsets), offsets_of(view.zookeeper_offsets)
    ahead = sorted(at for at, offset in kafka.items() if offset > zookeeper.get(at, offset))
    alone = [str(at) for at in sorted(kafka.keys() - zookeeper.keys())]
    by_hand, why = "decide it by hand with kafka-consumer-groups.sh", ""
    if Mode.KAFKA in {view.effective_mode, view.mode.requested}:
        why = "is in kafka mode: these offsets are the ones it continues from"
    elif members:
        why = (
            f"has members at its Kafka coordinator ({', '.join(members)}): stop them or roll them back first"
        )
    elif others:
        why = f"has members of kind {', '.join(others)}, which commit to Kafka: roll it back first"
    elif view.problems:
        why = f"was not read whole ({view.problems[0]}): correct that first"
    elif kafka and not view.members and view.mode.data is None:
        why = (
            "has no member now and no mode node, like one that moved to Kafka for good: which offsets it "
            "continues from cannot be told; start its old members first"
        )
    elif ahead:
        numbers = f"{kafka[ahead[0]]:,} and {zookeeper[ahead[0]]:,}"
        why = (
            f"may continue from Kafka, which is ahead of ZooKeeper at {ahead[0]} ({numbers}): wait until its "
            f"old members are beyond that, or {by_hand}"
        )
    elif alone:
        why = f"has the offset of {sentence_list(alone, 1)} in Kafka only, the only one there is: {by_hand}"
    return f"group {group} {why}" if why else ""


def offsets_of(committed: tuple[OffsetRow, ...]) -> dict[TopicPartition, int]:
    """Return committed offsets by partition; those below 0 are none."""
    return {each.at: each.offset for each in committed if each.offset >= 0}


def stale_offsets(side: ZookeeperSide, runs: Runs, group: str) -> tuple[Leftover | None, str]:
    """Return what Kafka holds of a group now, and why that may not be removed (empty: it may).

    Raises:
        Rejected: there is no such group.
    """
    view = side.groups.read(group)
    if not view.exists and not view.kafka_offsets:
        raise Rejected(f"group {group} is not known to ZooKeeper or Kafka; list groups with: groupshift scan")
    stale = leftover(group, offsets_of(view.kafka_offsets), offsets_of(view.zookeeper_offsets))
    target = Target(kind="group", name=group, within=side.cluster_id())
    for held in runs.in_the_way(target):
        return stale, f"run {held.run} of {held.target} is open: finish it or roll it back first"
    return stale, against_removal(view)


def remove_stale_offsets(
    side: ZookeeperSide, runs: Runs, group: str, restoring: OffsetRestoring
) -> Leftover | None:
    """Delete Kafka's offsets of this group and read back that none is left; return what was deleted. It is
    asked again right before the request whether they may go.

    Raises:
        Conflict: the group may not be touched now, or Kafka refuses.
        Transient: offsets are still there afterwards.
    """

    def require_removable() -> None:
        if why := stale_offsets(side, runs, group)[1]:
            raise Conflict(f"nothing was removed: {why}")

    stale, _ = stale_offsets(side, runs, group)
    require_removable()
    if stale is None:
        return None
    refused = restoring.delete([group], require_removable)
    if group in refused:
        raise Conflict(f"Kafka did not delete the offsets of group {group}: {refused[group]}")
    if left := offsets_of(side.groups.read(group).kafka_offsets):
        raise Transient(
            f"group {group} still has {len(left):,} committed offsets in Kafka after their deletion; "
            f"run it again: {stale.command}"
        )
    return stale
