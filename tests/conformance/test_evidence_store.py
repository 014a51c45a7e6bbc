"""The evidence port: what every store of snapshots promises."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from groupshift.adapters.parquet.compare_inputs import verify
from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.domain.evidence import FORM, MANIFEST, Moment, SnapshotOf
from groupshift.domain.snapshot import TABLES
from groupshift.errors import Broken, Rejected
from groupshift.ports.evidence import EvidenceStore
from groupshift_testing.evidence import MemoryEvidence

WHERE = ("run-1", "canary", Moment.BEFORE)
LOG_ENDS = [
    {"topic": "orders", "partition": 0, "log_start": 0, "log_end": 2**40},
    {"topic": "orders", "partition": 1, "log_start": 3, "log_end": 9},
]
OWNER = {
    "topic": "orders",
    "partition": 0,
    "store": "kafka",
    "member_id": "app-1",
    "thread_id": None,
    "czxid": None,
    "session_id": None,
}


@pytest.fixture
def store(tmp_path: Path) -> ParquetEvidence:
    """A store in an empty folder."""
    return ParquetEvidence(tmp_path / "evidence")


@pytest.fixture(params=["parquet", "memory"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> EvidenceStore:
    """Every store that the port has, empty."""
    return ParquetEvidence(tmp_path / "evidence") if request.param == "parquet" else MemoryEvidence()


def test_a_snapshot_is_what_was_written_last(any_store: EvidenceStore) -> None:
    """With its rows, its manifest and another digest than the one it replaced."""
    first = any_store.write(WHERE, 42, {"log_ends": LOG_ENDS})
    second = any_store.write(WHERE, 43, {"log_ends": LOG_ENDS[:1], "owners": [OWNER]})
    assert first.digest != second.digest
    assert any_store.manifest(*WHERE) == second
    assert any_store.read(*WHERE)["log_ends"] == LOG_ENDS[:1]
    assert any_store.read(*WHERE)["owners"] == [OWNER]
    assert (second.run, second.phase, second.moment, second.taken_at_ms) == (*WHERE, 43)
    rows = {entry.table: entry.rows for entry in second.files}
    assert rows == {name: {"log_ends": 1, "owners": 1}.get(name, 0) for name in TABLES}


def test_a_snapshot_that_was_never_taken_is_none(any_store: EvidenceStore) -> None:
    """Reading one is refused; another moment of the same phase is another snapshot."""
    any_store.write(WHERE, 42, {})
    assert any_store.manifest("run-1", "canary", Moment.AFTER) is None
    with pytest.raises(Rejected, match="there is no snapshot"):
        any_store.read("run-1", "canary", Moment.AFTER)


def folder(store: ParquetEvidence) -> Path:
    """The snapshot's folder."""
    return Path(store.path("run-1", "canary", "before"))


def test_what_was_written_is_read_back(store: ParquetEvidence) -> None:
    """Every table is there, with 64-bit offsets and nulls as they were."""
    written = store.write(WHERE, 42, {"log_ends": LOG_ENDS, "owners": [OWNER]})
    tables = store.read(*WHERE)
    assert set(tables) == set(TABLES)
    assert tables["log_ends"] == LOG_ENDS
    assert tables["owners"] == [OWNER]
    assert tables["members"] == []
    assert store.manifest(*WHERE) == written
    assert (written.taken_at_ms, written.run, written.phase) == (42, "run-1", "canary")


