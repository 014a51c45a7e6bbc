"""What the log of ``__consumer_offsets`` adds up to for an expansion: load by partition, commits that lie
elsewhere than the count in force says, and which groups another count moves.

Only keys are read of records at home, unless times are asked for; values are decoded of what lies elsewhere.
Source: docs/reference/group-coordinator.md §1.7 and §3.1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from groupshift.domain.commit_places import ZERO_ID
from groupshift.domain.placement import hash_of, partition_of, share_that_stays
from groupshift.domain.rows import OffsetRow
from groupshift.log import DecodeStatus, LogRecord, decode
from groupshift.log.replay import other_writers
from groupshift.ports.log import OffsetsLog

_UNKNOWN_COUNT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """One partition: all ``records`` and ``bytes`` (keys and values, uncompressed) as they lie there, what
    of it is ``live`` (the newest of its key and no tombstone), and how many groups have anything live."""

    partition: int
    groups: int = 0
    records: int = 0
    bytes: int = 0
    live_records: int = 0
    live_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A live commit that lies at ``found`` although the group belongs to ``home``. ``offset`` is what it
    says, ``at_home`` what the newest record at home says (None: nothing, or it is a tombstone); ``newer``
    whether it was committed later than that (None: it cannot be told); ``record_offset`` and
    ``home_record_offset`` are places in the log: OLD coordinators keep the higher one, whatever the times;
    ``readable`` whether all of its value is understood; ``expires_ms`` an expiry of its own (-1: none) and
    ``deleted_ms`` when a tombstone of this key was written last, in whatever partition (-1: none is);
    ``topic_id`` is the one in the record (empty: none)."""

    group: str
    topic: str
    partition: int
    found: int
    home: int
    offset: int | None
    committed_ms: int
    record_offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: str = ""
    readable: bool = True
    expires_ms: int = -1
    deleted_ms: int = -1
    at_home: int | None = None
    home_record_offset: int | None = None
    newer: bool | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """Group, topic, partition."""
        return self.group, self.topic, self.partition

    @property
    def row(self) -> OffsetRow:
        """What was committed, as it would be committed again."""
        return OffsetRow(
            group=self.group,
            topic=self.topic,
            partition=self.partition,
            offset=_UNKNOWN_COUNT if self.offset is None else self.offset,
            leader_epoch=None if self.leader_epoch == _UNKNOWN_COUNT else self.leader_epoch,
            metadata=self.metadata,
            topic_id=None if self.topic_id in {"", ZERO_ID} else self.topic_id,
        )

    @property
    def lost(self) -> bool:
        """Whether the coordinator at home answers -1, or something older than this commit."""
        return self.home_record_offset is None or self.newer is True

    @property
    def shadows(self) -> bool:
        """Whether an OLD coordinator that leads both partitions prefers this one to a newer commit."""
        where = self.home_record_offset
        return where is not None and self.newer is False and self.record_offset > where


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCommit:
    """A live commit in its group's partition; ``topic_id`` is empty for a record without one (before 4.1)."""

    group: str
    topic: str
    partition: int
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPlaces:
    """A whole log, held against ``count``. ``groups`` are those with anything live, by the partitions where
    they have it; ``newest`` is time (epoch ms) and partition of each group's newest commit; ``others`` counts
    live records elsewhere that are no commits, by group; ``strays`` are partition and key of everything live
    elsewhere, by group; ``erased_ms`` is when something elsewhere was deleted last (epoch ms; None: nothing);
    ``unreadable`` keys name no group; ``commits`` are the live ones at home, where they were asked for;
    ``others_wrote`` the types whose values Apache Kafka did not write: then nothing follows from all this."""

    count: int
    loads: tuple[PartitionLoad, ...] = ()
    groups: Mapping[str, frozenset[int]] = field(default_factory=dict)
    newest: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    elsewhere: tuple[Elsewhere, ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)
    strays: Mapping[str, tuple[tuple[int, bytes], ...]] = field(default_factory=dict)
    erased_ms: int | None = None
    unreadable: int = 0
    records: int = 0
    commits: tuple[LoggedCommit, ...] = ()
    others_wrote: tuple[str, ...] = ()

    @property
    def residue(self) -> frozenset[str]:
        """Groups with anything live outside their partition."""
        return frozenset(each.group for each in self.elsewhere) | frozenset(self.others)


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

    def movers(self, before: int, after: int) -> tuple[Mover, ...]:
        """Groups whose partition differs between the two counts, by name."""
        return tuple(
            Mover(group=group, before=hashed % before, after=hashed % after)
            for group, hashed in zip(self.groups, self._hashes, strict=True)
            if hashed % before != hashed % after
        )

    def cost(self, before: int, after: int) -> Cost:
        """What going from ``before`` to ``after`` partitions costs. Raises `Rejected` for counts below 1."""
        stays = share_that_stays(before, after)
        moving = sum(hashed % before != hashed % after for hashed in self._hashes)
        multiple = after % before == 0
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
_TIME, _UNKNOWN = "commitTimestamp", -1
_Key = tuple[int, bytes]
_ByGroup = Mapping[str, Sequence[LogRecord]]


