"""Which offsets an unprepared expansion lost, and what they are to be: the newest commit of each key that
lies elsewhere, unless somebody has to decide.

Source: docs/reference/group-coordinator.md §1.7 (never merged by offsets of the log; compare commit times)
and §3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.commit_places import Topics
from groupshift.domain.rows import OffsetRow
from groupshift.moves.expansion.load import Elsewhere

_UNKNOWN = -1


class Mend(StrEnum):
    """What is to be done about one group's offset of one partition."""

    RESTORE = "restore"
    """Committed again: its coordinator has nothing, or something earlier and not higher."""
    OVERWRITTEN = "overwritten"
    """Left alone: at home it was committed, or deleted, later."""
    CONFLICT = "conflict"
    """Left to a person: commits of two coordinators contradict each other, or cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One key: ``chosen`` is the newest commit that lies elsewhere, ``others`` the rest of them; ``reason``
    says why a person has to decide."""

    mend: Mend
    chosen: Elsewhere
    others: tuple[Elsewhere, ...] = ()
    reason: str = ""

    @property
    def row(self) -> OffsetRow:
        """What is to be committed."""
        return self.chosen.row


def repairs(
    elsewhere: Iterable[Elsewhere], kept_since_ms: int = 0, topics: Topics | None = None
) -> tuple[Repair, ...]:
    """What to do about every key that has a commit outside its group's partition, by group and partition.

    ``kept_since_ms`` (epoch ms): what was committed earlier may have been deleted, or have expired, at home
    without a trace (a tombstone stays for delete.retention.ms after its compaction). ``topics`` is what
    brokers tell of the topics: a commit of a former one, or of a partition that is not there, is nobody's to
    restore."""
    by_key: dict[tuple[str, str, int], list[Elsewhere]] = defaultdict(list)
    for each in elsewhere:
        by_key[each.group, each.topic, each.partition].append(each)
    return tuple(_repair(by_key[key], kept_since_ms, topics or Topics()) for key in sorted(by_key))


def _repair(found: Sequence[Elsewhere], kept_since_ms: int, topics: Topics) -> Repair:
    newest, *others = sorted(found, key=lambda each: (each.committed_ms, each.found), reverse=True)
    if newest.newer is False:
        return Repair(mend=Mend.OVERWRITTEN, chosen=newest, others=tuple(others))
    reason = topics.unrestorable(newest.topic, newest.partition, newest.topic_id) or _doubt(newest, others)
    if not reason and newest.committed_ms < kept_since_ms:
        reason = "it is older than --within: it may have been deleted, or have expired, without a trace left"
    mend = Mend.CONFLICT if reason else Mend.RESTORE
    return Repair(mend=mend, chosen=newest, others=tuple(others), reason=reason)


def _doubt(newest: Elsewhere, others: Sequence[Elsewhere]) -> str:
    """Why a person has to decide; empty when nobody has to."""
    offset = newest.offset
    if offset is None or not all(each.readable for each in (newest, *others)):
        return "a commit cannot be read"
    if offset < 0:
        return f"the newest commit says {offset}, which is no offset"
    if newest.deleted_ms > newest.committed_ms or newest.expires_ms != _UNKNOWN:
        return "it was deleted in another partition later, or has an expiry of its own"
    if newest.committed_ms == _UNKNOWN or (newest.newer is None and newest.home_record_offset is not None):
        return "a commit has no time"
    return _contradiction(newest, offset, others)


def _contradiction(newest: Elsewhere, offset: int, others: Sequence[Elsewhere]) -> str:
    """Commits of two coordinators that cannot both be followed."""
    equally_new = {each.offset for each in others if each.committed_ms == newest.committed_ms} - {offset}
    if equally_new:
        return f"partitions {newest.found} and another have {offset} and {equally_new.pop()} of the same time"
    higher = max((each.offset for each in others if each.offset is not None), default=offset)
    if higher > offset:
        return f"an earlier commit says {higher}, the newest {offset}: two coordinators took commits"
    if newest.at_home is not None and newest.at_home > offset:
        return f"its coordinator has {newest.at_home}, committed earlier than {offset}"
    return ""
