"""The job that reads ``__consumer_offsets``: what it refuses before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groupshift.jobs.read_coordinator_log import main


@pytest.mark.parametrize("named", ["out/raw.parquet", "out/raw.parquet/part-0.parquet", "out"])
def test_a_dump_is_never_removed_for_the_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], named: str
) -> None:
    """Tables of an earlier run make room first: its raw records may be what is to be decoded again."""
    part = tmp_path / "out" / "raw.parquet" / "part-0.parquet"
    part.parent.mkdir(parents=True)
    pq.write_table(pa.table({"partition": [0]}), part)
    before = part.read_bytes()
    given = ("--dump", str(tmp_path / named), "--output", str(tmp_path / "out"), "--partitions", "50")
    assert main(given) == 2
    assert "would replace --dump" in capsys.readouterr().err
    assert part.read_bytes() == before
