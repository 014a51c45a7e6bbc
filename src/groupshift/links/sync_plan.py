"""What a sync is asked for, and what it plans: one row for each group and partition.

A plan is a text of JSON lines: a header, then the rows. It changes nothing, and `groupshift sync apply` reads
it again.

Decided here:

* A group that the filters leave out has one row without a partition: its commits are not read.
* `SyncRow.is_clean`: a row that the filters left out is what was asked for. Every other skip, a clamp, and
  records that the group will not get, are not.
* ``est_lost`` counts what retention took before the group read it, on either side: the offsets between the
  commit and the source's log start (§9.1), and those between the translated offset and the target's. It is an
  upper bound, because compaction and markers leave offsets without records.

Source: docs/reference/cross-cluster-offsets.md §9.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Final

from groupshift.domain.foreign_json import load_object, shown
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plain import built
from groupshift.domain.requests import option
from groupshift.errors import Rejected
from groupshift.links.link import ALL, EXCLUDED_GROUPS, EXCLUDED_TOPICS, Filters
from groupshift.links.ports import GroupPartition
from groupshift.links.sync_history import BeforeFirstSync
from groupshift.links.translation import Certainty, Method, Reason
from groupshift.links.write_rules import Action, RewindPolicy

FORMAT: Final = "groupshift sync plan"
VERSION: Final = 1
"""Version of a plan's JSON; no other one is read."""
_MANY = "A regular expression of the whole name."
_CLEAN: Final = frozenset({Reason.OK, Reason.OK_NEW_GROUP, Reason.SKIP_FILTERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """What is asked of a sync."""

    link: str = option("Name of the link, as the settings have it.")
    groups: tuple[str, ...] = option(f"Groups to sync. {_MANY}", default=ALL)
    groups_exclude: tuple[str, ...] = option(f"Groups to leave out. {_MANY}", default=EXCLUDED_GROUPS)
    topics: tuple[str, ...] = option(f"Topics of the source to sync. {_MANY}", default=ALL)
    topics_exclude: tuple[str, ...] = option(f"Topics to leave out. {_MANY}", default=EXCLUDED_TOPICS)
    rewind_policy: RewindPolicy = option(
        "When an offset on the target may be lowered; force rewinds whatever is ahead.",
        default=RewindPolicy.NEVER,
    )
    certainty_min: Certainty = option(
        "What is less certain is replaced by the conservative offset.", default=Certainty.EXACT_PROVEN
    )
    before_first_sync: BeforeFirstSync | None = option(
        "What a commit below every offset sync becomes; unset: earliest where nothing older was replicated.",
        default=None,
    )
    fenced_writes: bool = option(
        "Join each group for a moment, so that a consumer that joins meanwhile has the write refused.",
        default=False,
    )
    plan_max_age_s: int = option(
        "Seconds after which a plan is no longer applied.", default=300, minimum=1, maximum=86_400
    )

    @property
    def filters(self) -> Filters:
        """What is taken. Raises `Rejected` for an expression that cannot be used."""
        return Filters(
            groups=self.groups,
            groups_exclude=self.groups_exclude,
            topics=self.topics,
            topics_exclude=self.topics_exclude,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRow:
    """One group and partition: what was observed, and what is to be done.

    Partitions are texts such as ``orders-3``; ``source_tp`` is empty where the row is about the group as a
    whole. ``c`` and ``t_current`` are the commits on source and target (None: none). ``x`` is the offset to
    write, or that would be if nothing forbade it. ``mm2_x`` is what MirrorMaker would write (None: nothing),
    ``mm2_again`` the target offsets by which that lies before ``x``. ``est_again`` and ``est_lost`` are upper
    bounds in records, but for what a replay copied again. ``translated`` is the offset before it was brought
    into the target's log; ``source_id`` and ``target_id`` are topic ids. ``said`` is for people.
    """

    group: str
    source_tp: str
    target_tp: str = ""
    c: int | None = None
    s_start: int | None = None
    s_end: int | None = None
    t_start: int | None = None
    t_end: int | None = None
    t_current: int | None = None
    x: int | None = None
    mm2_x: int | None = None
    method: Method | None = None
    certainty: Certainty | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    action: Action = Action.SKIP
    reason: Reason
    est_again: int = 0
    est_lost: int = 0
    mm2_again: int | None = None
    metadata: str | None = None
    translated: int | None = None
    source_id: str | None = None
    target_id: str | None = None
    said: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether nothing of it needs a person."""
        return self.reason in _CLEAN and not self.est_lost

    @property
    def key(self) -> GroupPartition:
        """Whose row it is. Raises `Rejected` where ``source_tp`` is no partition."""
        return GroupPartition(self.group, partition_from(self.source_tp))

    @property
    def target(self) -> TopicPartition:
        """The target's partition. Raises `Rejected` where ``target_tp`` is none."""
        return partition_from(self.target_tp)

    def line(self) -> str:
        """Return the row as a line of JSON."""
        return json.dumps({name: getattr(self, name) for name in _FIELDS}, ensure_ascii=False)


_FIELDS = tuple(each.name for each in fields(SyncRow))


@lru_cache(maxsize=100_000)
def partition_from(text: str) -> TopicPartition:
    """Return the partition that prints so. Raises `Rejected` for a text that no partition prints."""
    topic, dash, number = text.rpartition("-")
    if not (topic and dash and number.isascii() and number.isdigit() and len(number) <= len("2147483647")):
        raise Rejected(f"{shown(text)} is no partition; write topic-number")
    return TopicPartition(topic, int(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """The rows of one cycle, looked at from ``made_ms`` (epoch) on, between two clusters by their ids.

    ``notes`` are sentences for people. ``is_applied``: the rows say what became of them.
    """

    request: SyncRequest
    source_cluster: str
    target_cluster: str
    made_ms: int
    rows: tuple[SyncRow, ...]
    notes: tuple[str, ...] = ()
    is_applied: bool = False

    @property
    def counts(self) -> Mapping[str, int]:
        """How many rows have each reason."""
        return dict(sorted(Counter(row.reason.value for row in self.rows).items()))

    @property
    def counts_text(self) -> str:
        """The same in words."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.counts.items()) or "no row"

    @property
    def writes(self) -> int:
        """How many offsets are to be written, or were."""
        return sum(row.action is Action.WRITE for row in self.rows)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was skipped, clamped or lost."""
        return all(row.is_clean for row in self.rows)

    def lines(self, following: str = "") -> Iterator[str]:
        """Yield the plan as lines of JSON, the header first; ``following`` is what to do next."""
        request = {each.name: getattr(self.request, each.name) for each in fields(self.request)}
        yield json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "request": request,
                "source_cluster": self.source_cluster,
                "target_cluster": self.target_cluster,
                "made_ms": self.made_ms,
                "rows": len(self.rows),
                "applied": self.is_applied,
                "counts": self.counts,
                "notes": self.notes,
                "next": following,
            },
            ensure_ascii=False,
        )
        for row in self.rows:
            yield row.line()

    def with_rows(self, rows: Mapping[GroupPartition, SyncRow]) -> SyncPlan:
        """Return the plan as it was applied: these rows instead of its own ones of the same key."""
        changed = (rows.get(row.key, row) if row.source_tp else row for row in self.rows)
        return replace(self, rows=tuple(changed), is_applied=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """The first line of a plan."""

    format: str
    version: int
    request: SyncRequest
    source_cluster: str
    target_cluster: str
    made_ms: int
    rows: int
    applied: bool = False


def plan_from(lines: Iterable[str], where: str) -> SyncPlan:
    """Return the plan of `SyncPlan.lines`; ``where`` names the file.

    Raises:
        Rejected: it is no plan, one of another release, not whole, or was applied already.
    """
    header: _Header | None = None
    rows: list[SyncRow] = []
    for number, line in enumerate(lines, 1):
        here = f"{where}, line {number}"
        data = load_object(line, here)
        try:
            if header is None:
                header = built(_Header, data)
            else:
                rows.append(built(SyncRow, data))
        except (TypeError, ValueError) as wrong:
            raise Rejected(f"{here}: {wrong}; give a file that groupshift sync plan wrote") from None
        if header.format != FORMAT or header.version != VERSION:
            raise Rejected(
                f"{here}: {header.format!r} {header.version} is no plan of this release; plan again"
            )
    if header is None or header.rows != len(rows):
        most = header.rows if header else 1
        raise Rejected(f"{where}: has {len(rows)} of its {most} rows; plan again, and write the file whole")
    if header.applied:
        raise Rejected(f"{where}: says what became of a plan that was applied; plan again")
    return SyncPlan(
        request=header.request,
        source_cluster=header.source_cluster,
        target_cluster=header.target_cluster,
        made_ms=header.made_ms,
        rows=tuple(rows),
    )
