"""Cluster snapshots on disk: whole or not at all, never over another, read back as they were."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groupshift.adapters.parquet import snapshots
from groupshift.adapters.parquet.snapshots import ParquetClusterSnapshots
from groupshift.domain.rows import BrokerRow, ClusterState, GroupRow, OffsetRow, ProblemRow
from groupshift.domain.snapshot import CLUSTER_TABLES
from groupshift.errors import Broken, Rejected, Transient

OFFSETS = [
    OffsetRow(group="g", topic="t", partition=n, offset=10 + n, leader_epoch=n or None, metadata="é\0")
    for n in range(3)
]
STATE = ClusterState(
    cluster_id="c",
    taken_at_ms=5,
    groups=[GroupRow(group="g", type="classic", state="Empty", coordinator=1)],
    offsets=OFFSETS,
    brokers=[BrokerRow(node_id=1, host="h", port=9, groups_listed=1, groups_coordinated=1)],
    problems=[ProblemRow(problem="a sentence")],
)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    """Every table is there; metadata keeps its NUL; what a live snapshot cannot know is no column."""
    manifest = ParquetClusterSnapshots().write(tmp_path / "s", STATE)
    assert {entry.table for entry in manifest.files} == set(CLUSTER_TABLES)
    table = pq.read_table(tmp_path / "s" / "offsets-00000.parquet")
    assert table.column_names == ["group", "topic", "partition", "offset", "leader_epoch", "metadata"]
    assert [OffsetRow(**row) for row in table.to_pylist()] == OFFSETS
    groups = pq.read_table(tmp_path / "s" / "groups-00000.parquet").to_pylist()
    assert [GroupRow(**row) for row in groups] == STATE.groups
    assert manifest.unique_keys
    assert json.loads((tmp_path / "s" / "manifest.json").read_text())["cluster_id"] == "c"


def test_no_rows_claim_no_more_columns_than_rows_do(tmp_path: Path) -> None:
    """Else a comparison of two groups without offsets says that the hashes of their records are equal."""
    ParquetClusterSnapshots().write(tmp_path / "s", ClusterState(cluster_id="c", taken_at_ms=5))
    ParquetClusterSnapshots().write(tmp_path / "rows", STATE)
    for name in CLUSTER_TABLES:
        tables = [pq.read_table(tmp_path / folder / f"{name}-00000.parquet") for folder in ("s", "rows")]
        assert tables[0].schema == tables[1].schema, name


def test_the_comparison_accepts_what_was_written(tmp_path: Path) -> None:
    """The reader of the other side proves every file against the manifest."""
    from groupshift.adapters.parquet.compare_inputs import verify

    manifest = ParquetClusterSnapshots().write(tmp_path / "s", STATE)
    found = verify(tmp_path / "s")
    assert found.manifest == manifest
    assert "leader_epoch" in found.columns["offsets"]


def test_large_tables_are_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, none lost at the seam."""
    monkeypatch.setattr(snapshots, "_ROWS_A_FILE", 2)
    manifest = ParquetClusterSnapshots().write(tmp_path / "s", STATE)
    assert [entry.rows for entry in manifest.of_table("offsets")] == [2, 1]
    rows = [
        row["offset"]
        for entry in manifest.of_table("offsets")
        for row in pq.read_table(tmp_path / "s" / entry.file).to_pylist()
    ]
    assert rows == [10, 11, 12]


def test_a_key_that_comes_twice_is_not_called_unique(tmp_path: Path) -> None:
    """The manifest's word is true."""
    state = ClusterState(cluster_id="c", taken_at_ms=5, offsets=[*OFFSETS, OFFSETS[0]])
    assert not ParquetClusterSnapshots().write(tmp_path / "s", state).unique_keys


def test_a_snapshot_is_never_overwritten(tmp_path: Path) -> None:
    """A folder with anything in it, or a file, is refused and left alone; an empty folder is taken."""
    store = ParquetClusterSnapshots()
    (tmp_path / "empty").mkdir()
    store.write(tmp_path / "empty", STATE)
    before = sorted(path.name for path in (tmp_path / "empty").iterdir())
    for taken in (tmp_path / "empty", tmp_path / "empty" / "manifest.json"):
        with pytest.raises(Rejected, match="never overwritten; name another"):
            store.write(taken, STATE)
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == before


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writing more than ``size`` bytes to a file fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path: Path) -> None:
    """One sentence with the folder, and neither it nor a draft of it."""
    with largest_file(100), pytest.raises(Transient, match=r"cannot be written.*make room") as caught:
        ParquetClusterSnapshots().write(tmp_path / "s", STATE)
    assert str(tmp_path / "s") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_offsets_are_read_back_only_as_they_were_written(tmp_path: Path) -> None:
    """By the hash of the manifest, and the hashes of the files that it names."""
    store, folder = ParquetClusterSnapshots(), tmp_path / "s"
    manifest = store.write(folder, STATE)
    assert list(store.offsets(folder, manifest.digest)) == OFFSETS
    with pytest.raises(Broken, match=r"manifest\.json has SHA-256 .* the file was altered"):
        store.offsets(folder, "0" * 64)
    path = folder / "offsets-00000.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"!")
    with pytest.raises(Broken, match=r"offsets-00000\.parquet has SHA-256 .* the file was altered"):
        store.offsets(folder, manifest.digest)
    path.unlink()
    with pytest.raises(Broken, match=r"offsets-00000\.parquet is gone: bring it back"):
        store.offsets(folder, manifest.digest)
