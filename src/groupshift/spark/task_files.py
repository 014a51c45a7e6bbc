"""Parquet written by the tasks that read, so that rows do not pass through the JVM a second time.

A task writes one file and gives Spark the file's name and its number of rows; the folder is put in place
whole, with the files of those attempts that Spark counted: an attempt that failed or lost a race leaves
nothing behind.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from groupshift.errors import Broken
from groupshift.spark.segments import Into

_WRITTEN = "name string, rows long"


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
