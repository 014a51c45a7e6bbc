"""A Parquet dump of a log read by the tasks with Arrow, and Parquet written by the tasks that read.

Rows never become rows of the JVM. The footers say how many rows a row group has, and of which partitions and
offsets: by them the driver shares the row groups out, and knows whether each partition can be read in log
order. A task that writes gives Spark the name of its file and the number of its rows; the folder is put in
place whole, with the files of those attempts that Spark counted: an attempt that failed or lost a race leaves
nothing behind.
"""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from groupshift.errors import Broken, Rejected
from groupshift.spark.batches.coordinator_records import RAW_COLUMNS
from groupshift.spark.batches.segment_files import filesystem
from groupshift.spark.segment_scan import shared
from groupshift.spark.segments import AS_READ, Into, in_tasks

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # Spark's workers do not have `measuring`

_BATCH = 1 << 14
"""Rows of one batch: few enough for what is decoded of them to stay in a processor's cache."""
_TYPES = (pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary())
_SCHEMA = pa.schema(list(zip(RAW_COLUMNS, _TYPES, strict=True)))
_WRITTEN = "name string, rows long"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """One row group of a file: ``rows``, the only ``partition`` of them (-1: of several, or not told) and
    their lowest and highest offset."""

    path: str
    number: int
    rows: int
    partition: int
    first: int
    last: int


def read_dump(spark: SparkSession, uri: str, into: Into = AS_READ) -> DataFrame:
    """The records of the dump in the folder ``uri`` (Parquet files with the columns of `segments.SCHEMA`) as
    rows of ``into.schema``, in the order of the files.

    Reads the footers before it returns. Raises `Rejected` when there is no Parquet file, a column is
    missing or of another type, or the winners are wanted of a dump that is not `in_order`; `Broken` for a
    file that is cut off.
    """
    groups = row_groups(uri)
    if not into.winners:
        pieces = [[group] for group in groups]
    elif in_order(groups):
        pieces = _by_partition(groups)
    else:
        raise Rejected(
            f"dump {uri!r} is not in log order, partition by partition; let Spark find the winners "
            "(coordinator_log.winners)"
        )
    sizes = [sum(group.rows for group in piece) for piece in pieces]
    tasks = shared(pieces, sizes, 4 * spark.sparkContext.defaultParallelism)

    batches = _sorted if into.winners else _batches

    def read(group: RowGroup) -> Iterator[pa.RecordBatch]:
        return batches(uri, group)

    return in_tasks(spark, tasks, read, into)


def row_groups(uri: str) -> list[RowGroup]:
    """The row groups of a dump in the order of their files' names. Raises as `read_dump`."""
    store, folder = filesystem(uri)
    found = store.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    paths = sorted(each.path for each in found if each.is_file and each.path.endswith(".parquet"))
    if not paths:
        raise Rejected(f"dump {uri!r} holds no Parquet file; give a folder of Parquet files")
    return [group for path in paths for group in _of_file(store, path)]


def in_order(groups: Sequence[RowGroup]) -> bool:
    """Whether each row group is of one partition, and no two of a partition overlap."""
    if any(group.partition < 0 for group in groups):
        return False
    return all(left.last < right.first for piece in _by_partition(groups) for left, right in pairwise(piece))


def _by_partition(groups: Sequence[RowGroup]) -> list[list[RowGroup]]:
    found: dict[int, list[RowGroup]] = {}
    for group in sorted(groups, key=lambda each: each.first):
        found.setdefault(group.partition, []).append(group)
    return [found[number] for number in sorted(found)]


def _of_file(store: fs.FileSystem, path: str) -> Iterator[RowGroup]:
    try:
        with store.open_input_file(path) as file:
            read = pq.ParquetFile(file)
            facts, schema = read.metadata, read.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise Broken(
            f"dump {path} is not a whole Parquet file ({wrong}): truncated or altered; copy the dump again"
        ) from wrong
    for name, kind in zip(RAW_COLUMNS, _TYPES, strict=True):
        held = schema.field(name).type if name in schema.names else "no column"
        if held != kind:
            raise Rejected(f"dump {path} has {held} for {name}; it must be {kind}")
    columns = {facts.schema.column(number).name: number for number in range(facts.num_columns)}
    for number in range(facts.num_row_groups):
        group = facts.row_group(number)
        if not group.num_rows:
            continue
        partition, offset = (_bounds(group.column(columns[name])) for name in ("partition", "offset"))
        yield RowGroup(
            path=path,
            number=number,
            rows=group.num_rows,
            partition=partition[0] if partition[0] == partition[1] else -1,
            first=offset[0],
            last=offset[1],
        )


def _bounds(column: Any) -> tuple[int, int]:
    told = column.statistics
    return (told.min, told.max) if told is not None and told.has_min_max else (-1, -2)


def _batches(uri: str, group: RowGroup) -> Iterator[pa.RecordBatch]:
    store, _ = filesystem(uri)
    with store.open_input_file(group.path) as file:
        wanted = {"row_groups": [group.number], "columns": list(RAW_COLUMNS), "use_threads": False}
        for batch in pq.ParquetFile(file).iter_batches(_BATCH, **wanted):
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in RAW_COLUMNS], schema=_SCHEMA)


def _sorted(uri: str, group: RowGroup) -> Iterator[pa.RecordBatch]:
    """In log order, whatever the order of the rows."""
    batches, at = list(_batches(uri, group)), group.first
    for batch in batches:
        offsets = np.concatenate(([at], batch.column("offset").to_numpy()))
        if (np.diff(offsets) < 0).any():
            yield from pa.Table.from_batches(batches).sort_by("offset").to_batches(_BATCH)
            return
        at = offsets[-1]
    yield from batches


def write_by_tasks(frame_of: Callable[[Into], DataFrame], into: Into, output: Path) -> int:
    """Write the rows that ``frame_of(into)`` has as Parquet files of ``output``; the number of rows.

    ``output`` must be a folder that driver and executors share, and is replaced. Raises `Broken` when a
    file of a finished task is not there (executors on machines with folders of their own).
    """
    part = output.absolute().with_name(f"{output.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        written = frame_of(replace(into, schema=_WRITTEN, convert=_writing(into, str(part)))).collect()
        names = {row.name for row in written}
        for path in part.iterdir():
            if path.name not in names:
                path.unlink()
        if missing := names - {path.name for path in part.iterdir()}:
            raise Broken(
                f"{min(missing)} of {output} was written by a Spark task but is not there; give a folder "
                "that the driver and all executors share"
            )
        (part / "_SUCCESS").touch()
        shutil.rmtree(output, ignore_errors=True)
        part.rename(output)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return sum(row.rows for row in written)


def _writing(into: Into, folder: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    convert = into.convert

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name, rows = f"part-{uuid.uuid4().hex}.parquet", 0
        writer: pq.ParquetWriter | None = None
        try:
            for batch in convert(batches):
                writer = writer or pq.ParquetWriter(f"{folder}/{name}", batch.schema)
                writer.write_batch(batch)
                rows += len(batch)
        finally:
            if writer is not None:
                writer.close()
        if writer is not None:
            yield pa.RecordBatch.from_pydict({"name": [name], "rows": pa.array([rows], pa.int64())})

    return write
