"""What a rollback left in Kafka of a group that ZooKeeper coordinates: committed offsets that nobody updates,
and how they are removed where nobody continues from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groupshift.domain.foreign_text import shell
from groupshift.domain.group import CommittedOffset, GroupView
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.run import Target
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.changes import OffsetRestoring
from groupshift.ports.group import ZookeeperSide
from groupshift.ports.runs import Runs

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """``offsets`` are those that Kafka holds of ``group``; ``behind`` is by how many records the furthest of
    them is behind ZooKeeper's, and ``at`` its partition; ``ahead`` and ``beyond`` are the same of those ahead
    of it; ``alone`` are those that ZooKeeper has none of."""

    group: str
    offsets: Offsets
    behind: int = 0
    at: TopicPartition | None = None
    ahead: int = 0
    beyond: TopicPartition | None = None
    alone: tuple[TopicPartition, ...] = ()

    @property
    def command(self) -> str:
        """What removes them."""
        return f"groupshift repair offsets --group {shell(self.group)} --execute"

    @property
    def sentence(self) -> str:
        """What stays, and what it means for the group."""
        many = len(self.offsets)
        held = f"Kafka still holds {many:,} committed offset{'s' if many > 1 else ''} of group {self.group}"
        if not self.behind and not self.ahead:
            return f"{held}; nobody commits to them any more, and a plain Kafka consumer would begin there"
        again = f"up to {self.behind:,} records behind ZooKeeper ({self.at})"
        missed = f"up to {self.ahead:,} records ahead of ZooKeeper ({self.beyond})"
        begins = "a plain Kafka consumer would begin there"
        if not self.ahead:
            return f"{held}, {again}: {begins} and read them again"
        if not self.behind:
            return f"{held}, {missed}: {begins} and would skip them"
        return f"{held}, {again}, and {missed}: {begins}, read the former again, and would skip the latter"


def leftover(group: str, kafka: Offsets, zookeeper: Offsets) -> Leftover | None:
    """What stays of a group that ZooKeeper coordinates; None where Kafka holds no offset of it."""
    if not kafka:
        return None
    behind = {at: zookeeper[at] - offset for at, offset in kafka.items() if at in zookeeper}
    at = max(behind, key=lambda each: (behind[each], each), default=None)
    most = max(behind[at], 0) if at is not None else 0
    beyond = min(behind, key=lambda each: (behind[each], each), default=None)
    ahead = max(-behind[beyond], 0) if beyond is not None else 0
    return Leftover(
        group=group,
        offsets=kafka,
        behind=most,
        at=at if most else None,
        ahead=ahead,
        beyond=beyond if ahead else None,
        alone=tuple(sorted(kafka.keys() - zookeeper.keys())),
    )


def against_removal(view: GroupView) -> str:
    """Why Kafka's offsets of this group may not be removed now; empty where they may."""
    group = view.group
    if Mode.KAFKA in {view.effective_mode, view.mode.requested}:
        return f"group {group} is in kafka mode: these offsets are the ones it continues from"
    if view.kafka.members:
        names = ", ".join(sorted({each.client_id or each.member_id for each in view.kafka.members}))
        return (
            f"group {group} has members at its Kafka coordinator ({names}): stop them or roll them back first"
        )
    others = sorted({each.kind.value for each in view.members if each.kind is not MemberKind.OLD})
    if others:
        kinds = ", ".join(others)
        return f"group {group} has members of kind {kinds}, which commit to Kafka: roll it back first"
    if view.problems:
        return f"group {group} was not read whole ({view.problems[0]}): correct that first"
    return _in_use(view)


def _in_use(view: GroupView) -> str:
    """Why the group may go on from these offsets, though Kafka has no member of it; empty: it does not."""
    group, kafka, zookeeper = view.group, offsets_of(view.kafka_offsets), offsets_of(view.zookeeper_offsets)
    by_hand = "decide it by hand with kafka-consumer-groups.sh"
    if kafka and not view.members and view.mode.data is None:
        return (
            f"group {group} has no member now and no mode node, like one that moved to Kafka for good: which "
            "offsets it continues from cannot be told; start its old members first"
        )
    ahead = sorted(at for at, offset in kafka.items() if offset > zookeeper.get(at, offset))
    if ahead:
        at = ahead[0]
        return (
            f"Kafka is ahead of ZooKeeper at {at} ({kafka[at]:,} and {zookeeper[at]:,}), so group {group} "
            f"may continue from Kafka: wait until its old members are beyond that, or {by_hand}"
        )
    found = leftover(group, kafka, zookeeper)
    if found and found.alone:
        more = f" and {len(found.alone) - 1:,} others" if len(found.alone) > 1 else ""
        return (
            f"ZooKeeper has no offset of {found.alone[0]}{more}, so Kafka's is the only one of group "
            f"{group}: {by_hand}"
        )
    return ""


def offsets_of(committed: tuple[CommittedOffset, ...]) -> dict[TopicPartition, int]:
    """Committed offsets by partition; those below 0 are none."""
    return {each.partition: each.offset for each in committed if each.offset >= 0}


def stale_offsets(side: ZookeeperSide, runs: Runs, group: str) -> tuple[Leftover | None, str]:
    """Return what Kafka holds of a group now, and why that may not be removed (empty: it may).

    Raises:
        Rejected: there is no such group.
    """
    view = _view(side, group)
    return _found(view), _against(side, runs, view)


def remove_stale_offsets(
    side: ZookeeperSide, runs: Runs, group: str, restoring: OffsetRestoring
) -> Leftover | None:
    """Delete Kafka's offsets of this group and read back that none is left; return what was deleted. It is
    asked again right before the request whether they may go.

    Raises:
        Conflict: the group may not be touched now, or Kafka refuses.
        Transient: offsets are still there afterwards.
    """
    view = _view(side, group)
    found = _found(view)
    _require_removable(side, runs, view)
    if found is None:
        return None
    refused = restoring.delete([group], lambda: _require_removable(side, runs, side.groups.read(group)))
    if group in refused:
        raise Conflict(f"Kafka did not delete the offsets of group {group}: {refused[group]}")
    left = _found(side.groups.read(group))
    if left:
        raise Transient(
            f"group {group} still has {len(left.offsets):,} committed offsets in Kafka after their deletion; "
            f"run it again: {left.command}"
        )
    return found


def _view(side: ZookeeperSide, group: str) -> GroupView:
    view = side.groups.read(group)
    if not view.exists and not view.kafka_offsets:
        raise Rejected(f"group {group} is not known to ZooKeeper or Kafka; list groups with: groupshift scan")
    return view


def _found(view: GroupView) -> Leftover | None:
    return leftover(view.group, offsets_of(view.kafka_offsets), offsets_of(view.zookeeper_offsets))


def _against(side: ZookeeperSide, runs: Runs, view: GroupView) -> str:
    target = Target(kind="group", name=view.group, within=side.cluster_id())
    for held in runs.in_the_way(target):
        return f"run {held.run} of {held.target} is open: finish it or roll it back first"
    return against_removal(view)


def _require_removable(side: ZookeeperSide, runs: Runs, view: GroupView) -> None:
    if why := _against(side, runs, view):
        raise Conflict(f"nothing was removed: {why}")
