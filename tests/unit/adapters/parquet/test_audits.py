"""Audits as folders: whole or not at all, and read back."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groupshift.adapters.parquet.audits import ParquetAudits
from groupshift.audit.offsets import Audit, Looked, Mismatch
from groupshift.audit.rules import Weight
from groupshift.errors import Broken, Rejected, Transient

ROW = Mismatch(
    group="g",
    topic="t",
    partition=3,
    kind="stores diverge",
    weight=Weight.MISMATCH,
    rule="A33",
    reason="they differ",
    remedy="look",
    answered=7,
    logged=7,
    zookeeper=5,
    mode="kafka",
    log_partition=1,
    log_offset=99,
    foreign_partition=None,
    foreign_offset=None,
    log_end=8,
)
AUDIT = Audit(
    began_ms=1,
    ended_ms=2,
    cluster_id="c",
    zookeeper=True,
    retention_ms=None,
    looked=Looked(keys=9, mismatches=(ROW,), problems=("p",)),
)
PAGE = "<h1>Audit</h1>"


def test_an_audit_is_kept_with_its_rows_counts_and_hash(tmp_path: Path) -> None:
    """The folder holds all three files and nothing beside it is left."""
    folder = tmp_path / "audits" / "one"
    ParquetAudits().write(str(folder), AUDIT, PAGE)
    (row,) = pq.read_table(folder / "differences.parquet").to_pylist()
    assert (row["group"], row["partition"], row["kind"], row["zookeeper"]) == ("g", 3, "stores diverge", 5)
    told = ParquetAudits().summary(str(folder))
    assert (told["clean"], told["keys"], told["kinds"]) == (False, 9, {"stores diverge": 1})
    assert told["weights"] == {"explained": 0, "unknown": 0, "mismatch": 1}
    data = (folder / "differences.parquet").read_bytes()
    assert told["files"][0]["sha256"] == hashlib.sha256(data).hexdigest()
    assert (folder / "report.html").read_text() == PAGE
    assert [each.name for each in folder.parent.iterdir()] == ["one"]


def test_an_audit_is_kept_below_a_uri_too(tmp_path: Path) -> None:
    """Any file system that Arrow opens; an unknown scheme is one sentence."""
    where = f"file://{tmp_path}/one"
    ParquetAudits().write(where, AUDIT, PAGE)
    assert ParquetAudits().summary(where)["keys"] == 9
    with pytest.raises(Rejected, match="never overwritten"):
        ParquetAudits().write(where, AUDIT, PAGE)
    with pytest.raises(Rejected, match="a folder or a URI that Arrow knows"):
        ParquetAudits().refuse("odd://x/one")


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    """A folder with something in it, or a file; an empty folder will do."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("a")
    for name in ("full", "full/a"):
        with pytest.raises(Rejected, match="never overwritten"):
            ParquetAudits().write(str(tmp_path / name), AUDIT, PAGE)
    (tmp_path / "empty").mkdir()
    ParquetAudits().write(str(tmp_path / "empty"), AUDIT, PAGE)
    assert ParquetAudits().summary(str(tmp_path / "empty"))["agreeing"] == 8


def test_a_folder_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at the second file: one sentence, and no half audit."""
    whole = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "manifest.json":
            raise OSError(28, "No space left on device")
        return whole(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(Transient, match="No space left on device"):
        ParquetAudits().write(str(tmp_path / "one"), AUDIT, PAGE)
    assert list(tmp_path.iterdir()) == []


def test_a_summary_that_is_not_there_or_altered_is_one_sentence(tmp_path: Path) -> None:
    """Rejected where there is no audit, broken where it cannot be read."""
    with pytest.raises(Rejected, match="there is no audit in"):
        ParquetAudits().summary(str(tmp_path / "none"))
    ParquetAudits().write(str(tmp_path / "one"), AUDIT, PAGE)
    manifest = tmp_path / "one" / "manifest.json"
    manifest.write_text(json.dumps(AUDIT.began_ms)[:-1] + "{")
    with pytest.raises(Broken, match="no longer what was written"):
        ParquetAudits().summary(str(tmp_path / "one"))


def test_an_audit_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """Every field; rows that were changed since are refused."""
    folder = tmp_path / "one"
    ParquetAudits().write(str(folder), AUDIT, PAGE)
    assert ParquetAudits().read(str(folder)) == AUDIT
    with pytest.raises(Rejected, match="there is no audit"):
        ParquetAudits().read(str(tmp_path / "two"))
    rows = folder / "differences.parquet"
    rows.write_bytes(rows.read_bytes() + b"x")
    with pytest.raises(Broken, match="no longer what was written"):
        ParquetAudits().read(str(folder))
    rows.unlink()
    with pytest.raises(Broken, match="no longer what was written"):
        ParquetAudits().read(str(folder))


def test_the_audits_below_a_root_are_named(tmp_path: Path) -> None:
    """Folders with a manifest right below it, and nothing else; none where the root is not there."""
    for name in ("b", "a"):
        ParquetAudits().write(str(tmp_path / "audits" / name), AUDIT, PAGE)
    (tmp_path / "audits" / "empty").mkdir()
    ParquetAudits().write(str(tmp_path / "audits" / "empty" / "deep"), AUDIT, PAGE)
    for root in (str(tmp_path / "audits"), f"{tmp_path}/audits/", f"file://{tmp_path}/audits"):
        assert ParquetAudits().names(root) == ("a", "b")
    assert ParquetAudits().names(str(tmp_path / "none")) == ()


@pytest.mark.parametrize("keys", [None, "x", [1], True, -1])
def test_a_count_of_keys_that_is_none_is_refused_where_it_is_read(tmp_path: Path, keys: object) -> None:
    """Not where a page is made of it: how many agree is counted from it."""
    ParquetAudits().write(str(tmp_path / "one"), AUDIT, PAGE)
    manifest = tmp_path / "one" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "keys": keys}))
    with pytest.raises(Broken, match="no longer what was written"):
        ParquetAudits().read(str(tmp_path / "one"))
