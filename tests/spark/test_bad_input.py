"""Show 8: bad input of ``compare`` and ``read_coordinator_log``, a numbered test for each row.

Each time: one sentence that names what is wrong and what to do, the documented exit code, and the same
files before and after. Rows: B1 truncated Parquet, B2 missing manifest, B3 mixed clusters, B4 older than its
plan, B5 Kafka topic gone (tests/live/test_bad_evidence.py), B6 disk full.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from groupshift.cli.main import main
from groupshift.domain.evidence import MANIFEST
from groupshift.jobs import compare, read_coordinator_log
from groupshift_testing.log_encoder import encode_key, encode_value
from spark.cluster_snapshots import TAKEN_MS, commit, commits, write
from support.small_disk import listing, needs_mount, small_disk

REJECTED, TRANSIENT, BROKEN = 2, 4, 5
HEAVY = 8_000


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two equal snapshots of 32 rows."""
    rows = {"offsets": commits()}
    return write(tmp_path / "a", rows), write(tmp_path / "b", rows)


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said, which must be one line on standard error."""
    told = capsys.readouterr()
    assert told.err.count("\n") == 1, told.err
    return told.err.strip()


def dump(folder: Path, rows: int) -> Path:
    """Commits of many groups with metadata that does not compress, as a Parquet dump."""
    chance = random.Random(8)
    keys, values = [], []
    for number in range(rows):
        keys.append(encode_key(1, {"group": f"group-{number}", "topic": "orders", "partition": 0}))
        metadata = f"{chance.getrandbits(512):x}"
        fields = {"offset": number, "leaderEpoch": 1, "metadata": metadata, "commitTimestamp": TAKEN_MS}
        values.append(encode_value(1, 3, fields))
    table = {
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp_ms": pa.array([TAKEN_MS] * rows, pa.int64()),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
    }
    folder.mkdir()
    pq.write_table(pa.table(table), folder / "dump.parquet")
    return folder


def read(folder: Path, output: Path) -> int:
    """Exit code of the job."""
    arguments = ["--dump", str(folder), "--partitions", "50", "--output", str(output)]
    return read_coordinator_log.main(arguments)


def test_b1_compare_a_truncated_file(pair, capsys: pytest.CaptureFixture[str]) -> None:
    """The verb and the job."""
    path = pair[1] / "offsets-00000.parquet"
    os.truncate(path, path.stat().st_size // 2)
    before = listing(pair[0].parent)
    output = str(pair[0].parent / "out")
    assert main(["compare", *map(str, pair), "--move", "downgrade", "--output", output]) == BROKEN
    said = one_sentence(capsys)
    assert str(path) in said
    assert "truncated or altered; nothing was compared; take the snapshot again" in said
    assert compare.main([*map(str, pair), "--move", "downgrade", "--output", output]) == BROKEN
    assert str(path) in one_sentence(capsys)
    assert listing(pair[0].parent) == before


@pytest.mark.parametrize("at", ["end", "page"])
def test_b1_read_a_truncated_dump(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], at: str
) -> None:
    """Cut off; or whole to look at, and damaged where the rows are."""
    path = dump(tmp_path / "dump", 200) / "dump.parquet"
    if at == "end":
        os.truncate(path, path.stat().st_size // 2)
    else:
        data = bytearray(path.read_bytes())
        data[4:2000] = bytes(1996)
        path.write_bytes(bytes(data))
    before = listing(tmp_path)
    assert read(path.parent, tmp_path / "out") == BROKEN
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("read_coordinator_log: ")
    assert f"--dump {path} " in said
    assert "truncated or altered" in said
    assert said.endswith("copy the dump again")
    assert listing(tmp_path) == before


def test_b1_read_a_dump_that_is_none(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without a Parquet file, and no folder at all."""
    (tmp_path / "dump").mkdir()
    for folder in (tmp_path / "dump", tmp_path / "nowhere"):
        assert read(folder, tmp_path / "out") == REJECTED
        assert f"--dump {folder} holds no Parquet file; give a folder" in one_sentence(capsys)
    assert listing(tmp_path) == ["dump"]


