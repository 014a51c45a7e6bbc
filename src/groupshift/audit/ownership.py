"""Who owned which partition, from ZooKeeper's transactions: owner-node intervals and offset writes.

An owner node (``/consumers/<g>/owners/<t>/<p>``) is the lock of a partition
(docs/reference/zookeeper-coordination.md §4.5 and §8.10, F1). It is held
from the transaction that created it to the one that deleted it or ended its session. Zxids give the
order of all that, the server's clock gives the times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from groupshift.audit.txnlog import (
    Change,
    Created,
    DataSet,
    Deleted,
    SessionClosed,
    Transaction,
)
from groupshift.domain.foreign_json import decimal
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.znodes import partition_number
from groupshift.errors import Rejected


class Ended(StrEnum):
    """How an interval of ownership came to its end."""

    HELD = "held"
    """It has not ended: the node is there at the end of the log."""
    RELEASED = "released"
    """The node was deleted by request."""
    SESSION = "session"
    """The session of its owner was closed or expired."""
    REPLACED = "replaced"
    """The node's data was overwritten with another thread id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One stretch of ownership, ``[start, end)`` by zxid; ``end_*`` are None while it is held.

    Times are epoch milliseconds of the ZooKeeper server; ``session`` is the owner's session id.
    """

    partition: TopicPartition
    thread_id: str
    session: int
    start_zxid: int
    start_ms: int
    end_zxid: int | None = None
    end_ms: int | None = None
    ended: Ended = Ended.HELD

    @property
    def member_id(self) -> str:
        """The ``<cid>`` in the thread id: everything before the last ``-`` (§2)."""
        return self.thread_id.rpartition("-")[0] or self.thread_id


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetWrite:
    """One write of an offset znode: ``offset`` is the next offset to read."""

    partition: TopicPartition
    offset: int
    session: int
    zxid: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeWrite:
    """One write of the mode node; ``text`` is None when it was deleted."""

    text: str | None
    zxid: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything the log says about one group. ``intervals`` are in order of their start; ``kinds``
    are the members that ever registered (`MemberKind.AWARE` if ever below ``migration/ids``);
    ``problems`` are sentences about what could not be understood or is not in the log."""

    intervals: tuple[Interval, ...]
    offset_writes: tuple[OffsetWrite, ...]
    mode_writes: tuple[ModeWrite, ...]
    kinds: Mapping[str, MemberKind]
    problems: tuple[str, ...]


