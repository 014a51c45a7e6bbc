"""The process that Spark forks its Python workers from: what tasks need is loaded before the first fork.

Spark's own daemon knows only Spark: every worker then imports numba and Arrow and loads the compiled loops by
itself (2 s of a core each), and walks over all of it whenever a task has ended (``gc.collect()``). Here it is
done once, and what was loaded is taken out of the collector's sight.

Named by ``spark.python.daemon.module``: Spark runs ``python -m groupshift.spark.worker_daemon`` when the
first task in Python begins. Only for workers that find this package installed: sessions with a local master
(`session.LOCAL`).
"""

from __future__ import annotations

import gc
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from groupshift.spark.batches.decompress import Origin
from groupshift.spark.batches.headers import crc32c, read_headers
from groupshift.spark.batches.records import latest_by_key, read_records
from groupshift.spark.batches.transactions import NONE, visible
from groupshift.spark.coordinator_log import decoding

_KEY = struct.pack(">hh5sh5si", 1, 5, b"group", 5, b"topic", 0)
"""Type, group, topic, partition."""
_VALUE = struct.pack(">hqihq", 3, 1, 0, 0, 1)
"""Version, offset, leader epoch, no metadata, time of the commit."""


def sample_batch() -> bytes:
    """A batch of format 2 with one commit."""
    record = b"\0\0\0" + b"".join(bytes([len(part) << 1]) + part for part in (_KEY, _VALUE)) + b"\0"
    body = bytes([len(record) << 1]) + record
    fields = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + body
    checksum = crc32c(np.frombuffer(fields, np.uint8), 0, len(fields))
    sealed = struct.pack(">ibI", 0, 2, checksum) + fields
    return struct.pack(">qi", 0, len(sealed)) + sealed


def warm_up(log: bytes) -> list[pa.RecordBatch]:
    """The decoded winners of the batches in ``log``: what a task does, so that its code is loaded."""
    data = np.frombuffer(log, np.uint8)
    table = visible(read_headers(data).table, NONE)
    rows = read_records(data, table, Origin(name="a batch of our own"))
    return list(decoding(1, winners=True).convert(latest_by_key(rows)))


def main() -> None:
    """Load, then serve forks until Spark closes the standard input."""
    from pyspark.daemon import manager

    warm_up(sample_batch())
    gc.collect()
    gc.freeze()
    serve: Any = manager
    serve()


if __name__ == "__main__":
    main()