class LogReading:
    """Takes records in any order; `places` holds them against a count, as often as wanted.

    Keeps the newest record of every key, tombstones too: about 400 bytes each."""

    def __init__(self) -> None:
        self._winners: dict[_Key, LogRecord] = {}
        self._records: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()

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
        homes = {group: partition_of(group, count) for group in by_group}
        away = {
            group: found
            for group in sorted(by_group)
            if (found := [each for each in by_group[group] if each.partition != homes[group]])
        }
        loaded = {
            group: {each.partition for each in found if not old or _kind(each) in _CLASSIC}
            for group, found in by_group.items()
        }
        times = {group: _newest(found) for group, found in by_group.items()} if newest else {}
        others = {group: sum(not _is_commit(each) for each in found) for group, found in away.items()}
        return LoggedPlaces(
            count=count,
            loads=self._loads(by_group, partitions),
            groups={group: frozenset(found) for group, found in loaded.items() if found},
            newest={group: where for group, where in times.items() if where is not None},
            elsewhere=tuple(self._elsewhere(away, homes)),
            others={group: number for group, number in others.items() if number},
            strays={
                group: tuple(sorted((each.partition, each.key or b"") for each in found))
                for group, found in away.items()
            },
            erased_ms=max(self._erased(count), default=None) if erased else None,
            unreadable=unreadable,
            records=sum(self._records.values()),
            commits=tuple(_commits(by_group, homes)) if commits else (),
            others_wrote=self._others_wrote() if commits else (),
        )

    def loads_after(self, count: int) -> tuple[PartitionLoad, ...]:
        """Live load by partition when every group's live records lie where ``count`` partitions put them."""
        by_place = defaultdict[int, list[Sequence[LogRecord]]](list)
        for group, found in self._live()[0].items():
            by_place[partition_of(group, count)].append(found)
        return tuple(_load(PartitionLoad(partition=number), by_place[number]) for number in range(count))

    def _live(self) -> tuple[_ByGroup, int]:
        by_group, unreadable = defaultdict[str, list[LogRecord]](list), 0
        for each in self._winners.values():
            group = _group(each.key or b"")
            if group is None:
                unreadable += 1
            elif each.value is not None:
                by_group[group].append(each)
        return by_group, unreadable

    def _loads(self, by_group: _ByGroup, partitions: int) -> tuple[PartitionLoad, ...]:
        by_place = defaultdict[int, dict[str, list[LogRecord]]](lambda: defaultdict(list))
        for group, found in by_group.items():
            for each in found:
                by_place[each.partition][group].append(each)
        return tuple(
            _load(
                PartitionLoad(partition=number, records=self._records[number], bytes=self._bytes[number]),
                by_place[number].values(),
            )
            for number in sorted({*range(partitions), *self._records})
        )

    def _elsewhere(self, away: _ByGroup, homes: Mapping[str, int]) -> Iterator[Elsewhere]:
        deleted: dict[bytes, int] = {}
        """When each commit's key was deleted last, in whatever partition."""
        for (_, key), each in self._winners.items():
            if each.value is None and key[:2] in _COMMITS:
                deleted[key] = max(deleted.get(key, _UNKNOWN), each.timestamp_ms)
        for group, found in away.items():
            for each in filter(_is_commit, found):
                key, home = _logical(each.key or b""), homes[group]
                compared = _compared(each, self._winners.get((home, key)), home)
                yield replace(compared, deleted_ms=deleted.get(key, _UNKNOWN))

    def _erased(self, count: int) -> Iterator[int]:
        """When something was deleted outside its group's partition."""
        for each in self._winners.values():
            group = _group(each.key or b"") if each.value is None else None
            if group is not None and each.partition != partition_of(group, count):
                yield each.timestamp_ms

    def _others_wrote(self) -> tuple[str, ...]:
        """By some values of each type."""
        met = Counter[bytes]()
        found = []
        for each in self._winners.values():
            if each.value is not None and met[_kind(each)] < _LOOKED_AT:
                met[_kind(each)] += 1
                found.append(each)
        return other_writers(decode(each, partitions=None) for each in found)


def held(log: OffsetsLog, count: int, *, old: bool = False) -> LoggedPlaces:
    """The whole log as it is now, held against ``count`` partitions; see `LogReading.places`."""
    return LogReading().take(log.read(log.position())).places(count, 0, newest=False, old=old)


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


def _load(load: PartitionLoad, by_group: Collection[Sequence[LogRecord]]) -> PartitionLoad:
    return replace(
        load,
        groups=len(by_group),
        live_records=sum(map(len, by_group)),
        live_bytes=sum(_size(each) for found in by_group for each in found),
    )


def _size(record: LogRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _kind(record: LogRecord) -> bytes:
    return (record.key or b"")[:2]


def _is_commit(record: LogRecord) -> bool:
    return _kind(record) in _COMMITS


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


def _commits(by_group: _ByGroup, homes: Mapping[str, int]) -> Iterator[LoggedCommit]:
    for group, records in sorted(by_group.items()):
        for each in records:
            if each.partition == homes[group] and _is_commit(each):
                found = decode(each, partitions=None)
                if found.topic is not None and found.partition is not None:
                    topic_id = (found.decoded or {}).get("topicId", "")
                    yield LoggedCommit(
                        group=group, topic=found.topic, partition=found.partition, topic_id=topic_id
                    )
