"""What was read within one bracket, as frames: what coordinators answer, and what ZooKeeper holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from groupshift.audit.case import ZookeeperGroup
from groupshift.audit.offsets import Reading
from groupshift.domain.commit_places import Stray
from groupshift.domain.rows import ClusterState

_TEXT, _INT, _LONG = pa.string(), pa.int32(), pa.int64()
_KEY = {"group_id": _TEXT, "topic": _TEXT, "partition": _INT}
_STRAYS = (Stray.FORMER_TOPIC, Stray.NO_PARTITION, Stray.EPOCH_ABOVE, Stray.EPOCH_LOW)
_ANSWERS = {
    **_KEY, "offset": _LONG, "leader_epoch": _INT, "metadata": _TEXT,
    "former": pa.bool_(), "lacking": pa.bool_(), "epoch_above": pa.bool_(), "epoch_low": pa.bool_(),
}  # fmt: skip
_TOPICS = {"topic": _TEXT, "topic_id": _TEXT}
_ENDS = {"topic": _TEXT, "partition": _INT, "log_start": _LONG, "log_end": _LONG}
_ENSEMBLE = {"group_id": _TEXT, "mode": _TEXT, "members": _INT, "aware": _INT, "troubled": pa.bool_()}
_NODES = {**_KEY, "offset": _LONG, "mtime_ms": _LONG}
_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """All sources but the log. ``answers`` are committed offsets as the coordinators tell them, ``asked`` the
    groups of which they told all, ``ends`` the topics' log starts and ends, ``topics`` their ids now,
    ``opened`` the position of the coordinators' log before they were asked; ``ensemble`` is one row a group
    in ZooKeeper, ``nodes`` one an offset node."""

    answers: DataFrame
    asked: DataFrame
    ends: DataFrame
    topics: DataFrame
    opened: DataFrame
    ensemble: DataFrame
    nodes: DataFrame


def sides(spark: SparkSession, reading: Reading) -> Sides:
    """The frames of one reading; they come from this process and need no folder that workers see."""
    admin, zookeeper = reading.admin, reading.zookeeper or {}
    return Sides(
        answers=frame(spark, _ANSWERS, _answers(admin)),
        asked=named(spark, _asked(admin)),
        ends=frame(
            spark, _ENDS, ((row.topic, row.partition, row.log_start, row.log_end) for row in admin.log_ends)
        ),
        topics=frame(spark, _TOPICS, ((each.topic, each.topic_id) for each in admin.topics.now.values())),
        opened=frame(spark, {"partition": _INT, "opened": _LONG}, reading.opened.items()),
        ensemble=frame(spark, _ENSEMBLE, _ensemble(zookeeper)),
        nodes=frame(spark, _NODES, _nodes(zookeeper)),
    )


def named(spark: SparkSession, groups: Iterable[str]) -> DataFrame:
    """One row a group: ``group_id``."""
    return frame(spark, {"group_id": _TEXT}, ((each,) for each in groups))


def frame(spark: SparkSession, columns: Mapping[str, pa.DataType], rows: Iterable[_Row]) -> DataFrame:
    """Rows of this process as a frame with these columns."""
    found = list(rows)
    arrays = [pa.array([row[at] for row in found], kind) for at, kind in enumerate(columns.values())]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, names=list(columns)))


def _answers(admin: ClusterState) -> Iterable[_Row]:
    for row in admin.offsets:
        found = admin.topics.strays(row) if row.offset >= 0 else ()
        strays = (each in found for each in _STRAYS)
        yield row.group, row.topic, row.partition, row.offset, row.leader_epoch, row.metadata, *strays


def _asked(admin: ClusterState) -> set[str]:
    troubled = {row.group for row in admin.problems if row.group is not None}
    return {row.group for row in admin.groups} - troubled


def _ensemble(zookeeper: Mapping[str, ZookeeperGroup]) -> Iterable[_Row]:
    for group, side in zookeeper.items():
        yield group, side.mode.value, side.members, side.aware, bool(side.problems)


def _nodes(zookeeper: Mapping[str, ZookeeperGroup]) -> Iterable[_Row]:
    for group, side in zookeeper.items():
        for (topic, partition), node in side.offsets.items():
            yield group, topic, partition, node.offset, node.mtime_ms
