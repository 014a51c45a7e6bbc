"""Files that a person hands to the jobs: what cannot be read is a sentence, and nobody waits for a pipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groupshift.errors import Broken, GroupshiftError, Rejected
from groupshift.jobs import read_coordinator_log, validate
from groupshift.spark import consumption
from support.named_pipe import named_pipe

pytestmark = pytest.mark.timeout(20)
READERS: dict[str, Callable[[Path], object]] = {
    "--rules": validate.read_rules,
    "--up-to": read_coordinator_log._position,
}
NEW = [(reader, what) for reader in READERS for what in ("pipe", "deep")]
NEW += [("--rules", what) for what in ("folder", "number", "twice")]
KNOWN = [("--up-to", what) for what in ("folder", "no utf-8", "number", "twice")]
KNOWN += [("--rules", "no utf-8")]


def odd(path: Path, what: str) -> Path:
    """Put it there."""
    if what == "pipe":
        named_pipe(path)
    elif what == "folder":
        path.mkdir()
    else:
        texts = {"deep": b'{"a": ' * 100_000, "no utf-8": b"\xff\xfe\xff", "number": b'{"a": [1, 1e999]}'}
        path.write_bytes(texts.get(what, b'{"a": [1, 2], "a": [3, 4]}'))
    return path


@pytest.mark.parametrize(("reader", "what"), NEW)
def test_s13_an_option_that_names_no_json_is_one_sentence(reader: str, what: str, tmp_path: Path) -> None:
    """Whatever lies there."""
    refused_by(reader, what, tmp_path)


@pytest.mark.parametrize(("reader", "what"), KNOWN)
def test_an_option_that_names_other_bytes_is_one_sentence(reader: str, what: str, tmp_path: Path) -> None:
    """Likewise what was told before."""
    refused_by(reader, what, tmp_path)


def refused_by(reader: str, what: str, tmp_path: Path) -> None:
    """One line with the path."""
    path = odd(tmp_path / "given", what)
    with pytest.raises(Rejected) as refused:
        READERS[reader](path)
    assert (str(path) in str(refused.value), "\n" in str(refused.value)) == (True, False)


@pytest.mark.parametrize("what", ["pipe", "folder", "deep"])
def test_s13_a_ledger_or_log_that_cannot_be_read_is_one_sentence(what: str, tmp_path: Path) -> None:
    """A pipe is not waited for; a last line that nobody can read is a torn one."""
    odd(tmp_path / "one.jsonl", what)
    if what == "deep":
        assert consumption.torn_ledgers(tmp_path) == ("one.jsonl",)
        return
    with pytest.raises(Broken, match=r"one\.jsonl cannot be read"):
        consumption.torn_ledgers(tmp_path)
    odd(tmp_path / "log.1", what)
    with pytest.raises(GroupshiftError, match="no ZooKeeper transaction log"):
        consumption.read_log(tmp_path, "g")


def test_only_the_last_line_of_a_ledger_is_torn(tmp_path: Path) -> None:
    """Complete ones, also without a line end, are none."""
    for name, text in (("a", '{"x": 1}\n{"y"'), ("b", '{"x": 1}\n{"y": 2}'), ("c", '{"x": 1}\n'), ("d", "")):
        (tmp_path / f"{name}.jsonl").write_text(text)
    assert consumption.torn_ledgers(tmp_path) == ("a.jsonl",)


APPLE_DOUBLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X  \x00\n{"


def test_f11_what_a_desktop_leaves_is_no_ledger_and_no_part_of_a_dump(tmp_path: Path) -> None:
    """Spark itself passes such files by."""
    pq.write_table(pa.table({"key": [b"k"]}), tmp_path / "part.parquet")
    (tmp_path / "one.jsonl").write_text('{"x": 1}\n')
    (tmp_path / "__MACOSX").mkdir()
    for name in ("._part.parquet", "__MACOSX/._part.parquet", "._one.jsonl"):
        (tmp_path / name).write_bytes(APPLE_DOUBLE)
    assert consumption.torn_ledgers(tmp_path) == ()
    read_coordinator_log._whole(str(tmp_path))


def test_f11_what_a_desktop_leaves_in_a_snapshot_is_beside_it(tmp_path: Path) -> None:
    """A file that the manifest does not name and a person put there is refused as ever."""
    from groupshift.adapters.parquet.compare_inputs import verify
    from groupshift.adapters.parquet.snapshots import ParquetClusterSnapshots
    from groupshift.domain.rows import ClusterState

    folder = tmp_path / "snapshot"
    ParquetClusterSnapshots().write(folder, ClusterState(cluster_id="c", taken_at_ms=1))
    (folder / "._offsets-0.parquet").write_bytes(APPLE_DOUBLE)
    verify(folder)
    (folder / "more.parquet").write_bytes(b"")
    with pytest.raises(Broken, match=r"more\.parquet is not in the manifest"):
        verify(folder)