@dataclass(slots=True)
class _Replay:
    """The state of one group's nodes while its transactions are applied one after the other."""

    root: str
    held: dict[str, Interval] = field(default_factory=dict)
    done: list[Interval] = field(default_factory=list)
    offsets: list[OffsetWrite] = field(default_factory=list)
    modes: list[ModeWrite] = field(default_factory=list)
    kinds: dict[str, MemberKind] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    no_offsets: dict[int, TopicPartition] = field(default_factory=dict)
    """Whose offset a problem is about, by its place among the problems."""
    used: set[TopicPartition] = field(default_factory=set)
    """Partitions that were owned or committed to."""

    def apply(self, transaction: Transaction, change: Change) -> None:
        """One change of a transaction."""
        match change:
            case DataSet():
                self._written(transaction, change.path, change.data)
                ids = ((("migration", "ids"), MemberKind.AWARE), (("ids",), MemberKind.ZOOKEEPER))
                for folder, kind in ids if isinstance(change, Created) else ():
                    member = self._below(change.path, *folder)
                    if member and "/" not in member and self.kinds.get(member) is not MemberKind.AWARE:
                        self.kinds[member] = kind  # once below migration/ids, always an aware one
            case Deleted():
                self._deleted(transaction, change.path, Ended.RELEASED)
            case SessionClosed():
                paths = {path for path, held in self.held.items() if held.session == transaction.session}
                for path in sorted(paths | set(change.paths)):
                    self._deleted(transaction, path, Ended.SESSION)

    def _below(self, path: str, *folder: str) -> str | None:
        """The rest of a path below this folder of the group, None for any other path."""
        prefix = "/".join((self.root, *folder, ""))
        return path.removeprefix(prefix) if path.startswith(prefix) else None

    def _partition(self, path: str, folder: str) -> TopicPartition | None:
        """The partition that a node below ``owners`` or ``offsets`` is of; a number that is none is a
        problem."""
        topic, slash, number = (self._below(path, folder) or "").rpartition("/")
        if not slash or "/" in topic:
            return None
        partition = partition_number(number)
        if partition is None:
            self.problems.append(f"{path} is no partition")
            return None
        return TopicPartition(topic, partition)

    def _written(self, transaction: Transaction, path: str, data: bytes) -> None:
        """A node was created, or its data replaced: who owns, what was committed, or the mode."""
        if partition := self._partition(path, "owners"):
            self.used.add(partition)
            thread_id, session = data.decode("utf-8", "replace"), transaction.session
            former = self.held.get(path)
            if former and former.thread_id == thread_id:
                return
            if former:  # another one in the same node ends its interval; the node stays of that session
                session = former.session
                self._end(transaction, path, Ended.REPLACED)
            zxid, at_ms = transaction.zxid, transaction.time_ms
            self.held[path] = Interval(
                partition=partition, thread_id=thread_id, session=session, start_zxid=zxid, start_ms=at_ms
            )
        elif partition := self._partition(path, "offsets"):
            try:
                offset = decimal(data, path)
            except Rejected:  # a problem only where the partition is used
                self.no_offsets[len(self.problems)] = partition
                self.problems.append(f"{path} was set to {data[:40]!r}, which is no offset")
                return
            self.used.add(partition)
            at = {"session": transaction.session, "zxid": transaction.zxid, "at_ms": transaction.time_ms}
            self.offsets.append(OffsetWrite(partition=partition, offset=offset, **at))
        elif self._below(path, "migration") == "mode":
            text = data.decode("utf-8", "replace")
            self.modes.append(ModeWrite(text=text, zxid=transaction.zxid, at_ms=transaction.time_ms))

    def _deleted(self, transaction: Transaction, path: str, how: Ended) -> None:
        """A node is gone, by request or with its session."""
        if path in self.held:
            self._end(transaction, path, how)
        elif partition := self._partition(path, "owners"):
            self.used.add(partition)
            self.problems.append(f"{path} was deleted, but its creation is older than the log")
        elif self._below(path, "migration") == "mode":
            self.modes.append(ModeWrite(text=None, zxid=transaction.zxid, at_ms=transaction.time_ms))

    def _end(self, transaction: Transaction, path: str, how: Ended) -> None:
        """The interval at this path ends with this transaction."""
        held = self.held.pop(path)
        self.done.append(replace(held, end_zxid=transaction.zxid, end_ms=transaction.time_ms, ended=how))


def history(transactions: Iterable[Transaction], group: str, chroot: str = "") -> History:
    """What `transactions` (by rising zxid) say about `group`; `chroot` is that of its consumers. What is no
    offset is a problem where somebody owned the partition or committed to it, and else a leftover."""
    replay = _Replay(root=f"{chroot.rstrip('/')}/consumers/{group}")
    for transaction in transactions:
        for change in transaction.changes:
            replay.apply(transaction, change)
    intervals = sorted((*replay.done, *replay.held.values()), key=lambda one: (one.start_zxid, one.partition))
    unread = {number for number, at in replay.no_offsets.items() if at not in replay.used}
    return History(
        intervals=tuple(intervals),
        offset_writes=tuple(replay.offsets),
        mode_writes=tuple(replay.modes),
        kinds=dict(sorted(replay.kinds.items())),
        problems=tuple(each for number, each in enumerate(replay.problems) if number not in unread),
    )
