"""The job that reads the coordinator's log: tables from a dump and segment files, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from groupshift.jobs.read_coordinator_log import main
from groupshift.log import LogRecord
from support.batch_encoder import Record, batch
from support.coordinator_story import PARTITIONS, T, commit, consumer_group, gone, record

COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value")
TYPES = (pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary())


def log() -> list[LogRecord]:
    """One consumer group with a commit, one that went, and a foreign commit."""
    lines = [
        *consumer_group("g"),
        commit("g", offset=5),
        commit("g", "t2", offset=6),
        gone(commit("g", "t2")),
    ]
    home = record(lines[0], 0).partition
    stray = record(commit("g", offset=900), 3, partition=(home + 1) % PARTITIONS)
    return [record(line, at) for at, line in enumerate(lines)] + [stray]


def dump(folder: Path) -> Path:
    """The log as a Parquet dump."""
    columns = [
        pa.array([getattr(each, name) for each in log()], kind)
        for name, kind in zip(COLUMNS, TYPES, strict=True)
    ]
    folder.mkdir()
    pq.write_table(pa.table(columns, names=list(COLUMNS)), folder / "dump.parquet")
    return folder


def segment_files(folder: Path) -> Path:
    """The log as segment files."""
    for partition in {each.partition for each in log()}:
        path = folder / f"__consumer_offsets-{partition}" / f"{0:020}.log"
        path.parent.mkdir(parents=True)
        entries = [each for each in log() if each.partition == partition]
        path.write_bytes(
            b"".join(
                batch([Record(offset=each.offset, timestamp_ms=T, key=each.key, value=each.value)])
                for each in entries
            )
        )
    return folder


def table(output: Path, name: str) -> list[dict[str, object]]:
    """The rows of one table."""
    return pq.read_table(output / f"{name}.parquet").to_pylist()


def test_tables_from_a_dump(spark: SparkSession, tmp_path: Path) -> None:
    """Every table at a position before the tombstone; a second run leaves no table of the first behind."""
    position = tmp_path / "position.json"
    position.write_text(json.dumps(dict.fromkeys(map(str, range(PARTITIONS)), 7)))
    given = ["--dump", str(dump(tmp_path / "dump")), "--partitions", str(PARTITIONS)]
    output = tmp_path / "out"
    full = [*given, "--output", str(output), "--decoded", "--retention-ms", "1000", "--now-ms", str(T + 5000)]
    assert main([*full, "--up-to", str(position)]) == 0
    assert len(table(output, "decoded")) == len(log())
    commits = {(row["topic"], row["is_foreign"]): row["offset"] for row in table(output, "commits")}
    assert commits == {("t1", False): 5, ("t2", False): 6, ("t1", True): 900}
    assert [row["home_offset"] for row in table(output, "foreign")] == [5]
    assert [(row["family"], row["members"]) for row in table(output, "groups")] == [("consumer", ["m1"])]
    assert {row["rule"] for row in table(output, "retention")} == {"T5", "T6"}
    assert main([*given, "--output", str(output)]) == 0
    assert {row["topic"]: row["offset"] for row in table(output, "commits") if not row["is_foreign"]} == {
        "t1": 5,
        "t2": None,
    }
    assert sorted(path.name for path in output.iterdir()) == [
        "commits.parquet",
        "foreign.parquet",
        "groups.parquet",
    ]


def test_tables_from_segment_files(spark: SparkSession, tmp_path: Path) -> None:
    """What was read is kept beside the tables."""
    files, output = segment_files(tmp_path / "copy"), tmp_path / "out"
    assert main(["--segments", str(files), "--partitions", str(PARTITIONS), "--output", str(output)]) == 0
    assert len(table(output, "raw")) == len(log())
    assert len(table(output, "commits")) == 3


def test_what_cannot_be_used_is_said_in_one_sentence(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dump that is not there, one of other columns, a position that is none; nothing is left behind."""
    output = tmp_path / "out"
    common = ["--partitions", "5", "--output", str(output)]
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    pq.write_table(pa.table({"partition": [1], "key": ["text"]}), wrong / "x.parquet")
    position = tmp_path / "position.json"
    position.write_text('{"a": 1}')
    cases = {
        "none holds no Parquet file; give a folder of Parquet files": ["--dump", str(tmp_path / "none")],
        "has bigint partition; it must be partition int": ["--dump", str(wrong)],
        "must map partition numbers to end offsets": ["--dump", str(wrong), "--up-to", str(position)],
    }
    for sentence, arguments in cases.items():
        assert main([*arguments, *common]) == 2
        assert sentence in capsys.readouterr().err
        assert not output.exists()
