"""State of every group at any position of the log, by the rules that both coordinators share.

Per partition and key the record with the highest offset wins, whatever its timestamps say; a commit's
key is (group, topic, partition) for the types 0 and 1 alike. Records of aborted transactions must not be
among the input (read with ``isolation.level=read_committed``); of committed ones the record's own offset
counts, not that of its marker. Records outside their group's partition are kept apart.

Source: specs/group-coordinator.md §1.7.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from groupshift.domain.coordinator_log.grouping import group_state
from groupshift.domain.coordinator_log.records import Decoded, DecodeStatus
from groupshift.domain.coordinator_log.state import Commit, ForeignCommit, State
from groupshift.errors import Rejected

_COMMITS = frozenset({0, 1})
_Key = tuple[object, ...]


def materialise(records: Iterable[Decoded], up_to: Mapping[int, int] | None = None) -> State:
    """The state that these records add up to, in whatever order they come.

    ``up_to`` is the position: partition → end offset, exclusive; of a partition that it does not name
    nothing is taken. None: everything. Raises `Rejected` for records decoded without a partition count.
    """
    winners: dict[_Key, Decoded] = {}
    seen: Counter[_Key] = Counter()
    unreadable: list[Decoded] = []
    ends: dict[int, int] = {}
    for record in records:
        if up_to is not None and record.src_offset >= up_to.get(record.src_partition, 0):
            continue
        ends[record.src_partition] = max(ends.get(record.src_partition, 0), record.src_offset + 1)
        if record.group_id is None and record.decode_status is not DecodeStatus.UNKNOWN_TYPE:
            unreadable.append(record)
            continue
        key = _logical_key(record)
        seen[key] += 1
        if key not in winners or winners[key].src_offset < record.src_offset:
            winners[key] = record
    return _assembled(winners, seen, unreadable, ends)


def _logical_key(record: Decoded) -> _Key:
    """What a later record replaces: within one partition of the log."""
    if record.record_type in _COMMITS:
        return record.src_partition, record.group_id, record.topic, record.partition
    return record.src_partition, record.raw_key


def _assembled(
    winners: Mapping[_Key, Decoded],
    seen: Mapping[_Key, int],
    unreadable: list[Decoded],
    ends: Mapping[int, int],
) -> State:
    known = {key: one for key, one in winners.items() if one.decode_status is not DecodeStatus.UNKNOWN_TYPE}
    commits: dict[str, list[Commit]] = defaultdict(list)
    others: dict[str, list[Decoded]] = defaultdict(list)
    foreign: list[tuple[Commit, int]] = []
    foreign_records: list[Decoded] = []
    for key, record in known.items():
        home, group = _home(record), record.group_id or ""
        here = home == record.src_partition
        if record.record_type not in _COMMITS:
            (others[group] if here else foreign_records).append(record)
        elif here:
            commits[group].append(_commit(record, beaten=seen[key] - 1))
        else:
            foreign.append((_commit(record, beaten=seen[key] - 1), home))
    groups = {
        group: group_state(group, commits.get(group, []), others.get(group, []))
        for group in sorted({*commits, *others})
    }
    at_home = {_commit_key(one): one for group in groups.values() for one in group.commits}
    return State(
        groups=groups,
        foreign_commits=tuple(_foreign(one, home, at_home.get(_commit_key(one))) for one, home in foreign),
        foreign_records=tuple(foreign_records),
        unknown=tuple(one for key, one in winners.items() if key not in known),
        unreadable=tuple(unreadable),
        ends=dict(ends),
    )


def _home(record: Decoded) -> int:
    if record.expected_partition is None:
        raise Rejected(
            f"record {record.src_offset} of partition {record.src_partition} was decoded without a partition "
            "count, so foreign records cannot be told apart; decode with partitions=<count>"
        )
    return record.expected_partition


def _commit_key(commit: Commit) -> tuple[str, str, int]:
    return commit.group_id, commit.topic, commit.partition


def _commit(record: Decoded, *, beaten: int) -> Commit:
    value = record.decoded or {}
    assert record.group_id is not None  # noqa: S101  (has a readable key)
    assert record.topic is not None  # noqa: S101
    assert record.partition is not None  # noqa: S101
    assert record.record_type is not None  # noqa: S101
    return Commit(
        group_id=record.group_id,
        topic=record.topic,
        partition=record.partition,
        src_partition=record.src_partition,
        record_offset=record.src_offset,
        record_ts=record.record_ts,
        record_type=record.record_type,
        is_tombstone=record.is_tombstone,
        status=record.decode_status,
        value_version=record.value_version,
        offset=value.get("offset"),
        leader_epoch=value.get("leaderEpoch", -1),
        metadata=value.get("metadata", ""),
        commit_timestamp=value.get("commitTimestamp", -1),
        expire_timestamp=value.get("expireTimestamp", -1),
        topic_id=value.get("topicId", ""),
        beaten=beaten,
    )


def _foreign(commit: Commit, expected: int, home: Commit | None) -> ForeignCommit:
    newer = None
    if home is not None and min(home.commit_timestamp, commit.commit_timestamp) >= 0:
        newer = commit.commit_timestamp > home.commit_timestamp
    return ForeignCommit(commit=commit, expected_partition=expected, home=home, newer=newer)
