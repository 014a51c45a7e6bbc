"""Remove the committed offsets that a rollback left in Kafka, where nobody continues from them."""

from __future__ import annotations

from groupshift.domain.group import GroupView
from groupshift.domain.leftover import Leftover, against_removal, leftover, offsets_of
from groupshift.domain.run import Target
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.changes import OffsetRestoring
from groupshift.ports.group import ZookeeperSide
from groupshift.ports.runs import Runs


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
