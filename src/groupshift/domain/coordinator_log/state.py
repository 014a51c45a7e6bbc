"""What the records add up to: offsets, groups, tombstones and what does not belong.

Source: specs/group-coordinator.md §1.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.coordinator_log.records import Decoded, DecodeStatus


class GroupFamily(StrEnum):
    """What a coordinator takes the group for."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    SIMPLE = "simple"
    """Committed offsets and nothing else: an empty classic group without a protocol type."""
    ANOMALY = "anomaly"
    """Live records of more than one family in the group's partition."""
    GONE = "gone"
    """Tombstones only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The winning commit of one group, topic and partition in one partition of the log.

    ``offset`` is None for a tombstone and for a record that cannot be read (``status`` tells them
    apart); fields that its version lacks have Kafka's defaults: leader epoch -1, expire timestamp -1,
    topic id "". ``beaten`` counts the records of the same key that it won over.
    """

    group_id: str
    topic: str
    partition: int
    src_partition: int
    record_offset: int
    record_ts: int
    record_type: int
    is_tombstone: bool
    status: DecodeStatus
    value_version: int | None
    offset: int | None
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: str
    beaten: int

    @property
    def live(self) -> bool:
        """Whether there is a committed offset (also one of -1, or one that cannot be read)."""
        return not self.is_tombstone


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """One group at one position of the log.

    ``families`` are the families of its live records besides offsets; ``headless`` says that the one
    record which names the family (type 2, 3, 11, 17) is not live. ``epoch`` is its generation or group
    epoch, ``members`` are member ids, ``subscribed`` the topics that members want: None when a member's
    subscription cannot be read. ``commits`` and ``records`` are winners, tombstones among the former;
    ``removed`` are winning tombstones of the other types.
    """

    group_id: str
    partition: int
    family: GroupFamily
    families: frozenset[str]
    headless: bool
    protocol_type: str
    epoch: int | None
    state_timestamp: int
    members: tuple[str, ...]
    subscribed: frozenset[str] | None
    commits: tuple[Commit, ...]
    records: tuple[Decoded, ...]
    removed: tuple[Decoded, ...]

    @property
    def offsets(self) -> dict[tuple[str, int], int | None]:
        """(topic, partition) → committed offset, live ones only."""
        return {(one.topic, one.partition): one.offset for one in self.commits if one.live}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCommit:
    """A winning commit outside its group's partition: residue of an expansion, never merged.

    ``home`` is what the group's own partition says; ``newer`` whether the foreign one was committed
    later by its own timestamp (None without a home commit, or when a timestamp is missing).
    """

    commit: Commit
    expected_partition: int
    home: Commit | None
    newer: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything a coordinator could know from this log, at this position of it.

    ``foreign_commits`` and ``foreign_records`` lie outside their group's partition; ``unknown`` are
    winners of types that we do not know, ``unreadable`` records whose key cannot be read. ``ends`` is
    partition → offset behind the last record taken.
    """

    groups: Mapping[str, GroupState]
    foreign_commits: tuple[ForeignCommit, ...]
    foreign_records: tuple[Decoded, ...]
    unknown: tuple[Decoded, ...]
    unreadable: tuple[Decoded, ...]
    ends: Mapping[int, int]
