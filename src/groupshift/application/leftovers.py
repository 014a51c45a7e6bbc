"""What a rollback leaves behind in Kafka: read from the last snapshot, and removed where it is safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupshift.application.environment import Environment
from groupshift.application.records import Migration
from groupshift.domain.evidence import Row, Store
from groupshift.domain.group import GroupView
from groupshift.domain.leftover import Leftover, against_removal, leftover, offsets_of
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import MoveName, Phase
from groupshift.errors import Conflict, GroupshiftError, Rejected, Transient
from groupshift.ports.changes import OffsetRestoring


def left_behind(env: Environment, found: Migration) -> Leftover | None:
    """What a migration that was taken back to its old members left in Kafka, by its last snapshot; None where
    that is nothing, or what was there before. Evidence that cannot be read is another sentence's business."""
    taken = found.snapshots()
    if found.plan.move is not MoveName.COORDINATION or not taken or not taken[-1][0].undoes:
        return None
    try:
        last = env.evidence.read(found.id, taken[-1][0].value, taken[-1][1])
        first = env.evidence.read(found.id, taken[0][0].value, taken[0][1])
    except GroupshiftError:
        return None
    kinds = {str(row["kind"]) for row in last["members"]}
    kafka = _offsets(last, Store.KAFKA)
    if kinds - {MemberKind.OLD.value} or kafka == _offsets(first, Store.KAFKA):
        return None
    return leftover(found.record.group, kafka, _offsets(last, Store.ZOOKEEPER))


def stale_offsets(env: Environment, group: str) -> tuple[Leftover | None, str]:
    """What Kafka holds of a group now, and why that may not be removed (empty: it may). Raises `Rejected`
    where there is no such group."""
    view = _view(env, group)
    return _found(view), _against(env, view)


def remove_stale_offsets(env: Environment, group: str, restoring: OffsetRestoring) -> Leftover | None:
    """Delete Kafka's offsets of this group and read back that none is left; returns what was deleted.

    Asked again right before the request: raises `Conflict` when the group may not be touched now, `Transient`
    when offsets are still there afterwards."""
    view = _view(env, group)
    found = _found(view)
    _demand(env, view)
    if found is None:
        return None
    refused = restoring.delete([group], lambda: _demand(env, env.groups.read(group)))
    if group in refused:
        raise Conflict(f"Kafka did not delete the offsets of group {group}: {refused[group]}")
    left = _found(env.groups.read(group))
    if left:
        raise Transient(
            f"group {group} still has {len(left.offsets):,} committed offsets in Kafka after their deletion; "
            f"run it again: {left.command}"
        )
    return found


def _view(env: Environment, group: str) -> GroupView:
    view = env.groups.read(group)
    if not view.exists and not view.kafka_offsets:
        raise Rejected(f"group {group} is not known to ZooKeeper or Kafka; list groups with: groupshift scan")
    return view


def _found(view: GroupView) -> Leftover | None:
    return leftover(view.group, offsets_of(view.kafka_offsets), offsets_of(view.zookeeper_offsets))


def _against(env: Environment, view: GroupView) -> str:
    held = env.journal.open_of(view.group)
    if held is not None and held.phase is not Phase.PREVIEW:
        return f"migration {held.migration} of group {view.group} is open: finish it or roll it back first"
    return against_removal(view)


def _demand(env: Environment, view: GroupView) -> None:
    if why := _against(env, view):
        raise Conflict(f"nothing was removed: {why}")


def _offsets(tables: Mapping[str, Sequence[Row]], store: Store) -> dict[TopicPartition, int]:
    return {
        TopicPartition(str(row["topic"]), int(row["partition"] or 0)): int(row["offset"] or 0)
        for row in tables["offsets"]
        if row["store"] == store.value and row["offset"] is not None and int(row["offset"]) >= 0
    }
