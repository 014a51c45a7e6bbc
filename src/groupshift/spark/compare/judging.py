"""From tables and differences to one judgement a rule, and what a comparison comes to.

What a comparison of two clusters cannot prove (topics under the names of a mirror, and numbers that any log
holds) is from docs/reference/cross-cluster-offsets.md §§5, 8 and KAFKA-12635.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from groupshift.adapters.parquet.compare_inputs import Input
from groupshift.domain.equality_rules import Comparison, EqualityRule, Field, Kind, Place, mirrored_names
from groupshift.domain.rows import GONE, ProblemRow
from groupshift.domain.snapshot import CLUSTER_TABLES
from groupshift.domain.verdict import Finding, Verdict, worst
from groupshift.spark import checks
from groupshift.spark.checks import Judgement, Ruled, offences
from groupshift.spark.compare import differences
from groupshift.spark.compare.work import SIDES, Work

_MOST_NAMED, _FIRST = 1000, 10
_GROUP_COLUMNS = frozenset(column.name for column in CLUSTER_TABLES["groups"].columns)
_SMALL = ("groups", "members", "subscriptions", "assignments", "log_ends")

Counts = Mapping[tuple[str, bool], int]
"""How many differences there are, by the number of the rule that decides and whether it allows them."""
_NUMBER = "E00"
_NAMED = 3
FOLDER = "checks/compare"
"""The statements, below ``sql``."""

_STATEMENT = {
    Kind.EQUAL: ("field_equal",),
    Kind.SETTLED: ("field_settled",),
    Kind.BECOMES: ("field_becomes",),
    Kind.AT_LEAST: ("field_at_least",),
    Kind.COVERS: ("assigned_once", "assigned_all"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Judgement):
    """What was found. ``counts`` are differing (group, topic, partition) per class; ``settled_by`` says
    which step decided about offsets; ``incomplete`` is what the snapshots themselves say that they lack;
    ``manifests`` are SHA-256."""

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
        """``verdict.json`` as plain values."""
        said = [finding.reason for finding in self.incomplete]
        return {**Judgement.to_data(self), "incomplete": said}


def register(work: Work) -> None:
    """Make the views ``before_x`` and ``after_x`` of the small tables (without rows where there is none), and
    ``paired_groups``."""
    for side in SIDES:
        for name in _SMALL:
            frame = differences.read(work.spark, work.inputs[side], name)
            frame.createOrReplaceTempView(f"{side}_{name}")
    work.spark.sql(checks.statement(FOLDER, "paired_groups")).createOrReplaceTempView("paired_groups")


def judged(work: Work, found: DataFrame | None, counts: Counts) -> Iterator[Ruled]:
    """Every rule that is asked: about commits by the differences ``found`` (None: there are none), about
    groups and members by its statements on the views of `register`."""
    first = _first(work, found) if found is not None else {}
    for rule in _asked(work):
        count = counts.get((rule.number, False), 0)
        if lacking := _lacking(work, rule):
            yield _unmeasured(rule, lacking)
        elif count:
            yield _ruled(rule, first.get(rule.number, []), count)
        else:
            yield _judged(rule, _broken(work, rule))


def of_equal_files(work: Work) -> Iterator[Ruled]:
    """The judgement when every file lies on both sides: all that is there is equal."""
    for rule in _asked(work):
        lacking = _lacking(work, rule)
        if rule.kind is Kind.BECOMES:
            lacking = lacking or "the snapshots are the same files: nothing has become anything"
        yield _unmeasured(rule, lacking) if lacking else _ruled(rule, [], 0)


def _asked(work: Work) -> list[EqualityRule]:
    return [rule for rule in work.rules.values() if rule.kind is not Kind.IGNORE]


def _broken(work: Work, rule: EqualityRule) -> list[DataFrame]:
    """What breaks a rule, but for differences between commits that were counted."""
    if rule.kind is Kind.WITHIN:
        work.committed("after").createOrReplaceTempView("after_committed")
        return [offending(work.spark, "offset_within_log", rule)]
    if rule.field is Field.KEYS:
        return _twice(work)
    if rule.place is Place.OFFSETS:
        return []
    if rule.kind is Kind.KEPT:
        committed = work.committed("before").select("group").distinct()
        committed.createOrReplaceTempView("before_committed")
    return [offending(work.spark, name, rule) for name in statements(rule)]


def _twice(work: Work) -> list[DataFrame]:
    """Duplicates that are the same on both sides cancel in checksums: looked for unless the writer of the
    snapshot did."""
    frames = []
    for side in (side for side in SIDES if not work.inputs[side].manifest.unique_keys):
        work.committed(side).createOrReplaceTempView(f"{side}_counted")
        text = checks.statement(FOLDER, "keys_unique")
        frames.append(work.spark.sql(text, args={"rows": f"{side}_counted"}))
    work.told("keys counted", 0, len(frames))
    return frames


def _judged(rule: EqualityRule, frames: Sequence[DataFrame]) -> Ruled:
    """The rule holds when no frame has a row; few rows are read, all are counted."""
    offending: list[Mapping[str, Any]] = []
    count = 0
    for frame in frames:
        first = [row.asDict() for row in frame.limit(_MOST_NAMED).collect()]
        offending += first
        count += len(first) if len(first) < _MOST_NAMED else frame.count()
    return _ruled(rule, offending, count)


def _ruled(rule: EqualityRule, offending: Sequence[Mapping[str, Any]], count: int) -> Ruled:
    """The rule holds, or is broken by ``count`` rows, of which the first are named."""
    hint = f"{rule.reason} ({rule.source})"
    holds = f"{rule.title}: {rule.text}"
    found = checks.ruled(rule.number, holds, offences(offending), hint=hint, count=count)
    return replace(found, about=_about(rule))


def _unmeasured(rule: EqualityRule, lacking: str) -> Ruled:
    """The rule asks for something that a snapshot does not hold."""
    reason = f"{rule.title} was not compared: {lacking}"
    hint = "take both snapshots with it, or see that it does not matter here"
    finding = Finding(rule=rule.number, verdict=Verdict.INCONCLUSIVE, reason=reason, hint=hint)
    return Ruled(finding=finding, about=_about(rule))


def _about(rule: EqualityRule) -> Mapping[str, str]:
    return {"field": rule.field, "demand": rule.text}


def _lacking(work: Work, rule: EqualityRule) -> str:
    """Why a rule cannot be judged; empty where it can."""
    if rule.kind is Kind.WITHIN:
        return "" if work.inputs["after"].paths("log_ends") else "the later snapshot has no table log_ends"
    if rule.field in differences.VALUES:
        return "" if rule.field in work.values else f"a snapshot has no column {rule.field}"
    return _lacking_of_groups([work.inputs[side] for side in SIDES], rule)


def _lacking_of_groups(inputs: Sequence[Input], rule: EqualityRule) -> str:
    if lacking := [name for name in rule.tables if not all(given.paths(name) for given in inputs)]:
        return f"a snapshot has no table {', '.join(lacking)}"
    column = rule.field.value
    if column not in _GROUP_COLUMNS or "groups" not in rule.tables:
        return ""
    if not all(column in given.columns["groups"] for given in inputs):
        return f"a snapshot has no column {column}"
    if rule.field is Field.GENERATION and not all(_tells(given, column) for given in inputs):
        return f"a snapshot tells no {column} (of classic groups only the log does)"
    return ""


def _first(work: Work, found: DataFrame) -> dict[str, list[Mapping[str, Any]]]:
    """The first differences that each rule does not allow, in the order of their keys."""
    found.createOrReplaceTempView("differences")
    rows_ = work.spark.sql(checks.statement(FOLDER, "not_allowed"), args={"most": _FIRST}).collect()
    first: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(rows_, key=lambda row: (row["group"], row["topic"], row["partition"])):
        first.setdefault(row["rule"], []).append(row.asDict())
    return first


def incomplete(work: Work) -> tuple[Finding, ...]:
    """What could not be read when a snapshot was taken, as its table ``problems`` says; and that nothing is
    there to compare."""
    found = []
    for side, word in zip(SIDES, ("earlier", "later"), strict=True):
        rows_ = [
            row
            for path in work.inputs[side].paths("problems")
            for row in pq.read_table(path).to_pylist()
            if not ProblemRow(group=row["group"], problem=row["problem"]).of_leftover
        ]
        if rows_:
            said = (
                f"group {row['group']}: {row['problem']}" if row["group"] else row["problem"] for row in rows_
            )
            reason = f"the {word} snapshot is not complete: {checks.first(said, len(rows_))}"
            hint = "what could not be read is not proven equal: take the snapshot again"
            found.append(Finding(rule=_NUMBER, verdict=Verdict.ERROR, reason=reason, hint=hint))
    if _nothing_there(work):
        reason = "neither snapshot holds a committed offset or a group that is there: nothing was compared"
        hint = (
            "see that their names are right, and that this user may describe groups: brokers list no others"
        )
        found.append(Finding(rule=_NUMBER, verdict=Verdict.ERROR, reason=reason, hint=hint))
    return tuple(found)


def needs_spark(work: Work) -> bool:
    """Whether a rule looks at one snapshot by itself, so that equal files do not answer it."""
    kinds = {rule.kind for rule in work.rules.values()}
    assigned = Kind.COVERS in kinds and any(work.inputs[side].paths("assignments") for side in SIDES)
    unique = all(work.inputs[side].manifest.unique_keys for side in SIDES)
    return assigned or Kind.WITHIN in kinds or not unique


def _tells(given: Input, column: str) -> bool:
    """Whether some group has a value there."""
    tables = [pq.read_table(path, columns=[column]) for path in given.paths("groups")]
    return any(table[column].null_count < len(table) for table in tables)


def _nothing_there(work: Work) -> bool:
    """Whether neither snapshot holds a committed offset or a group that its coordinator knows."""
    inputs = [work.inputs[side] for side in SIDES]
    if any(entry.rows for side in SIDES for entry in work.entries(side)):
        return False
    paths = [path for given in inputs for path in given.paths("groups")]
    states = [pq.read_table(path, columns=["state"])["state"].to_pylist() for path in paths]
    return all(state == GONE for found in states for state in found)


def counted(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """``class, rule, allowed, count`` of the differences in these folders."""
    by = ["class", "rule", "allowed"]
    found = pa.concat_tables(
        pq.read_table(path, columns=by) for folder in paths for path in sorted(folder.glob("*.parquet"))
    )
    counts = found.group_by(by).aggregate([([], "count_all")])
    return [{**row, "count": row.pop("count_all")} for row in counts.to_pylist()]


def statements(rule: EqualityRule) -> tuple[str, ...]:
    """Names of the statements below ``sql/checks/compare`` that judge a rule about groups or members."""
    if rule.field is Field.GROUPS:
        return ("groups_kept",) if rule.kind is Kind.KEPT else ("groups_same",)
    return _STATEMENT[rule.kind]


def offending(spark: SparkSession, name: str, rule: EqualityRule) -> DataFrame:
    """The rows that break a rule: ``group, topic, partition, reason``."""
    return checks.queried(spark, checks.statement(FOLDER, name), asdict(rule))


def not_proven(work: Work) -> tuple[Finding, ...]:
    """Findings for which a copy in another cluster is not proven; none for other moves."""
    if all(rule.kind is not Kind.WITHIN for rule in work.rules.values()):
        return ()
    return (*_renamed(work), *_numbers(work))


def _renamed(work: Work) -> tuple[Finding, ...]:
    source, target = (_topics(work, side, "offsets") for side in SIDES)
    found = mirrored_names(source, target, target | _topics(work, "after", "log_ends"))
    if not found:
        return ()
    hint = (
        "topics cannot be mapped by the replication policy yet: mirror with IdentityReplicationPolicy, or "
        "compare by hand what each group reads"
    )
    return (_finding(f"not proven: {_named(found)}: the later cluster has the names of a mirror", hint),)


def _topics(work: Work, side: str, table: str) -> frozenset[str]:
    """The topics that a table of one snapshot names."""
    found: set[str] = set()
    for path in work.inputs[side].paths(table):
        column = pq.read_table(path, columns=["topic"], read_dictionary=["topic"])["topic"]
        found.update(str(each) for each in pc.unique(column).to_pylist())
    return frozenset(found)


def _named(found: Mapping[str, Collection[str]]) -> str:
    said = [f"{topic!r} is {' or '.join(map(repr, sorted(names)))}" for topic, names in sorted(found.items())]
    more = f" and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    return f"{', '.join(said[:_NAMED])}{more}"


def _numbers(work: Work) -> tuple[Finding, ...]:
    frames: Mapping[str, DataFrame] = {
        **{side: work.committed(side) for side in SIDES},
        **{f"{side}_ends": differences.read(work.spark, work.inputs[side], "log_ends") for side in SIDES},
    }
    offending = work.spark.sql(checks.statement(FOLDER, "copied_numbers"), args=None, **frames)
    first = [row.asDict() for row in offending.orderBy("group", "topic", "partition").limit(_NAMED).collect()]
    if not first:
        return ()
    said = checks.first(map(str, checks.offences(first)), offending.count())
    hint = (
        "a number within the log does not show that the group goes on at the same record: compare the "
        "records around it, or let the copy advance and take both snapshots again"
    )
    return (_finding(f"not proven: {said}", hint),)


def _finding(reason: str, hint: str) -> Finding:
    return Finding(rule=_NUMBER, verdict=Verdict.ERROR, reason=reason, hint=hint)
