"""Snapshots that cannot be compared: one sentence, the documented exit code, and nothing left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from groupshift.cli.main import main
from groupshift.domain.evidence import MANIFEST
from spark.cluster_snapshots import TAKEN_MS, commit, commits, entry, write

Spoil = Callable[[Path, Path], None]
REJECTED, BROKEN = 2, 5


def manifest(folder: Path, **changes: object) -> None:
    """Replace keys of a manifest."""
    path = folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _file(folder: Path) -> Path:
    return folder / "offsets-00000.parquet"


def _truncate(_: Path, after: Path) -> None:
    os.truncate(_file(after), _file(after).stat().st_size // 2)


def _truncate_and_cover(_: Path, after: Path) -> None:
    _truncate(_, after)
    manifest(after, files=[entry("offsets", _file(after), 32)])


def _alter(_: Path, after: Path) -> None:
    data = bytearray(_file(after).read_bytes())
    data[len(data) // 2] ^= 1
    _file(after).write_bytes(bytes(data))


def _remove(_: Path, after: Path) -> None:
    _file(after).unlink()


def _stray(_: Path, after: Path) -> None:
    (after / "more.parquet").write_bytes(b"")


def _no_manifest(before: Path, _: Path) -> None:
    (before / MANIFEST).unlink()


def _other_text(before: Path, _: Path) -> None:
    (before / MANIFEST).write_text("{")


def _outside(_: Path, after: Path) -> None:
    files = json.loads((after / MANIFEST).read_text())["files"]
    manifest(after, files=[{**files[0], "file": "../a/offsets-00000.parquet"}])


def _more_rows(_: Path, after: Path) -> None:
    files = json.loads((after / MANIFEST).read_text())["files"]
    manifest(after, files=[{**files[0], "rows": 99}])


def _other_cluster(_: Path, after: Path) -> None:
    manifest(after, cluster_id="cluster-b")


def _before_its_plan(_: Path, after: Path) -> None:
    manifest(after, plan={"hash": "x", "made_at_ms": TAKEN_MS + 1000})


def _backwards(before: Path, _: Path) -> None:
    manifest(before, taken_at_ms=TAKEN_MS + 60_000)


SPOILS = [
    (_truncate, BROKEN, "promises"),
    (_truncate_and_cover, BROKEN, "is not a Parquet file"),
    (_alter, BROKEN, "was altered after its manifest was written"),
    (_remove, BROKEN, "is named in the manifest and missing"),
    (_stray, BROKEN, "more.parquet is not in the manifest"),
    (_no_manifest, REJECTED, "has no manifest.json: it is not finished; take it again"),
    (_other_text, BROKEN, "is not the manifest of a cluster snapshot"),
    (_outside, BROKEN, "no plain Parquet file of its own folder"),
    (_more_rows, BROKEN, "has 32 rows where its manifest promises 99"),
    (_other_cluster, REJECTED, "different clusters ('cluster-a', 'cluster-b')"),
    (_before_its_plan, REJECTED, "before its plan of 2025-11-21 15:46:41 UTC (run ?) was made"),
    (_backwards, REJECTED, "is older than the first"),
]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two equal snapshots of 32 rows."""
    rows = {"offsets": commits()}
    return write(tmp_path / "a", rows), write(tmp_path / "b", rows)


def compared(pair: tuple[Path, Path], *more: str, move: str = "downgrade") -> int:
    """Exit code of the verb."""
    output = pair[1].parent / "out"
    return main(["compare", *map(str, pair), "--move", move, "--output", str(output), *more])


@pytest.mark.parametrize(
    ("spoil", "code", "sentence"), SPOILS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_snapshot_that_proves_nothing_is_refused(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str], spoil: Spoil, code: int, sentence: str
) -> None:
    """One sentence on standard error, the exit code of its family, no file written."""
    spoil(*pair)
    assert compared(pair) == code
    told = capsys.readouterr()
    assert sentence in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert not (pair[1].parent / "out").exists()


