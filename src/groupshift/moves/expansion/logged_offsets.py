"""What the log of ``__consumer_offsets`` adds up to for an expansion: load by partition, commits that lie
elsewhere than the count in force says, and which groups another count moves.

Only keys are read of records at home, unless times are asked for; values are decoded of what lies elsewhere.
Source: docs/reference/group-coordinator.md §1.7 and §3.1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from groupshift.domain.commit_places import ZERO_ID
from groupshift.domain.group_partition_and_count import hash_of, partition_of, share_that_stays
from groupshift.domain.partitions import grouped
from groupshift.domain.rows import OffsetRow
from groupshift.log import Decoded, DecodeStatus, LogRecord, decode
from groupshift.log.replay import other_writers
from groupshift.ports.log import OffsetsLog

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """One partition: what of it is ``live`` (the newest of its key and no tombstone; bytes of keys and
    values, uncompressed), and how many groups have anything live."""

    partition: int
    groups: int = 0
    live_records: int = 0
    live_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere(OffsetRow):
    """A live commit that lies in partition ``lies_at`` although the group belongs to ``home``; its ``offset``
    is -1 where it cannot be read.

    ``at_home`` is what the newest record at home says (None: nothing, or it is a tombstone),
    ``newer`` whether this was committed later than that (None: it cannot be told). ``record_offset`` and
    ``home_record_offset`` are places in the log: OLD coordinators keep the higher one, whatever the times.
    ``readable``: all of its value is understood. ``expires_ms`` is an expiry of its own (-1: none),
    ``deleted_ms`` when a tombstone of this key was written last, in whatever partition (-1: none is)."""

    lies_at: int
    home: int
    committed_ms: int
    record_offset: int
    readable: bool = True
    expires_ms: int = _UNKNOWN
    deleted_ms: int = _UNKNOWN
    at_home: int | None = None
    home_record_offset: int | None = None
    newer: bool | None = None

    @property
    def row(self) -> OffsetRow:
        """What was committed, as it would be committed again."""
        return OffsetRow(**{each.name: getattr(self, each.name) for each in fields(OffsetRow)})

    @property
    def lost(self) -> bool:
        """Whether the coordinator at home answers -1, or something older than this commit."""
        return self.home_record_offset is None or self.newer is True


_MULTIPLES = (2, 3, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """A group that changes its partition of ``__consumer_offsets``."""

    group: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What going to ``count`` partitions costs: ``moving`` of ``groups`` groups move; ``stays`` is the share
    of all possible names that does not (N / lcm(N, M)); ``multiple`` says whether it is one of the count now.
    """

    count: int
    stays: float
    moving: int
    groups: int
    multiple: bool


class Hashed:
    """Group names with their hashes, made once for any number of counts: 500,000 names are a matter of
    seconds, and nothing is kept beyond this object."""

    def __init__(self, groups: Iterable[str]) -> None:
        self.groups: Sequence[str] = tuple(sorted(set(groups)))
        self._hashes = tuple(map(hash_of, self.groups))

    def movers(self, count_before: int, count_after: int) -> tuple[Mover, ...]:
        """Groups whose partition differs between the two counts, by name."""
        return tuple(
            Mover(group=group, before=hashed % count_before, after=hashed % count_after)
            for group, hashed in zip(self.groups, self._hashes, strict=True)
            if hashed % count_before != hashed % count_after
        )

    def cost(self, before: int, after: int) -> Cost:
        """What going from ``before`` to ``after`` partitions costs. Raises `Rejected` for counts below 1."""
        stays, multiple = share_that_stays(before, after), after % before == 0
        moving = sum(hashed % before != hashed % after for hashed in self._hashes)
        return Cost(count=after, stays=stays, moving=moving, groups=len(self.groups), multiple=multiple)


