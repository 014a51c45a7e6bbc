"""What ZooKeeper's transaction log tells about a group, for scenarios that ask what *never* happened."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from groupshift.audit.ownership import Ended, History, history
from groupshift.audit.txnlog import (
    Change,
    Created,
    DataSet,
    Deleted,
    SessionClosed,
    Transaction,
    merge,
    parse,
)
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import parse_awareness
from groupshift.domain.znodes import GroupPaths
from groupshift.errors import Transient
from groupshift_sandbox.chaos.judgement import Judged, Ran, evidence, judge
from groupshift_sandbox.ledger import Delivery, overlaps
from groupshift_sandbox.processes import wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A member wrote its migration id; ``mode`` is None before its first decision."""

    member: str
    mode: Mode | None
    zxid: int


@dataclass(frozen=True, slots=True)
class GroupLog:
    """One group in the log of the server whose data folder this is."""

    data: Path
    group: str

    def transactions(self) -> tuple[Transaction, ...]:
        """Everything that happened, of all groups."""
        logs = sorted((self.data / "version-2").glob("log.*"))
        return merge(parse(path.read_bytes(), path.name) for path in logs)

    def history(self) -> History:
        """Owner-node intervals, offset and mode writes."""
        return history(self.transactions(), self.group)

    def published(self) -> list[Published]:
        """Every mode that a member ever published, in order."""
        root = GroupPaths(self.group).migration_ids + "/"
        return [
            Published(
                member=change.path.removeprefix(root),
                mode=parse_awareness(change.data).mode,
                zxid=transaction.zxid,
            )
            for transaction in self.transactions()
            for change in transaction.changes
            if isinstance(change, Created | DataSet) and change.path.startswith(root)
        ]

    def unaware(self) -> list[tuple[int, frozenset[str]]]:
        """The zxids after which a member was below ``ids`` and not below ``migration/ids`` (D4)."""
        paths = GroupPaths(self.group)
        found, ids, aware = [], set[str](), set[str]()
        for transaction in self.transactions():
            for change in transaction.changes:
                _apply(change, paths.ids + "/", ids)
                _apply(change, paths.migration_ids + "/", aware)
            if ids - aware:
                found.append((transaction.zxid, frozenset(ids - aware)))
        return found

    def written_by(self, session: int) -> list[Transaction]:
        """What one session changed, without its own beginning and end."""
        return [
            each
            for each in self.transactions()
            if each.session == session
            and any(isinstance(c, Created | DataSet | Deleted) for c in each.changes)
        ]

    def judged(
        self,
        deliveries: Sequence[Delivery],
        ends: Mapping[TopicPartition, int],
        *,
        old: Collection[str] = (),
    ) -> Judged:
        """Deliveries outside of ownership, and records lost, as a chaos run is judged."""
        ran = Ran(
            history=self.history(),
            deliveries=deliveries,
            ends=ends,
            old=old,
            pauses=(),
            calm_ms=int(time.time() * 1000),
        )
        return judge(ran)

    def assert_delivered(
        self,
        read: Callable[[], Sequence[Delivery]],
        ends: Mapping[TopicPartition, int],
        *,
        old: Collection[str],
        deadline_s: float = 60.0,
    ) -> None:
        """Nothing below ``ends`` is lost, once what living members were delivered is written down too."""

        def judged() -> Judged:
            return self.judged(read(), ends, old=old)

        with contextlib.suppress(Transient):
            wait_until(lambda: not judged().lost, deadline_s, "everything is delivered", every_s=0.5)
        found = judged()
        assert not found.lost, "\n".join(evidence(found))

    def assert_fenced(
        self,
        deliveries: Sequence[Delivery],
        ends: Mapping[TopicPartition, int],
        *,
        old: Collection[str] = (),
    ) -> None:
        """Ours delivered under their own owner nodes only, and nothing below ``ends`` is lost."""
        judged = self.judged(deliveries, ends, old=old)
        assert not judged.outside, "\n".join(evidence(judged))
        assert not judged.lost, "\n".join(evidence(judged))

    def assert_no_overlap(self, deliveries: Sequence[Delivery], *, old: Collection[str]) -> None:
        """Nobody was delivered a record of a partition between two consecutive ones of somebody else.

        An old member's recorder stamps a line when it reads it, which may be after the owner node went. Such
        a line is left out where it proves nothing (`_printed_before`)."""
        known = self.history()
        outside = self.judged(deliveries, {}, old=old).outside_old
        late = {each for each in outside if _printed_before(known, each)}
        found = overlaps(each for each in deliveries if each not in late)
        assert not found, f"{len(found)} overlaps, first: {found[:3]}"


def _printed_before(known: History, late: Delivery) -> bool:
    """Whether a record that is stamped after its member's ownership was handed over within it: the member had
    committed up to it, or its session is over, with which it ended."""
    mine = [
        each
        for each in known.intervals
        if (each.partition, each.member_id) == (late.partition, late.member) and each.start_ms <= late.at_ms
    ]
    sessions = {each.session for each in mine}
    committed = (each for each in known.offset_writes if each.partition == late.partition)
    if any(each.session in sessions and each.offset >= late.offset for each in committed):
        return True
    return bool(mine) and mine[-1].ended is Ended.SESSION


def _apply(change: Change, root: str, names: set[str]) -> None:
    for path in _paths(change):
        if path.startswith(root):
            name = path.removeprefix(root)
            (names.add if isinstance(change, Created) else names.discard)(name)


def _paths(change: Change) -> Iterator[str]:
    match change:
        case Created() | Deleted():
            yield change.path
        case SessionClosed():
            yield from change.paths
        case _:
            pass