def test_b2_compare_without_a_manifest(pair, capsys: pytest.CaptureFixture[str]) -> None:
    """A snapshot whose writer was killed, or one that was copied in part."""
    (pair[0] / MANIFEST).unlink()
    before = listing(pair[0].parent)
    output = str(pair[0].parent / "out")
    assert main(["compare", *map(str, pair), "--move", "downgrade", "--output", output]) == REJECTED
    assert f"snapshot {pair[0]} has no manifest.json: it is not finished; take it again" in one_sentence(
        capsys
    )
    assert compare.main([*map(str, pair), "--move", "downgrade", "--output", output]) == REJECTED
    assert listing(pair[0].parent) == before


def test_b3_compare_two_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused unless that is the move; and one cluster is not two."""
    rows = {"offsets": commits()}
    pair = [write(tmp_path / "a", rows), write(tmp_path / "b", rows, cluster_id="cluster-b")]
    before = listing(tmp_path)
    arguments = ["compare", *map(str, pair), "--output", str(tmp_path / "out"), "--move"]
    assert main([*arguments, "protocol"]) == REJECTED
    said = one_sentence(capsys)
    assert (
        "different clusters ('cluster-a', 'cluster-b'): take both from one, or compare with --move cluster"
        in said
    )
    assert main(["compare", str(pair[0]), str(pair[0]), *arguments[3:], "cluster"]) == REJECTED
    assert "both snapshots are of cluster 'cluster-a'" in one_sentence(capsys)
    assert listing(tmp_path) == before


def test_b4_compare_snapshots_of_two_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Older than its plan; and each for a plan of its own."""
    rows = {"offsets": commits()}
    plan = {"run": "m-1", "hash": "a" * 64, "made_at_ms": TAKEN_MS - 1000}
    first = write(tmp_path / "a", rows, plan=plan)
    other = write(tmp_path / "b", rows, plan={**plan, "run": "m-2", "hash": "b" * 64})
    early = write(tmp_path / "c", rows, plan={**plan, "made_at_ms": TAKEN_MS + 1000})
    before = listing(tmp_path)
    arguments = ["--move", "downgrade", "--output", str(tmp_path / "out")]
    assert main(["compare", str(first), str(early), *arguments]) == REJECTED
    said = one_sentence(capsys)
    assert (
        "the later snapshot was taken at 2025-11-21 15:46:40 UTC, before its plan of 2025-11-21 15:46:41"
        in said
    )
    assert said.endswith("take it again")
    assert main(["compare", str(first), str(other), *arguments]) == REJECTED
    said = one_sentence(capsys)
    assert "was taken for the plan bbbbbbbbbbbb… of run m-2, that of run m-1 is aaaaaaaaaaaa…" in said
    assert listing(tmp_path) == before


def test_b6_compare_on_a_full_disk(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No verdict, no differences and no temporary name are left; with room the same command ends."""
    chance = random.Random(6)

    def rows(step: int) -> list[dict[str, object]]:
        return [
            commit(f"group-{n:05}", 0, n + step, metadata=f"{chance.getrandbits(256):x}")
            for n in range(HEAVY)
        ]

    pair = [write(tmp_path / name, {"offsets": rows(step)}) for step, name in enumerate("ab")]
    output = tmp_path / "disk" / "out"
    arguments = ["compare", *map(str, pair), "--move", "downgrade", "--output", str(output)]
    with small_disk(tmp_path / "disk", 60) as kind:
        needs_mount(kind)
        assert main(arguments) == TRANSIENT
        said = one_sentence(capsys)
        assert str(output) in said
        assert "is full: make room and run the same command again" in said
        left = listing(output)
        assert [name for name in left if ".part" in name or not name.startswith(".progress")] == []
    assert main([*arguments[:-1], str(tmp_path / "out")]) == 1
    assert {"verdict.json", MANIFEST} <= set(listing(tmp_path / "out"))


def test_b6_read_on_a_full_disk(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table that did not fit is not there, nor what was written of it."""
    folder = dump(tmp_path / "dump", HEAVY)
    with small_disk(tmp_path / "disk", 60) as kind:
        needs_mount(kind)
        output = tmp_path / "disk" / "out"
        assert read(folder, output) == TRANSIENT
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert said.startswith(f"read_coordinator_log: the disk of {output}")
        assert said.endswith("is full: make room and run the same command again")
        assert listing(tmp_path / "disk") == []
    assert read(folder, tmp_path / "out") == 0
    assert pq.read_table(tmp_path / "out" / "commits.parquet").num_rows == HEAVY
