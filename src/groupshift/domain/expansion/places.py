"""What the log of ``__consumer_offsets`` adds up to for an expansion: load by partition, and commits that lie
elsewhere than the count in force says. Plain data.

Source: specs/group-coordinator.md §1.7 and §3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupshift.domain.commit_places import ZERO_ID
from groupshift.domain.rows import OffsetRow

_UNKNOWN = -1


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
    def row(self) -> OffsetRow:
        """What was committed, as it would be committed again."""
        return OffsetRow(
            group=self.group,
            topic=self.topic,
            partition=self.partition,
            offset=_UNKNOWN if self.offset is None else self.offset,
            leader_epoch=None if self.leader_epoch == _UNKNOWN else self.leader_epoch,
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
