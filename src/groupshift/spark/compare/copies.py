"""What a comparison of two clusters cannot prove: topics under the names of a mirror, and numbers that any
log holds.

Sources: docs/reference/cross-cluster-offsets.md §§5, 8; KAFKA-12635.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from groupshift.domain.equality_rules import Kind, mirrored_names
from groupshift.domain.verdict import Finding, Verdict
from groupshift.spark import checks
from groupshift.spark.compare import differences, groups
from groupshift.spark.compare.work import SIDES, Work

NUMBER = "E00"
_NAMED = 3
_STATEMENT = "copied_numbers"


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
    offending = work.spark.sql(checks.statement(groups.FOLDER, _STATEMENT), args=None, **frames)
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
    return Finding(rule=NUMBER, verdict=Verdict.ERROR, reason=reason, hint=hint)
