"""Pairs of large cluster snapshots with planted differences, made by numpy from a seed.

A fifth of all rows is one group's; the other groups have 500 rows each. Of every class of differences
``planted`` are put into the later snapshot, at keys drawn without replacement.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from groupshift.domain.evidence import MANIFEST

FILE_ROWS, GROUP_ROWS, PARTITIONS = 1_000_000, 500, 50
CLASSES = (
    "lost", "extra", "regressed", "advanced", "leader_epoch", "metadata_only", "timestamp",
    "record", "duplicate",
)  # fmt: skip
TAKEN_MS = 1_763_740_000_000
_METADATA = ("", "host-a", "committed by the batch", "grün")

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Folders of both snapshots, and the planted keys of each class as (group, topic, partition)."""

    before: Path
    after: Path
    planted: dict[str, set[tuple[str, str, int]]]


def _rows(count: int) -> Columns:
    """All rows in the order of their keys; texts are numbers of words."""
    drawn = np.random.default_rng(5)
    at = np.arange(count, dtype=np.int64)
    skewed = count // 5
    inside, other = at < skewed, at - skewed
    group = np.where(inside, 0, 1 + other // GROUP_ROWS)
    topic = np.where(inside, at // 1000, other % GROUP_ROWS // PARTITIONS)
    partition = np.where(inside, at % 1000, other % PARTITIONS)
    return {
        "group": group.astype(np.int32),
        "topic": topic.astype(np.int32),
        "partition": partition.astype(np.int32),
        "offset": drawn.integers(1, 1 << 40, count),
        "leader_epoch": drawn.integers(0, 20, count, dtype=np.int32),
        "metadata": drawn.integers(0, len(_METADATA) - 1, count, dtype=np.int32),
        "commit_timestamp_ms": TAKEN_MS - drawn.integers(0, 10**8, count),
        "topic_id": topic.astype(np.int32),
    }


def _plant(rows: Columns, planted: int) -> tuple[Columns, dict[str, NDArray[Any]]]:
    """The later snapshot's rows, and the positions chosen for each class."""
    count = len(rows["offset"])
    chosen = np.random.default_rng(6).choice(count, planted * (len(CLASSES) - 1), replace=False)
    of = dict(
        zip((one for one in CLASSES if one != "extra"), np.split(chosen, len(CLASSES) - 1), strict=True)
    )
    later = {name: values.copy() for name, values in rows.items()}
    later["offset"][of["regressed"]] -= 1
    later["offset"][of["advanced"]] += 1
    later["leader_epoch"][of["leader_epoch"]] += 1
    later["metadata"][of["metadata_only"]] = len(_METADATA) - 1
    later["commit_timestamp_ms"][of["timestamp"]] += 1
    later["topic_id"][of["record"]] += 1
    extra = {name: values[:planted].copy() for name, values in rows.items()}
    extra["partition"] += 1_000_000
    again = {name: values[of["duplicate"]] for name, values in later.items()}
    kept = np.ones(count, dtype=bool)
    kept[of["lost"]] = False
    later = {name: np.concatenate([values[kept], extra[name], again[name]]) for name, values in later.items()}
    return later, {**of, "extra": np.arange(planted)}


def _names(kind: str, count: int) -> pa.Array:
    return pa.array([f"{kind}-{number:07d}" for number in range(count)])


def _tables(rows: Columns, step: int) -> Iterator[pa.Table]:
    words = {
        "group": _names("group", int(rows["group"].max()) + 1),
        "topic": _names("topic", int(rows["topic"].max()) + 1),
        "topic_id": _names("id", int(rows["topic_id"].max()) + 1),
        "metadata": pa.array(_METADATA),
    }
    for start in range(0, len(rows["offset"]), step):
        part = {name: values[start : start + step] for name, values in rows.items()}
        yield pa.table(
            {
                name: words[name].take(pa.array(values)) if name in words else pa.array(values)
                for name, values in part.items()
            }
        )


def write(folder: Path, rows: Columns, *, step: int = FILE_ROWS, taken_at_ms: int = TAKEN_MS) -> Path:
    """A snapshot of these rows, ``step`` to a file."""
    folder.mkdir(parents=True)
    entries = []
    for number, table in enumerate(_tables(rows, step)):
        path = folder / f"offsets-{number:05d}.parquet"
        pq.write_table(table, path, compression="zstd")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        size = path.stat().st_size
        entries.append(
            {"table": "offsets", "file": path.name, "rows": len(table), "bytes": size, "sha256": digest}
        )
    manifest(folder, entries, taken_at_ms)
    return folder


def manifest(folder: Path, entries: Sequence[dict[str, Any]], taken_at_ms: int) -> None:
    """The manifest over these files."""
    document = {
        "version": 1,
        "cluster_id": "benchmark",
        "taken_at_ms": taken_at_ms,
        "unique_keys": True,
        "files": list(entries),
    }
    (folder / MANIFEST).write_text(json.dumps(document))


def make(root: Path, count: int, planted: int) -> Pair:
    """``a`` (before), ``b`` (after, with planted differences) and ``c`` (the rows of ``a`` in reverse
    order and other files) below ``root``."""
    rows = _rows(count)
    write(root / "a", rows)
    write(root / "c", {name: values[::-1] for name, values in rows.items()}, step=750_000)
    later, chosen = _plant(rows, planted)
    write(root / "b", later)
    return Pair(
        before=root / "a", after=root / "b", planted={one: _keys(rows, chosen, one) for one in CLASSES}
    )


def _keys(rows: Columns, chosen: dict[str, NDArray[Any]], class_: str) -> set[tuple[str, str, int]]:
    beyond = 1_000_000 if class_ == "extra" else 0
    return {
        (
            f"group-{int(rows['group'][at]):07d}",
            f"topic-{int(rows['topic'][at]):07d}",
            int(rows["partition"][at]) + beyond,
        )
        for at in chosen[class_]
    }