@pytest.mark.parametrize("groups", [[], [{"group": "g", "type": "", "state": "Dead"}]], ids=["none", "gone"])
def test_nothing_beside_nothing_is_not_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], groups: list[dict[str, object]]
) -> None:
    """A user who may see no group, or a slip in a name, proves nothing by two empty snapshots."""
    nothing: dict[str, list[dict[str, object]]] = {"offsets": [], "groups": groups}
    assert compared((write(tmp_path / "a", nothing), write(tmp_path / "b", nothing)), "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "error"
    assert "neither snapshot holds a committed offset or a group that is there" in told["incomplete"][0]
    assert told["next"].startswith("correct what the first lines name, take both snapshots again")
    there = {**nothing, "groups": [{"group": "g", "type": "classic", "state": "Empty"}]}
    again = write(tmp_path / "c", there), write(tmp_path / "d", there)
    assert main(["compare", *map(str, again), "--move", "downgrade", "--output", str(tmp_path / "o")]) == 0


def _of_other(folder: Path) -> None:
    write(folder, {"offsets": commits()})


def _of_text(folder: Path) -> None:
    folder.mkdir()
    (folder / MANIFEST).write_text("of something else")


def _of_proof(folder: Path) -> None:
    folder.mkdir()
    (folder / "verdict.json").write_text("{}")


def _of_mine(folder: Path) -> None:
    (folder / "differences").mkdir(parents=True)
    (folder / "differences" / "mine.txt").write_text("mine")


@pytest.mark.parametrize("fill", [_of_other, _of_text, _of_proof, _of_mine])
def test_a_folder_of_something_else_is_not_written_to(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str], fill: Callable[[Path], None]
) -> None:
    """Its manifest would be replaced: another snapshot would be gone for good."""
    output = pair[1].parent / "out"
    fill(output)
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    assert compared(pair) == REJECTED
    assert "which no comparison wrote: name another folder" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before


def test_one_cluster_is_not_two(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A copy to another cluster is compared between clusters only."""
    assert compared(pair, move="cluster") == REJECTED
    assert "both snapshots are of cluster 'cluster-a'" in capsys.readouterr().err


def test_a_column_of_another_type_is_named(
    tmp_path: Path, pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that lacks what it must have, though its file is whole."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = _file(pair[1])
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(3, "offset", rows["offset"].cast(pa.string())), path)
    manifest(pair[1], files=[entry("offsets", path, 32)])
    assert compared(pair) == BROKEN
    assert "column offset of" in capsys.readouterr().err
    pq.write_table(rows.drop_columns(["partition"]), path)
    manifest(pair[1], files=[entry("offsets", path, 32)])
    assert compared(pair) == BROKEN
    assert "lacks the column partition" in capsys.readouterr().err


def test_the_verb_says_what_holds_and_what_to_do(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A table for people, one JSON document for programs; equal is exit code 0."""
    assert compared(pair) == 0
    told = capsys.readouterr().out
    assert "32 and 32 rows, settled by files of the same bytes" in told
    assert "next:" in told
    assert compared(pair, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["verdict"], data["move"], data["counts"]["lost"]) == ("pass", "downgrade", 0)
    output = Path(data["output"])
    assert {entry["file"] for entry in json.loads((output / MANIFEST).read_text())["files"]} == {
        "verdict.json"
    }


def test_a_snapshot_that_lists_problems_is_not_equal_to_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What could not be read was not compared: the verdict is error, and names the group."""
    rows = {"offsets": [commit("g", 0, 1)]}
    trouble = [{"group": "g", "problem": "its coordinator did not answer"}]
    before = write(tmp_path / "a", rows)
    after = write(tmp_path / "b", {**rows, "problems": trouble})
    assert compared((before, after), "--json") == 1
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "error"
    assert data["incomplete"] == [
        "the later snapshot is not complete: group g: its coordinator did not answer"
    ]