def test_the_manifest_names_rows_bytes_and_hash_of_each_file(store: ParquetEvidence) -> None:
    """Checked against the files themselves; the digest is that of the manifest's bytes."""
    manifest = store.write(WHERE, 42, {"log_ends": LOG_ENDS})
    assert {entry.table for entry in manifest.files} == set(TABLES)
    for entry in manifest.files:
        data = (folder(store) / entry.file).read_bytes()
        assert (entry.bytes, entry.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert entry.rows == (2 if entry.table == "log_ends" else 0)
    assert manifest.digest == hashlib.sha256((folder(store) / MANIFEST).read_bytes()).hexdigest()
    assert set(manifest.versions) == {"groupshift", "pyarrow", "python"}


def test_without_a_snapshot_there_is_no_manifest(store: ParquetEvidence) -> None:
    """Reading one is refused with what to do."""
    assert store.manifest(*WHERE) is None
    with pytest.raises(Rejected, match="take it first"):
        store.read(*WHERE)


def test_a_writer_killed_before_the_manifest_leaves_no_snapshot(store: ParquetEvidence) -> None:
    """Files without a manifest are nothing."""
    store.write(WHERE, 42, {"log_ends": LOG_ENDS})
    (folder(store) / MANIFEST).unlink()
    assert store.manifest(*WHERE) is None


def test_writing_again_replaces_the_snapshot(store: ParquetEvidence) -> None:
    """The second one holds, whole, and nothing half-written lies about."""
    first = store.write(WHERE, 42, {"log_ends": LOG_ENDS})
    second = store.write(WHERE, 43, {"log_ends": LOG_ENDS[:1]})
    assert first.digest != second.digest
    assert store.read(*WHERE)["log_ends"] == LOG_ENDS[:1]
    names = {path.name for path in folder(store).iterdir()}
    assert names == {MANIFEST, *(f"{name}.parquet" for name in TABLES)}


def test_an_altered_file_is_broken_and_named_with_both_hashes(store: ParquetEvidence) -> None:
    """One flipped bit is enough, for the manifest as for the rows."""
    manifest = store.write(WHERE, 42, {"log_ends": LOG_ENDS})
    path = folder(store) / "log_ends.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    expected = next(entry.sha256 for entry in manifest.files if entry.table == "log_ends")
    for ask in (store.manifest, store.read):
        with pytest.raises(Broken) as caught:
            ask(*WHERE)
        assert str(path) in str(caught.value)
        assert expected in str(caught.value)
        assert hashlib.sha256(data).hexdigest() in str(caught.value)


def test_a_missing_file_is_broken_and_named(store: ParquetEvidence) -> None:
    """A table cannot go away unnoticed."""
    store.write(WHERE, 42, {})
    (folder(store) / "members.parquet").unlink()
    with pytest.raises(Broken, match=r"members\.parquet is gone"):
        store.manifest(*WHERE)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("files"),
        lambda document: document["files"].pop(),
        lambda document: document.update(moment="later"),
    ],
)
def test_an_altered_manifest_is_broken(store: ParquetEvidence, change) -> None:
    """One that lacks what every manifest has is not taken for another format."""
    store.write(WHERE, 42, {})
    path = folder(store) / MANIFEST
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(Broken, match="it was altered"):
        store.manifest(*WHERE)