def worth_comparing(before: int, after: int) -> tuple[int, ...]:
    """Counts to show beside ``after``: small multiples of ``before``, and the multiple next to ``after``."""
    above = -(-after // before) * before
    counts: Collection[int] = {after, above, *(before * each for each in _MULTIPLES)}
    return tuple(sorted(counts))


_COMMITS = frozenset({b"\0\0", b"\0\1"})
_CLASSIC = _COMMITS | {b"\0\2"}
"""What OLD coordinators load: commits and groups of the classic protocol."""
_LOOKED_AT = 500
"""Values of one type by which it is told who wrote the log."""
_COMMIT = b"\0\1"
_NAME_AT = 4
_TIME, _EXPIRY = "commitTimestamp", "expireTimestamp"


class LogReading:
    """A log as it was read, its records in any order.

    ``winners`` are the newest records by partition and key, tombstones too: about 400 bytes each. ``live``
    are those that are no tombstones, by group; ``records`` counts all that were read; ``unreadable`` keys
    name no group."""

    def __init__(self, records: Iterable[LogRecord]) -> None:
        self.winners: dict[tuple[int, bytes], LogRecord] = {}
        self.records = 0
        for each in records:
            self.records += 1
            key = (each.partition, _logical(each.key or b""))
            before = self.winners.get(key)
            if before is None or before.offset < each.offset:
                self.winners[key] = each
        self.live, self.unreadable = defaultdict[str, list[LogRecord]](list), 0
        for each in self.winners.values():
            group = _group(each.key or b"")
            if group is None:
                self.unreadable += 1
            elif each.value is not None:
                self.live[group].append(each)

    def partition_loads(self, count: int, *, at_home: bool = False) -> tuple[PartitionLoad, ...]:
        """Return the live load of ``count`` partitions and whichever else has any, as records lie there;
        ``at_home``: if every group's records lay where so many partitions put them."""
        sizes = defaultdict[int, list[tuple[str, int]]](list)
        for group, records in self.live.items():
            home = partition_of(group, count) if at_home else None
            for each in records:
                size = len(each.key or b"") + len(each.value or b"")
                sizes[each.partition if home is None else home].append((group, size))
        return tuple(
            PartitionLoad(
                partition=place,
                groups=len({group for group, _ in sizes[place]}),
                live_records=len(sizes[place]),
                live_bytes=sum(size for _, size in sizes[place]),
            )
            for place in sorted({*range(count), *sizes})
        )


class LoggedPlaces:
    """A whole log, held against ``count`` partitions in force, of ``partitions`` that there are. Only what is
    asked for is computed: values are decoded for `newest`, `elsewhere`, `commits` and `others_wrote`.

    With ``old`` `groups` are those of which an OLD coordinator loads anything: it neither lists nor deletes
    others.

    Raises:
        Rejected: a count below 1.
    """

    def __init__(self, reading: LogReading, count: int, partitions: int = 0, *, old: bool = False) -> None:
        self.count = count
        self.records, self.unreadable = reading.records, reading.unreadable
        self._reading, self._partitions, self._old = reading, partitions, old
        self._homes = {group: partition_of(group, count) for group in sorted(reading.live)}
        self._away = {
            group: away
            for group, home in self._homes.items()
            if (away := [each for each in reading.live[group] if each.partition != home])
        }
        self.strays: Mapping[str, Sequence[tuple[int, bytes]]] = {
            group: sorted((each.partition, each.key or b"") for each in records)
            for group, records in self._away.items()
        }
        """Partition and key of everything live elsewhere, by group."""

    @cached_property
    def loads(self) -> tuple[PartitionLoad, ...]:
        """The live load of each partition as its records lie there."""
        return self._reading.partition_loads(self._partitions)

    @cached_property
    def groups(self) -> Mapping[str, frozenset[int]]:
        """Groups with anything live, by the partitions where they have it."""
        loaded = {
            group: frozenset(each.partition for each in records if not self._old or _kind(each) in _CLASSIC)
            for group, records in self._reading.live.items()
        }
        return {group: records for group, records in loaded.items() if records}

    @cached_property
    def newest(self) -> Mapping[str, tuple[int, int]]:
        """Time (epoch ms) and partition of each group's newest commit, by its own time; groups of which no
        commit has one are left out."""
        newest_of: dict[str, tuple[int, int]] = {}
        for group, records in self._reading.live.items():
            times = [
                ((decode(each, partitions=None).decoded or {}).get(_TIME, _UNKNOWN), each.partition)
                for each in records
                if _kind(each) in _COMMITS
            ]
            latest = max(times, default=(_UNKNOWN, 0))
            if latest[0] != _UNKNOWN:
                newest_of[group] = latest
        return newest_of

    @cached_property
    def elsewhere(self) -> tuple[Elsewhere, ...]:
        """Every live commit outside its group's partition, beside what home says of the same key."""
        winners = self._reading.winners
        deleted = grouped((key, one.timestamp_ms) for (_, key), one in winners.items() if one.value is None)
        displaced = []
        for group, away in self._away.items():
            for each in (one for one in away if _kind(one) in _COMMITS):
                key, home = _logical(each.key or b""), self._homes[group]
                compared = _compared(each, winners.get((home, key)), home)
                displaced.append(replace(compared, deleted_ms=max(deleted.get(key, (_UNKNOWN,)))))
        return tuple(displaced)

    @property
    def residue(self) -> frozenset[str]:
        """Groups with anything live outside their partition."""
        return frozenset(self._away)

    @cached_property
    def erased_ms(self) -> int | None:
        """When something was deleted last outside its group's partition (epoch ms; None: nothing)."""
        gone = (each for each in self._reading.winners.values() if each.value is None)
        named = ((each, group) for each in gone if (group := _group(each.key or b"")) is not None)
        away = (each for each, group in named if each.partition != partition_of(group, self.count))
        return max((each.timestamp_ms for each in away), default=None)

    @cached_property
    def _at_home(self) -> tuple[tuple[OffsetRow, int], ...]:
        """The live commits in their groups' own partitions, each with its expiry (epoch ms; -1: none)."""
        decoded = (
            decode(each, partitions=None)
            for group, home in self._homes.items()
            for each in self._reading.live[group]
            if each.partition == home and _kind(each) in _COMMITS
        )
        return tuple(
            (OffsetRow(**_committed(each)), (each.decoded or {}).get(_EXPIRY, _UNKNOWN))
            for each in decoded
            if each.topic is not None
        )

    @cached_property
    def commits(self) -> tuple[OffsetRow, ...]:
        """The live commits in their groups' own partitions."""
        return tuple(row for row, _ in self._at_home)

    @property
    def expiring(self) -> list[str]:
        """The groups of those with an expiry of their own, each as often as it has one: what is committed
        again has none (clients before Kafka 2.1 could ask for one; group-coordinator.md §3.4 step 10)."""
        return sorted(row.group for row, expires_ms in self._at_home if expires_ms > _UNKNOWN)

    @cached_property
    def others_wrote(self) -> tuple[str, ...]:
        """The types whose values Apache Kafka did not write, by some values of each: nothing follows from
        such a log."""
        met, looked = Counter[bytes](), list[LogRecord]()
        for each in self._reading.winners.values():
            if each.value is not None and met[_kind(each)] < _LOOKED_AT:
                met[_kind(each)] += 1
                looked.append(each)
        return other_writers(decode(each, partitions=None) for each in looked)


def held(log: OffsetsLog, count: int, *, old: bool = False) -> LoggedPlaces:
    """The whole log as it is now, held against ``count`` partitions. Raises as `OffsetsLog.read`."""
    return LoggedPlaces(LogReading(log.read(log.position())), count, old=old)


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


def _kind(record: LogRecord) -> bytes:
    """The first two bytes of a key: the type of the record."""
    return (record.key or b"")[:2]


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


def _committed(record: Decoded) -> dict[str, Any]:
    """The fields of an `OffsetRow` that a commit of the log has; offset -1 where that cannot be read."""
    said = record.decoded or {}
    epoch, topic_id = said.get("leaderEpoch", _UNKNOWN), said.get("topicId")
    return {
        "group": record.group_id or "",
        "topic": record.topic or "",
        "partition": _UNKNOWN if record.partition is None else record.partition,
        "offset": said.get("offset", _UNKNOWN),
        "leader_epoch": None if epoch == _UNKNOWN else epoch,
        "metadata": said.get("metadata") or "",
        "topic_id": None if topic_id in {"", ZERO_ID} else topic_id,
    }


def _compared(there: LogRecord, here: LogRecord | None, home: int) -> Elsewhere:
    """A commit elsewhere beside what home says of the same key."""
    decoded = decode(there, partitions=None)
    own = None if here is None else decode(here, partitions=None)
    said, homes_said = decoded.decoded or {}, (own.decoded if own else None) or {}
    times = said.get(_TIME, _UNKNOWN), homes_said.get(_TIME, _UNKNOWN)
    if here is not None and here.value is None:  # deleted or expired at home: a tombstone has no other time
        times = times[0], here.timestamp_ms
    return Elsewhere(
        **_committed(decoded),
        lies_at=there.partition,
        home=home,
        committed_ms=times[0],
        record_offset=there.offset,
        expires_ms=said.get(_EXPIRY, _UNKNOWN),
        readable=decoded.decode_status is DecodeStatus.OK,
        at_home=homes_said.get("offset"),
        home_record_offset=here.offset if here is not None else None,
        newer=times[0] > times[1] if _UNKNOWN not in times else None,
    )
