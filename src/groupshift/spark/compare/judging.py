"""From tables and differences to one judgement a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from groupshift.adapters.parquet.compare_inputs import Input, Judged, broken, held, unmeasured
from groupshift.domain.equality_rules import FIELDS, EqualityRule, Field, Kind, Place
from groupshift.domain.evidence import CLUSTER_TABLES
from groupshift.domain.rows import GONE, ProblemRow
from groupshift.domain.verdict import Finding, Verdict
from groupshift.spark.compare import differences, groups
from groupshift.spark.compare.work import SIDES, Work

_MOST_NAMED, _NAMED, _FIRST = 1000, 3, 10
_GROUP_COLUMNS = frozenset(column.name for column in CLUSTER_TABLES["groups"].columns)
_SMALL = ("groups", "members", "subscriptions", "assignments", "log_ends")

Tables = Mapping[str, Mapping[str, DataFrame]]
"""Small tables by side and name."""


def tables(work: Work) -> Tables:
    """The small tables that the snapshots hold, and their views ``before_x``, ``after_x``,
    ``paired_groups``."""
    found: dict[str, dict[str, DataFrame]] = {side: {} for side in SIDES}
    for side in SIDES:
        given = work.inputs[side]
        for name in (name for name in _SMALL if given.paths(name)):
            frame = differences.read(work.spark, name, given.paths(name), given.columns[name])
            frame.createOrReplaceTempView(f"{side}_{name}")
            found[side][name] = frame
    if all("groups" in found[side] for side in SIDES):
        pairs = groups.paired(found["before"], found["after"])
        pairs.createOrReplaceTempView("paired_groups")
    return found


def log_ends(work: Work) -> DataFrame | None:
    """The log ends of the later snapshot, where it holds them."""
    given = work.inputs["after"]
    paths = given.paths("log_ends")
    return differences.read(work.spark, "log_ends", paths, given.columns["log_ends"]) if paths else None


def of_groups(work: Work) -> list[Judged]:
    """Every rule about groups and members, judged by its statements on the views of `tables`."""
    results = []
    for rule in _asked(work, (Place.GROUPS, Place.MEMBERS)):
        if untold := _untold(work, rule):
            results.append(unmeasured(rule, untold))
        else:
            if rule.kind is Kind.KEPT:
                committed = work.committed("before").select("group").distinct()
                committed.createOrReplaceTempView("before_committed")
            results.append(_by_statements(work, rule, groups.statements(rule)))
    return results


def of_offsets(work: Work, found: DataFrame | None, counts: Mapping[tuple[str, bool], int]) -> list[Judged]:
    """Every rule about commits: by the differences found (None: there are none), counted by rule and
    whether they are allowed."""
    first = _first(work, found) if found is not None else {}
    results = []
    for rule in _asked(work, (Place.OFFSETS,)):
        count = counts.get((rule.number, False), 0)
        if rule.kind is Kind.WITHIN:
            results.append(_within_log(work, rule))
        elif rule.field is Field.KEYS and not count:
            results.append(_unique(work, rule))
        elif rule.field in differences.VALUES and rule.field not in work.values:
            results.append(unmeasured(rule, f"a snapshot has no column {rule.field}"))
        elif count:
            results.append(broken(rule, first.get(rule.number, []), count))
        else:
            results.append(held(rule))
    return results


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
            named = "; ".join(
                f"group {row['group']}: {row['problem']}" if row["group"] else row["problem"]
                for row in rows_[:_NAMED]
            )
            more = f"; and {len(rows_) - _NAMED} more" if len(rows_) > _NAMED else ""
            reason = f"the {word} snapshot is not complete: {named}{more}"
            hint = "what could not be read is not proven equal: take the snapshot again"
            found.append(Finding(rule="E00", verdict=Verdict.ERROR, reason=reason, hint=hint))
    if _nothing_there(work):
        reason = "neither snapshot holds a committed offset or a group that is there: nothing was compared"
        hint = (
            "see that their names are right, and that this user may describe groups: brokers list no others"
        )
        found.append(Finding(rule="E00", verdict=Verdict.ERROR, reason=reason, hint=hint))
    return tuple(found)


def needs_spark(work: Work) -> bool:
    """Whether a rule looks at one snapshot by itself, so that equal files do not answer it."""
    kinds = {rule.kind for rule in work.rules.values()}
    assigned = Kind.COVERS in kinds and any(work.inputs[side].paths("assignments") for side in SIDES)
    unique = all(work.inputs[side].manifest.unique_keys for side in SIDES)
    return assigned or Kind.WITHIN in kinds or not unique


def _untold(work: Work, rule: EqualityRule) -> str:
    """Why a rule about groups or members cannot be judged; empty where it can."""
    inputs = [work.inputs[side] for side in SIDES]
    needed = groups.needs(rule.field)
    if lacking := [name for name in needed if not all(given.paths(name) for given in inputs)]:
        return f"a snapshot has no table {', '.join(lacking)}"
    column = rule.field.value
    if column not in _GROUP_COLUMNS or "groups" not in needed:
        return ""
    if not all(column in given.columns["groups"] for given in inputs):
        return f"a snapshot has no column {column}"
    if rule.field is Field.GENERATION and not all(_tells(given, column) for given in inputs):
        return f"a snapshot tells no {column} (of classic groups only the log does)"
    return ""


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


def of_equal_files(work: Work) -> list[Judged]:
    """The judgement when every file lies on both sides: all that is there is equal."""
    results = []
    for rule in _asked(work, tuple(Place)):
        if untold := _untold(work, rule):
            results.append(unmeasured(rule, untold))
        elif rule.kind is Kind.BECOMES:
            results.append(unmeasured(rule, "the snapshots are the same files: nothing has become anything"))
        elif rule.field in differences.VALUES and rule.field not in work.values:
            results.append(unmeasured(rule, f"a snapshot has no column {rule.field}"))
        else:
            results.append(held(rule))
    return results


def _asked(work: Work, places: Sequence[Place]) -> list[EqualityRule]:
    return [
        rule
        for rule in work.rules.values()
        if rule.kind is not Kind.IGNORE and FIELDS[rule.field].place in places
    ]


def _by_statements(work: Work, rule: EqualityRule, names: Sequence[str]) -> Judged:
    title = FIELDS[rule.field].title
    frames = [groups.offending(work.spark, name, rule, title) for name in names]
    return _judged(rule, frames)


def _judged(rule: EqualityRule, frames: Sequence[DataFrame]) -> Judged:
    """The rule holds when no frame has a row; few rows are read, all are counted."""
    offending: list[Mapping[str, Any]] = []
    count = 0
    for frame in frames:
        first = [row.asDict() for row in frame.limit(_MOST_NAMED).collect()]
        offending += first
        count += len(first) if len(first) < _MOST_NAMED else frame.count()
    return broken(rule, offending, count) if count else held(rule)


def _first(work: Work, found: DataFrame) -> dict[str, list[Mapping[str, Any]]]:
    """The first differences that each rule does not allow, in the order of their keys."""
    found.createOrReplaceTempView("differences")
    rows_ = work.spark.sql(groups.statement("not_allowed"), args={"most": _FIRST}).collect()
    first: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(rows_, key=lambda row: (row["group"], row["topic"], row["partition"])):
        first.setdefault(row["rule"], []).append(row.asDict())
    return first


def _unique(work: Work, rule: EqualityRule) -> Judged:
    """Duplicates that are the same on both sides cancel in checksums: looked for unless the writer of the
    snapshot did."""
    frames = []
    for side in (side for side in SIDES if not work.inputs[side].manifest.unique_keys):
        work.committed(side).createOrReplaceTempView(f"{side}_counted")
        frames.append(work.spark.sql(groups.statement("keys_unique"), args={"rows": f"{side}_counted"}))
    work.told("keys counted", 0, len(frames))
    return _judged(rule, frames)


def _within_log(work: Work, rule: EqualityRule) -> Judged:
    if not work.inputs["after"].paths("log_ends"):
        return unmeasured(rule, "the later snapshot has no table log_ends")
    work.committed("after").createOrReplaceTempView("after_committed")
    return _judged(rule, [work.spark.sql(groups.statement("offset_within_log"))])


def counted(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """``class, rule, allowed, count`` of the differences in these folders."""
    by = ["class", "rule", "allowed"]
    found = pa.concat_tables(
        pq.read_table(path, columns=by) for folder in paths for path in sorted(folder.glob("*.parquet"))
    )
    counts = found.group_by(by).aggregate([([], "count_all")])
    return [{**row, "count": row.pop("count_all")} for row in counts.to_pylist()]
