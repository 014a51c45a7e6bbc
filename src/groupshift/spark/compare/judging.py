"""From tables and differences to one judgement a rule, and what a comparison comes to.

What a comparison of two clusters cannot prove (topics under the names of a mirror, and numbers that any log
holds) is from docs/reference/cross-cluster-offsets.md §§5, 8 and KAFKA-12635.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from groupshift.domain.equality_rules import (
    Comparison,
    EqualityRule,
    Field,
    FieldTable,
    RuleKind,
    mirrored_names,
)
from groupshift.domain.rows import GONE, INCOMPLETE, ProblemRow
from groupshift.domain.snapshot import CLUSTER_TABLES
from groupshift.domain.verdict import Finding, Verdict, worst
from groupshift.spark import checks
from groupshift.spark.checks import Judgement, Ruled, offences
from groupshift.spark.compare import differences
from groupshift.spark.compare.find_by_checksums import SIDES, Work

_MOST_NAMED, _FIRST, _NAMED = 1000, 10, 3
_GROUP_COLUMNS = frozenset(column.name for column in CLUSTER_TABLES["groups"].columns)
_SMALL = ("groups", "members", "subscriptions", "assignments", "log_ends")
_FOLDER = "checks/compare"
"""The statements, below ``sql``."""
_STATEMENTS = {
    RuleKind.EQUAL: ("field_equal",),
    RuleKind.SETTLED: ("field_settled",),
    RuleKind.BECOMES: ("field_becomes",),
    RuleKind.AT_LEAST: ("field_at_least",),
    RuleKind.COVERS: ("assigned_once", "assigned_all"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOutcome(Judgement):
    """What a comparison of two cluster snapshots found, as ``verdict.json`` has it.

    * ``counts``: differing (group, topic, partition) by class; ``allowed``: those of them that a rule allows;
    * ``rows``, ``manifests``: rows of table ``offsets`` and SHA-256 of the manifest, by side;
    * ``settled_by``: the step that decided about offsets: files, segments or rows;
    * ``incomplete``: what the snapshots themselves say that they lack;
    * ``segments``: how many differ, of how many; ``parts``: how many were kept by a killed comparison.
    """

    move: Comparison
    commits_went_on: bool
    counts: Mapping[str, int]
    allowed: Mapping[str, int]
    rows: Mapping[str, int]
    manifests: Mapping[str, str]
    settled_by: str
    incomplete: tuple[Finding, ...] = ()
    segments: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """Fail when a rule is broken, error when a snapshot is incomplete. A table or column that a
        snapshot does not hold is said, and decides nothing."""
        verdicts = [finding.verdict for finding in self.findings]
        return worst(one for one in verdicts if one is not Verdict.INCONCLUSIVE)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that was found, what is incomplete first."""
        return (*self.incomplete, *(one.finding for one in self.results))

    def to_data(self) -> dict[str, Any]:
        """Return ``verdict.json`` as plain values."""
        said = [finding.reason for finding in self.incomplete]
        return {**Judgement.to_data(self), "incomplete": said}


def needs_spark(work: Work) -> bool:
    """Return True where a rule looks at one snapshot by itself, so that equal files do not answer it."""
    kinds = {rule.kind for rule in work.rules.values()}
    assigned = RuleKind.COVERS in kinds and any(work.inputs[side].paths("assignments") for side in SIDES)
    unique = all(work.inputs[side].manifest.unique_keys for side in SIDES)
    return assigned or RuleKind.WITHIN in kinds or not unique