def test_a_snapshot_copied_from_elsewhere_is_broken(store: ParquetEvidence) -> None:
    """A manifest says what it is of."""
    store.write(WHERE, 42, {})
    other = Path(store.path("run-1", "toggle", "before"))
    other.parent.mkdir()
    folder(store).rename(other)
    with pytest.raises(Broken, match="copied"):
        store.manifest("run-1", "toggle", Moment.BEFORE)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"log_ends": [{"topic": "orders"}]}, "log_ends"),
        ({"log_ends": [LOG_ENDS[0] | {"log_end": "many"}]}, "log_ends"),
        ({"log_ends": [LOG_ENDS[0] | {"log_end": None}]}, "log_end"),
        ({"log_ends": [LOG_ENDS[0] | {"partition": 2**31}]}, "log_ends"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_written(
    store: ParquetEvidence, tables, said: str
) -> None:
    """The sentence names the table; an earlier snapshot stays."""
    before = store.write(WHERE, 42, {"log_ends": LOG_ENDS})
    with pytest.raises(Rejected, match=said):
        store.write(WHERE, 43, tables)
    assert store.manifest(*WHERE) == before


@pytest.mark.parametrize("part", ["", "..", "a/b", "a\\b"])
def test_a_path_stays_below_its_root(store: ParquetEvidence, part: str) -> None:
    """A run or phase is one plain name."""
    with pytest.raises(Rejected, match="plain name"):
        store.path(part, "canary")


@pytest.mark.parametrize("name", ["../escaped.txt", "a\\b", ".."])
def test_a_text_is_not_written_under_a_name_that_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing lies there after it, neither inside nor outside."""
    with pytest.raises(Rejected, match="plain name"):
        ParquetEvidence(tmp_path / "evidence").write_text("m", name, text="x")
    assert not list(tmp_path.rglob("*"))


def test_a_root_may_be_a_uri(tmp_path: Path) -> None:
    """What Arrow opens: here its own local file system, named by a URI."""
    root = f"file://{tmp_path}/evidence"
    store = ParquetEvidence(root)
    store.write(WHERE, 42, {"log_ends": LOG_ENDS})
    assert store.read(*WHERE)["log_ends"] == LOG_ENDS
    assert store.path("run-1", "canary") == f"{root}/run-1/canary"


def test_a_small_text_is_read_back_and_a_missing_one_is_none(store: ParquetEvidence) -> None:
    """Rules and verdicts live beside the snapshots; rewriting replaces the whole text."""
    assert store.read_text("run-1", "canary", "validation-after", "verdict.json") is None
    for text in ("a longer first text", "{}"):
        path = store.write_text("run-1", "canary", "validation-after", "rules.json", text=text)
        assert Path(path).read_text() == text
        assert store.read_text("run-1", "canary", "validation-after", "rules.json") == text


def test_every_file_is_listed_and_measured(any_store: EvidenceStore) -> None:
    """Relative paths of snapshots and texts alike; size and SHA-256 of what is there now."""
    assert any_store.files("run-1") == ()
    manifest = any_store.write(WHERE, 42, {"log_ends": LOG_ENDS})
    any_store.write_text("run-1", "canary", "validation-after", "verdict.json", text="{}")
    any_store.write_text("mig-2", "other.json", text="{}")
    paths = any_store.files("run-1")
    assert paths == tuple(sorted(paths))
    assert "canary/validation-after/verdict.json" in paths
    assert len(paths) == len(TABLES) + 2
    measured = any_store.measured("run-1", f"canary/before/{MANIFEST}")
    assert measured is not None
    assert measured.sha256 == manifest.digest
    text = any_store.measured("run-1", "canary/validation-after/verdict.json")
    assert text is not None
    assert (text.bytes, text.sha256) == (2, hashlib.sha256(b"{}").hexdigest())
    assert any_store.measured("run-1", "canary/absent") is None


def test_rows_of_a_derived_table_are_read_or_absent(store: ParquetEvidence) -> None:
    """A torn file is broken evidence, not an empty table."""
    assert store.rows("run-1", "canary", "differences.parquet") is None
    store.write(WHERE, 42, {"log_ends": LOG_ENDS})
    assert store.rows("run-1", "canary", "before", "log_ends.parquet") == LOG_ENDS
    path = folder(store) / "log_ends.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(Broken, match=r"log_ends\.parquet cannot be read"):
        store.rows("run-1", "canary", "before", "log_ends.parquet")


def test_a_snapshot_of_a_newer_release_is_refused(store: ParquetEvidence) -> None:
    """By the store and by the job; its form and what to do are named, nothing is called altered."""
    folder = Path(store.path("run-1", "canary", "before"))
    store.write(("run-1", "canary", Moment.BEFORE), 5, {})
    path = folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": FORM + 1}))
    with pytest.raises(Rejected, match=f"is of form {FORM + 1}, this release reads forms up to {FORM}"):
        store.manifest("run-1", "canary", Moment.BEFORE)
    with pytest.raises(Rejected, match="use the release that wrote it, or a newer one"):
        verify(folder, of=SnapshotOf.GROUP)
