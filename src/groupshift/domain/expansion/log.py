"""The log of ``__consumer_offsets`` as an expansion sees it: load by partition, and what lies elsewhere than
the count in force says.

Only keys are read of records at home, unless times are asked for; values are decoded of what lies elsewhere.
Source: specs/group-coordinator.md §1.7 and §3.1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from groupshift.domain.expansion.counts import Hashed
from groupshift.domain.expansion.places import Elsewhere, LoggedCommit, LoggedPlaces, PartitionLoad
from groupshift.domain.placement import partition_of
from groupshift.log import DecodeStatus, LogRecord, decode
from groupshift.log.other_writers import other_writers

_COMMITS = frozenset({b"\0\0", b"\0\1"})
_CLASSIC = _COMMITS | {b"\0\2"}
_LOOKED_AT = 500
"""Values of one type by which it is told who wrote the log."""
_COMMIT = b"\0\1"
_NAME_AT = 4
_TIME, _UNKNOWN = "commitTimestamp", -1
_Key = tuple[int, bytes]


class LogReading:
    """Takes records in any order; `places` holds them against a count, as often as wanted.

    Keeps the newest record of every key, tombstones too: about 400 bytes each."""

    def __init__(self) -> None:
        self._winners: dict[_Key, LogRecord] = {}
        self._records: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        self._unreadable = 0

    def take(self, records: Iterable[LogRecord]) -> LogReading:
        """Add records; returns itself."""
        for each in records:
            self._records[each.partition] += 1
            self._bytes[each.partition] += _size(each)
            key = (each.partition, _logical(each.key or b""))
            before = self._winners.get(key)
            if before is None or before.offset < each.offset:
                self._winners[key] = each
        return self

    def places(
        self,
        count: int,
        partitions: int,
        *,
        newest: bool = True,
        erased: bool = False,
        old: bool = False,
        commits: bool = False,
    ) -> LoggedPlaces:
        """Held against ``count`` partitions in force, of ``partitions`` that there are; ``newest`` False
        leaves `LoggedPlaces.newest` out, for which every commit is decoded; so without ``erased``
        `LoggedPlaces.erased_ms`, for which the names of everything deleted are hashed. With ``old``
        groups are those of which an OLD coordinator loads anything: it neither lists nor deletes others.
        ``commits`` asks for `LoggedPlaces.commits` and who wrote the log, for which every commit and group is
        decoded.

        Raises `Rejected` for a count below 1."""
        by_group, unreadable = self._live()
        loaded = _loaded(by_group) if old else by_group
        hashed = Hashed(by_group)
        homes = dict(zip(hashed.groups, hashed.places(count), strict=True))
        times = {group: _newest(found) for group, found in by_group.items()} if newest else {}
        return LoggedPlaces(
            count=count,
            loads=self._loads(by_group, partitions),
            groups={group: frozenset(each.partition for each in found) for group, found in loaded.items()},
            newest={group: where for group, where in times.items() if where is not None},
            elsewhere=tuple(self._elsewhere(by_group, homes)),
            others=_others(by_group, homes),
            strays=_strays(by_group, homes),
            erased_ms=max(self._erased(count), default=None) if erased else None,
            unreadable=unreadable,
            records=sum(self._records.values()),
            commits=tuple(_commits(by_group, homes)) if commits else (),
            others_wrote=self._others_wrote() if commits else (),
        )

    def loads_after(self, count: int) -> tuple[PartitionLoad, ...]:
        """Live load by partition when every group's live records lie where ``count`` partitions put them."""
        by_group, _ = self._live()
        hashed = Hashed(by_group)
        loads = [PartitionLoad(partition=number) for number in range(count)]
        for group, place in zip(hashed.groups, hashed.places(count), strict=True):
            loads[place] = _with(loads[place], 1, by_group[group])
        return tuple(loads)

    def _live(self) -> tuple[dict[str, list[LogRecord]], int]:
        by_group, unreadable = defaultdict[str, list[LogRecord]](list), 0
        for each in self._winners.values():
            group = _group(each.key or b"")
            if group is None:
                unreadable += 1
            elif each.value is not None:
                by_group[group].append(each)
        return by_group, unreadable

    def _loads(self, by_group: Mapping[str, list[LogRecord]], partitions: int) -> tuple[PartitionLoad, ...]:
        loads = {
            number: PartitionLoad(partition=number, records=self._records[number], bytes=self._bytes[number])
            for number in {*range(partitions), *self._records}
        }
        for found in by_group.values():
            by_place = defaultdict[int, list[LogRecord]](list)
            for each in found:
                by_place[each.partition].append(each)
            for place, records in by_place.items():
                loads[place] = _with(loads[place], 1, records)
        return tuple(loads[number] for number in sorted(loads))

    def _elsewhere(
        self, by_group: Mapping[str, list[LogRecord]], homes: Mapping[str, int]
    ) -> Iterator[Elsewhere]:
        deleted = self._deleted()
        for group, found in sorted(by_group.items()):
            home = homes[group]
            for each in found:
                if each.partition != home and _is_commit(each):
                    key = _logical(each.key or b"")
                    compared = _compared(each, self._winners.get((home, key)), home)
                    yield replace(compared, deleted_ms=deleted.get(key, _UNKNOWN))

    def _erased(self, count: int) -> Iterator[int]:
        """When something was deleted outside its group's partition."""
        gone = [each for each in self._winners.values() if each.value is None]
        named = [(group, each) for each in gone if (group := _group(each.key or b"")) is not None]
        hashed = Hashed({group for group, _ in named})
        homes = dict(zip(hashed.groups, hashed.places(count), strict=True))
        return (each.timestamp_ms for group, each in named if each.partition != homes[group])

    def _others_wrote(self) -> tuple[str, ...]:
        """By some values of each type."""
        met = Counter[bytes]()
        found = []
        for each in self._winners.values():
            kind = (each.key or b"")[:2]
            if each.value is not None and met[kind] < _LOOKED_AT:
                met[kind] += 1
                found.append(each)
        return other_writers(decode(each, partitions=None) for each in found)

    def _deleted(self) -> dict[bytes, int]:
        """When each commit's key was deleted last, in whatever partition."""
        found: dict[bytes, int] = {}
        for (_, key), each in self._winners.items():
            if each.value is None and key[:2] in _COMMITS:
                found[key] = max(found.get(key, _UNKNOWN), each.timestamp_ms)
        return found