def counted(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return ``class, rule, allowed, count_all`` of the differences in these folders of Parquet files."""
    by = ["class", "rule", "allowed"]
    pieces = [pq.ParquetFile(piece) for path in paths for piece in sorted(path.glob("*.parquet"))]
    if not pieces:
        return []
    differing = pa.concat_tables(piece.read(columns=by) for piece in pieces)
    rows: list[dict[str, Any]] = differing.group_by(by).aggregate([([], "count_all")]).to_pylist()
    return rows


def judged(work: Work, paths: Sequence[Path], counts: Mapping[str, int], *, alike: bool) -> Iterator[Ruled]:
    """Yield the judgement of every rule that is asked: it holds, is broken by some rows, of which the first
    are named, or cannot be judged. About commits the differences in the folders ``paths`` tell, of which the
    rules do not allow ``counts`` (by the rule's number); about groups and members the rule's statements below
    ``sql/checks/compare``. ``alike``: both sides hold the same."""
    first: dict[str, list[Mapping[str, Any]]] = {}
    name_tables = cache(partial(_name_tables, work))
    if paths:
        work.spark.read.parquet(*map(str, paths)).createOrReplaceTempView("differences")
        rows = work.spark.sql(checks.statement(_FOLDER, "not_allowed"), args={"most": _FIRST}).collect()
        for row in sorted(rows, key=lambda row: (row["group"], row["topic"], row["partition"])):
            first.setdefault(row["rule"], []).append(row.asDict())
    for rule in (each for each in work.rules.values() if each.kind is not RuleKind.IGNORE):
        lacking = _lacking(work, rule)
        if alike and rule.kind is RuleKind.BECOMES:
            lacking = lacking or "the snapshots hold the same: nothing has become anything"
        offending, count = first.get(rule.number, []), counts.get(rule.number, 0)
        for frame in [] if alike or lacking or count else _rows_that_break(work, rule, name_tables):
            named = [row.asDict() for row in frame.limit(_MOST_NAMED).collect()]
            offending += named
            count += len(named) if len(named) < _MOST_NAMED else frame.count()
        hint, holds = f"{rule.reason} ({rule.source})", f"{rule.title}: {rule.text}"
        ruled = checks.ruled(rule.number, holds, offences(offending), hint=hint, count=count)
        if lacking:
            reason = f"{rule.title} was not compared: {lacking}"
            hint = "take both snapshots with it, or see that it does not matter here"
            unmeasured = Finding(rule=rule.number, verdict=Verdict.INCONCLUSIVE, reason=reason, hint=hint)
            ruled = Ruled(finding=unmeasured)
        yield replace(ruled, about={"field": rule.field, "demand": rule.text})


def _name_tables(work: Work) -> None:
    for side, name in product(SIDES, _SMALL):
        frame = differences.read(work.spark, work.inputs[side], name)
        frame.createOrReplaceTempView(f"{side}_{name}")
    work.spark.sql(checks.statement(_FOLDER, "paired_groups")).createOrReplaceTempView("paired_groups")


def _rows_that_break(work: Work, rule: EqualityRule, name_tables: Callable[[], None]) -> list[DataFrame]:
    """What breaks a rule, but for differences between commits that were counted: ``group, topic, partition,
    reason``. Duplicates that are the same on both sides cancel in checksums: looked for unless the writer of
    the snapshot did."""
    if rule.field is Field.KEYS:
        frames = []
        for side in (side for side in SIDES if not work.inputs[side].manifest.unique_keys):
            work.committed(side).createOrReplaceTempView(f"{side}_counted")
            text = checks.statement(_FOLDER, "keys_unique")
            frames.append(work.spark.sql(text, args={"rows": f"{side}_counted"}))
        work.tell("keys counted", 0, len(frames))
        return frames
    names: Sequence[str] = ()
    if rule.kind is RuleKind.WITHIN:
        work.committed("after").createOrReplaceTempView("after_committed")
        names = ("offset_within_log",)
    elif rule.place is not FieldTable.OFFSETS:
        if rule.kind is RuleKind.KEPT:
            committed = work.committed("before").select("group").distinct()
            committed.createOrReplaceTempView("before_committed")
        of_groups = ("groups_kept",) if rule.kind is RuleKind.KEPT else ("groups_same",)
        names = of_groups if rule.field is Field.GROUPS else _STATEMENTS[rule.kind]
    if names:
        name_tables()
    return [checks.queried(work.spark, checks.statement(_FOLDER, name), asdict(rule)) for name in names]


def _lacking(work: Work, rule: EqualityRule) -> str:
    """Why a rule cannot be judged: it asks for what a snapshot does not hold. Empty where it can."""
    inputs, column = [work.inputs[side] for side in SIDES], rule.field.value
    if rule.kind is RuleKind.WITHIN:
        return "" if work.inputs["after"].paths("log_ends") else "the later snapshot has no table log_ends"
    if rule.field in differences.VALUES:
        return "" if rule.field in work.values else f"a snapshot has no column {column}"
    if lacking := [name for name in rule.tables if not all(each_input.paths(name) for each_input in inputs)]:
        return f"a snapshot has no table {', '.join(lacking)}"
    if column not in _GROUP_COLUMNS or "groups" not in rule.tables:
        return ""
    if not all(column in each_input.columns["groups"] for each_input in inputs):
        return f"a snapshot has no column {column}"
    values = [{row[column] for row in each_input.rows("groups", [column])} for each_input in inputs]
    known = rule.field is not Field.GENERATION or all(each - {None} for each in values)
    return "" if known else f"a snapshot tells no {column} (of classic groups only the log does)"


def incomplete(work: Work) -> Iterator[Finding]:
    """Yield what could not be read when a snapshot was taken, as its table ``problems`` says; that nothing
    is there to compare; and for a copy in another cluster what is not proven by equal numbers."""
    for side, lacks in zip(SIDES, INCOMPLETE, strict=True):
        rows = work.inputs[side].rows("problems", ["group", "problem"])
        problems = [one for one in (ProblemRow(**row) for row in rows) if not one.of_leftover]
        if problems:
            said = (f"group {one.group}: {one.problem}" if one.group else one.problem for one in problems)
            reason = f"{lacks}: {checks.first(said, len(problems))}"
            hint = "what could not be read is not proven equal: take the snapshot again"
            yield _error(reason, hint)
    states = [row["state"] for side in SIDES for row in work.inputs[side].rows("groups", ["state"])]
    count = sum(entry.rows for side in SIDES for entry in work.entries(side))
    if not count and all(state == GONE for state in states):
        reason = "neither snapshot holds a committed offset or a group that is there: nothing was compared"
        hint = "see that their names are right; a user who may not describe groups is told of none"
        yield _error(reason, hint)
    if any(rule.kind is RuleKind.WITHIN for rule in work.rules.values()):
        yield from _renamed(work)
        yield from _numbers(work)


def _renamed(work: Work) -> Iterator[Finding]:
    """Topics that the other cluster has under the name of a mirror."""
    source, target = (_topics(work, side, "offsets") for side in SIDES)
    mirrors = mirrored_names(source, target, target | _topics(work, "after", "log_ends"))
    said = [f"{topic!r} is {' or '.join(map(repr, sorted(mirrors[topic])))}" for topic in sorted(mirrors)]
    if said:
        more = f" and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
        yield _error(
            f"not proven: {', '.join(said[:_NAMED])}{more}: the later cluster has the names of a mirror",
            "topics cannot be mapped by the replication policy yet: mirror with IdentityReplicationPolicy, "
            "or compare by hand what each group reads",
        )


def _topics(work: Work, side: str, table: str) -> frozenset[str]:
    """The topics that a table of one snapshot names."""
    names: set[str] = set()
    for path in work.inputs[side].paths(table):
        column = pq.read_table(path, columns=["topic"], read_dictionary=["topic"])["topic"]
        names.update(str(each) for each in pc.unique(column).to_pylist())
    return frozenset(names)


def _numbers(work: Work) -> Iterator[Finding]:
    """Numbers that were copied as they are: any log holds them."""
    frames: dict[str, DataFrame] = {side: work.committed(side) for side in SIDES}
    for side in SIDES:
        frames[f"{side}_ends"] = differences.read(work.spark, work.inputs[side], "log_ends")
    offending = work.spark.sql(checks.statement(_FOLDER, "copied_numbers"), args=None, **frames)
    first = [row.asDict() for row in offending.orderBy("group", "topic", "partition").limit(_NAMED).collect()]
    if first:
        yield _error(
            f"not proven: {checks.first(map(str, checks.offences(first)), offending.count())}",
            "a number within the log does not show that the group goes on at the same record: compare the "
            "records around it, or let the copy advance and take both snapshots again",
        )


def _error(reason: str, hint: str) -> Finding:
    return Finding(rule="E00", verdict=Verdict.ERROR, reason=reason, hint=hint)
