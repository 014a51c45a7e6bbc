"""Records of ``__consumer_offsets`` as decoded rows, and what they add up to at any position of the log.

Raw records are frames of ``partition int, offset long, timestamp_ms long, key binary, value binary``
(`segments.SCHEMA`); decoded ones have the columns of `DECODED`. All records pass once, in Arrow batches,
through compiled code that knows the usual record of types 0 to 8 and every key. The others go to the decoder
in Python, `groupshift.log.decode`: values of types 9 to 24, unknown types, versions or tags, damaged or
left-over bytes.

`winners`, `commits`, `groups` and `retention` take raw records. They decode only winners, so a state table
costs one pass of a hash aggregation over keys and offsets, one that fetches the winners, and the decoding of
as many records as there are keys. They read the records twice: give a dump, not a topic that is compacted
meanwhile. The input must be ``read_committed``: of a committed transaction the record's own offset counts,
records of aborted ones must not be there.

Source: docs/reference/group-coordinator.md §§1 and 2, §1.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.domain.tables import shipped
from groupshift.errors import Rejected
from groupshift.log import decode
from groupshift.log.group_states import State, materialise, retention_risks
from groupshift.spark.batches.coordinator_records import DECODED, RAW_COLUMNS, decoded_batches, log_records
from groupshift.spark.output import arrow_columns
from groupshift.spark.segments import Into


def _sql(name: str) -> str:
    return shipped(f"sql/coordinator_log/{name}.sql")


def decoded(records: DataFrame, partitions: int | None) -> DataFrame:
    """The decoded rows (`DECODED`) of raw `records`, in no promised order.

    ``partitions`` is the count that groups are placed by (null: no expected partition). Raises `Rejected`
    for a count below 1.
    """
    into = decoding(partitions)
    return records.select(*RAW_COLUMNS).mapInArrow(into.convert, into.schema)


def decoding(partitions: int | None, *, winners: bool = False) -> Into:
    """What the tasks that read segments or brokers do to decode: with ``winners`` they give the decoded
    state of the log in one pass. Raises as `decoded`."""
    if partitions is not None and partitions < 1:
        raise Rejected(
            f"a topic of {partitions} partitions holds no group; give the partition count, 1 or more"
        )

    def convert(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from decoded_batches(batch, partitions)

    return Into(winners=winners, schema=DECODED, convert=convert)


_GROUPS = (
    "group_id string, src_partition int, family string, families array<string>, headless boolean, "
    "protocol_type string, epoch int, state_timestamp bigint, members array<string>, "
    "subscribed array<string>, live_commits bigint, commit_tombstones bigint, live_records bigint, "
    "tombstones bigint"
)
_OF_GROUP = ("group_id", "headless", "protocol_type", "epoch", "state_timestamp")
_RISKS = (
    "group_id string, topic string, partition int, rule string, reason string, expires_at_ms bigint, "
    "when_emptied_ms bigint, overdue boolean"
)
_Row = dict[str, Any]


def winners(records: DataFrame, up_to: Mapping[int, int] | None = None) -> DataFrame:
    """The raw record that wins for each key of each partition, and how many it has ``beaten``.

    ``up_to`` is a position of the log: partition → end offset, exclusive; of a partition that it does
    not name nothing is taken. None: everything.
    """
    spark, taken = records.sparkSession, records
    if up_to is not None:
        before = F.lit(False)
        for partition, end in up_to.items():
            before |= (F.col("partition") == partition) & (F.col("offset") < end)
        taken = records.where(before)
    newest = spark.sql(_sql("newest"), records=taken)
    return spark.sql(_sql("winners"), records=taken, newest=newest)


def commits(decoded: DataFrame) -> DataFrame:
    """The winning commits of decoded winners, one row per (src_partition, group, topic, partition)."""
    return decoded.sparkSession.sql(_sql("commits"), decoded=decoded)


def foreign(commits: DataFrame) -> DataFrame:
    """Those `commits` that lie outside their group's partition, beside what is at home."""
    return commits.sparkSession.sql(_sql("foreign"), commits=commits)


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
                yield {each.name: getattr(risk, each.name) for each in fields(risk)}

    return _by_partition(winners, partitions, _RISKS, rows)


def _by_partition(
    winners: DataFrame, partitions: int, columns: str, rows: Callable[[State], Iterable[_Row]]
) -> DataFrame:
    schema = pa.schema(arrow_columns(columns))

    def convert(table: pa.Table) -> pa.Table:
        state = materialise(decode(record, partitions=partitions) for record in log_records(table))
        return pa.Table.from_pylist(list(rows(state)), schema=schema)

    return winners.select(*RAW_COLUMNS).groupBy("partition").applyInArrow(convert, columns)


def _group_rows(state: State) -> Iterator[_Row]:
    for group in state.groups.values():
        live = sum(one.live for one in group.commits)
        yield {
            **{name: getattr(group, name) for name in _OF_GROUP},
            "src_partition": group.partition,
            "family": group.family.value,
            "families": sorted(group.families),
            "members": list(group.members),
            "subscribed": None if group.subscribed is None else sorted(group.subscribed),
            "live_commits": live,
            "commit_tombstones": len(group.commits) - live,
            "live_records": len(group.records),
            "tombstones": len(group.removed),
        }
