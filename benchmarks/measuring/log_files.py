"""Made-up coordinator records on disk: segment files of a broker, a Parquet dump, or both."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from measuring.coordinator_records import Chunk, chunks
from measuring.segment_files import encoded


def write_log(folder: Path, topic: str, records: int, dump: Path | None = None) -> int:
    """``<topic>-<partition>/00000000000000000000.log`` of every partition, and one Parquet file a partition
    in ``dump``; returns the bytes of the segments."""
    size = 0
    if dump is not None:
        dump.mkdir(parents=True)
    for made in chunks(records):
        path = folder / f"{topic}-{made.partition}" / f"{0:020}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        size += _write_segment(path, made)
        if dump is not None:
            pq.write_table(made.table(), dump / f"dump-{made.partition:02d}.parquet")
    return size


def _write_segment(path: Path, made: Chunk) -> int:
    log = encoded(made)
    path.write_bytes(memoryview(log))
    return len(log)
