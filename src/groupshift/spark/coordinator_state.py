"""What the coordinator's log adds up to at any position of it: winners, commits, groups, retention.

Raw records in (`coordinator_log.RAW`), frames out. Only winners are decoded, so a state table costs one pass
of a hash aggregation over keys and offsets, one that fetches the winners, and the decoding of as many records
as there are keys. `records` is read twice: give a dump, not a topic that is compacted meanwhile.

The input must be ``read_committed``: of a committed transaction the record's own offset counts, records of
aborted ones must not be there. Source: specs/group-coordinator.md §1.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.log import LogRecord, decode
from groupshift.log.retention import retention_risks
from groupshift.log.state import State, materialise
from groupshift.spark.coordinator_log import statement

WINNERS = ("partition", "offset", "timestamp_ms", "key", "value")
_GROUPS = {
    "group_id": pa.string(),
    "src_partition": pa.int32(),
    "family": pa.string(),
    "families": pa.list_(pa.string()),
    "headless": pa.bool_(),
    "protocol_type": pa.string(),
    "epoch": pa.int32(),
    "state_timestamp": pa.int64(),
    "members": pa.list_(pa.string()),
    "subscribed": pa.list_(pa.string()),
    "live_commits": pa.int64(),
    "commit_tombstones": pa.int64(),
    "live_records": pa.int64(),
    "tombstones": pa.int64(),
}
_RISKS = {
    "group_id": pa.string(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "rule": pa.string(),
    "reason": pa.string(),
    "expires_at_ms": pa.int64(),
    "when_emptied_ms": pa.int64(),
    "overdue": pa.bool_(),
}
_SQL_TYPES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.list_(pa.string()): "array<string>",
}
_Row = dict[str, Any]


def winners(records: DataFrame, up_to: Mapping[int, int] | None = None) -> DataFrame:
    """The raw record that wins for each key of each partition, and how many it has ``beaten``.

    ``up_to`` is a position of the log: partition → end offset, exclusive; of a partition that it does
    not name nothing is taken. None: everything.
    """
    spark = records.sparkSession
    taken = records if up_to is None else records.where(_before(up_to))
    newest = spark.sql(statement("newest"), records=taken)
    return spark.sql(statement("winners"), records=taken, newest=newest)


def _before(up_to: Mapping[int, int]) -> Column:
    condition = F.lit(False)
    for partition, end in up_to.items():
        condition |= (F.col("partition") == partition) & (F.col("offset") < end)
    return condition


def commits(decoded: DataFrame) -> DataFrame:
    """The winning commits of decoded winners, one row per (src_partition, group, topic, partition)."""
    return decoded.sparkSession.sql(statement("commits"), decoded=decoded)


def foreign(commits: DataFrame) -> DataFrame:
    """Those `commits` that lie outside their group's partition, beside what is at home."""
    return commits.sparkSession.sql(statement("foreign"), commits=commits)


def groups(winners: DataFrame, partitions: int) -> DataFrame:
    """One row per group with records at home: family, epoch, members, subscriptions, what was removed.

    The rules are those of `groupshift.log`, in one task per partition of the log.
    """
    return _by_partition(winners, partitions, _GROUPS, _group_rows)


def retention(winners: DataFrame, partitions: int, *, retention_ms: int, now_ms: int) -> DataFrame:
    """Every live commit at home with the rule that says when a broker may forget it.

    ``retention_ms`` is ``offsets.retention.minutes`` in ms, ``now_ms`` the brokers' clock.
    """

    def rows(state: State) -> Iterator[_Row]:
        for group in state.groups.values():
            for risk in retention_risks(group, retention_ms=retention_ms, now_ms=now_ms):
                yield {name: getattr(risk, name) for name in _RISKS}

    return _by_partition(winners, partitions, _RISKS, rows)


def _by_partition(
    winners: DataFrame,
    partitions: int,
    columns: Mapping[str, pa.DataType],
    rows: Callable[[State], Iterable[_Row]],
) -> DataFrame:
    schema = pa.schema(list(columns.items()))

    def convert(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(list(rows(_state(table, partitions))), schema=schema)

    text = ", ".join(f"{name} {_SQL_TYPES[kind]}" for name, kind in columns.items())
    return winners.select(*WINNERS).groupBy("partition").applyInArrow(convert, text)


def _state(table: pa.Table, partitions: int) -> State:
    raw = zip(*(table.column(name).to_pylist() for name in WINNERS), strict=True)
    records = (LogRecord(partition=p, offset=o, timestamp_ms=t, key=k, value=v) for p, o, t, k, v in raw)
    return materialise(decode(record, partitions=partitions) for record in records)


def _group_rows(state: State) -> Iterator[_Row]:
    for group in state.groups.values():
        live = sum(one.live for one in group.commits)
        yield {
            "group_id": group.group_id,
            "src_partition": group.partition,
            "family": group.family.value,
            "families": sorted(group.families),
            "headless": group.headless,
            "protocol_type": group.protocol_type,
            "epoch": group.epoch,
            "state_timestamp": group.state_timestamp,
            "members": list(group.members),
            "subscribed": None if group.subscribed is None else sorted(group.subscribed),
            "live_commits": live,
            "commit_tombstones": len(group.commits) - live,
            "live_records": len(group.records),
            "tombstones": len(group.removed),
        }