def counts_by_newest(newest: Mapping[str, tuple[int, int]], candidates: Iterable[int]) -> frozenset[int]:
    """Of ``candidates`` those that put the newest commits where they lie: commits are asked from the last one
    backwards, until one was written under another count. Which count was used last, not which most."""
    left = frozenset(candidates)
    for group, (_, place) in sorted(newest.items(), key=lambda each: each[1], reverse=True):
        fitting = frozenset(count for count in left if partition_of(group, count) == place)
        if not fitting:
            break
        left = fitting
    return left


def _with(load: PartitionLoad, groups: int, records: Iterable[LogRecord]) -> PartitionLoad:
    found = list(records)
    return replace(
        load,
        groups=load.groups + groups,
        live_records=load.live_records + len(found),
        live_bytes=load.live_bytes + sum(map(_size, found)),
    )


def _size(record: LogRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _is_commit(record: LogRecord) -> bool:
    return (record.key or b"")[:2] in _COMMITS


def _loaded(by_group: Mapping[str, list[LogRecord]]) -> dict[str, list[LogRecord]]:
    """What OLD coordinators load: commits and groups of the classic protocol (types 0 to 2)."""
    found = {
        group: [each for each in of if (each.key or b"")[:2] in _CLASSIC] for group, of in by_group.items()
    }
    return {group: kept for group, kept in found.items() if kept}


def _logical(key: bytes) -> bytes:
    """What a later record replaces: commits of the types 0 and 1 have one key."""
    return _COMMIT + key[2:] if key[:2] in _COMMITS else key


def _group(key: bytes) -> str | None:
    """The group that a key names: always its first field, whatever the type."""
    if len(key) < _NAME_AT:
        return None
    end = _NAME_AT + int.from_bytes(key[2:_NAME_AT], "big", signed=True)
    if not _NAME_AT <= end <= len(key):
        return None
    try:
        return key[_NAME_AT:end].decode()
    except UnicodeDecodeError:
        return None


def _compared(there: LogRecord, here: LogRecord | None, home: int) -> Elsewhere:
    """A commit elsewhere beside what home says of the same key."""
    found = decode(there, partitions=None)
    own = None if here is None else decode(here, partitions=None)
    said, homes_said = found.decoded or {}, (own.decoded if own else None) or {}
    times = said.get(_TIME, _UNKNOWN), homes_said.get(_TIME, _UNKNOWN)
    if here is not None and here.value is None:  # deleted or expired at home: a tombstone has no other time
        times = times[0], here.timestamp_ms
    return Elsewhere(
        group=found.group_id or "",
        topic=found.topic or "",
        partition=-1 if found.partition is None else found.partition,
        found=there.partition,
        home=home,
        offset=said.get("offset"),
        committed_ms=times[0],
        record_offset=there.offset,
        leader_epoch=said.get("leaderEpoch", -1),
        metadata=said.get("metadata") or "",
        topic_id=said.get("topicId") or "",
        expires_ms=said.get("expireTimestamp", _UNKNOWN),
        readable=found.decode_status is DecodeStatus.OK,
        at_home=homes_said.get("offset"),
        home_record_offset=here.offset if here is not None else None,
        newer=times[0] > times[1] if _UNKNOWN not in times else None,
    )


def _newest(records: Iterable[LogRecord]) -> tuple[int, int] | None:
    """Time and partition of the newest commit, by its own time; None where none has one."""
    times = [
        ((decode(each, partitions=None).decoded or {}).get(_TIME, _UNKNOWN), each.partition)
        for each in records
        if _is_commit(each)
    ]
    latest = max(times, default=(_UNKNOWN, 0))
    return latest if latest[0] != _UNKNOWN else None


def _commits(by_group: Mapping[str, list[LogRecord]], homes: Mapping[str, int]) -> Iterator[LoggedCommit]:
    for group, records in sorted(by_group.items()):
        for each in records:
            if each.partition == homes[group] and _is_commit(each):
                found = decode(each, partitions=None)
                if found.topic is not None and found.partition is not None:
                    topic_id = (found.decoded or {}).get("topicId", "")
                    yield LoggedCommit(
                        group=group, topic=found.topic, partition=found.partition, topic_id=topic_id
                    )


def _strays(
    by_group: Mapping[str, list[LogRecord]], homes: Mapping[str, int]
) -> dict[str, tuple[tuple[int, bytes], ...]]:
    found = {
        group: tuple(
            sorted((each.partition, each.key or b"") for each in records if each.partition != homes[group])
        )
        for group, records in by_group.items()
    }
    return {group: keys for group, keys in found.items() if keys}


def _others(by_group: Mapping[str, list[LogRecord]], homes: Mapping[str, int]) -> dict[str, int]:
    found = {
        group: sum(each.partition != homes[group] and not _is_commit(each) for each in records)
        for group, records in by_group.items()
    }
    return {group: number for group, number in sorted(found.items()) if number}
