"""Show 8: bad input of ``report``, ``verify-evidence``, ``validate`` and ``snapshot --migration``.

One sentence that names what is wrong and what to do, the documented exit code, and the same files before
and after. Rows: B1 truncated Parquet, B2 missing manifest, B4 older than its plan, B6 disk full; the others
are in tests/spark/test_bad_input.py and tests/live/test_bad_evidence.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.parquet.snapshots import ParquetClusterSnapshots
from groupshift.bootstrap import App
from groupshift.cli import compare, evidence, snapshot, verbs
from groupshift.cli.main import main
from groupshift.domain.evidence import MANIFEST
from groupshift.domain.plan import Until
from groupshift.domain.rows import ClusterState
from groupshift.settings import Settings, parse
from support.disk_evidence import disk_bench
from support.simulated_move import Bench
from support.small_disk import listing, needs_mount, small_disk

REJECTED, TRANSIENT, BROKEN = 2, 4, 5
ROOM = 400
SECTIONS = {
    "kafka": {"bootstrap_servers": "127.0.0.1:1"},
    "zookeeper": {"hosts": "127.0.0.1:1"},
    "fleet": {"driver": "manual"},
    "journal": {"url": "sqlite://"},
    "evidence": {"root": "/e"},
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """The evidence lies on a small disk: what kind of one."""
    with small_disk(tmp_path / "evidence", ROOM) as kind:
        yield kind


@pytest.fixture
def bench(disk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The verbs over a simulated group with real evidence."""
    made = disk_bench(tmp_path / "evidence")

    def opened(_path: Path | None) -> tuple[App, Settings]:
        return made.app(), parse(SECTIONS)

    for module in (evidence, compare, snapshot, verbs):
        monkeypatch.setattr(module, "open_app", opened)
    monkeypatch.setattr(snapshot, "settings", lambda _path: parse(SECTIONS))
    return made


@pytest.fixture
def migration(bench: Bench) -> str:
    """A finished move, sealed."""
    return bench.move(Until.CANARY)[0]


@pytest.fixture
def pack(migration: str, tmp_path: Path) -> Path:
    """The folder of its evidence."""
    return tmp_path / "evidence" / migration


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said, which must be one line on standard error."""
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1), told
    return told.err.strip()


def truncated(path: Path) -> Path:
    """Half of it is gone."""
    os.truncate(path, path.stat().st_size // 2)
    return path


def test_b1_report_and_validate_of_a_truncated_snapshot(
    migration: str, pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is judged; the report is written and says it. Both name the file and what not to do."""
    path = truncated(pack / "canary" / "after" / "offsets.parquet")
    before = listing(pack)
    assert main(["validate", migration, "canary", "after"]) == BROKEN
    assert_altered(one_sentence(capsys), path)
    assert listing(pack) == before
    assert main(["report", migration, "--output", str(pack.parent / "page.html")]) == BROKEN
    assert_altered(capsys.readouterr().err.strip(), path)
    assert listing(pack) == sorted({*before, "report.html"})
    assert f"{path} has SHA-256" in (pack.parent / "page.html").read_text()


def assert_altered(said: str, path: Path) -> None:
    """The sentence about a file that is another one."""
    assert said.startswith(f"broken: evidence file {path} has SHA-256 ")
    assert said.endswith("take no decision on this snapshot")
    assert "\n" not in said


def test_b1_verify_a_pack_with_a_truncated_snapshot(
    migration: str, pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line for the file, whether the journal is there or not."""
    truncated(pack / "canary" / "after" / "offsets.parquet")
    before = listing(pack)
    for what in (migration, f"{pack}/"):
        assert main(["verify-evidence", what]) == BROKEN
        said = " ".join(capsys.readouterr().out.split())
        assert "canary/after/offsets.parquet" in said
        assert "1 altered" in said
        assert "take no decision on this evidence before a person knows why" in said
    assert listing(pack) == before


def test_b2_report_and_validate_without_a_snapshots_manifest(
    migration: str, pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot without one is none: nothing is judged, and the report says so."""
    (pack / "canary" / "after" / MANIFEST).unlink()
    before = listing(pack)
    wanted = f"there is no snapshot after of stage canary of migration {migration}"
    assert main(["validate", migration, "canary", "after"]) == REJECTED
    said = one_sentence(capsys)
    assert wanted in said
    assert said.endswith("take it first")
    assert listing(pack) == before
    assert main(["report", migration]) == BROKEN
    assert wanted in capsys.readouterr().err
    assert wanted in (pack / "report.html").read_text()


def test_b2_verify_without_the_packs_manifest(
    migration: str, pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal knows that it was sealed; a folder alone only that it is no pack."""
    (pack / "pack.json").unlink()
    before = listing(pack)
    assert main(["verify-evidence", migration]) == BROKEN
    assert f"pack.json of {migration} is gone although it was sealed: take no decision" in one_sentence(
        capsys
    )
    assert main(["verify-evidence", f"{pack}/"]) == REJECTED
    assert "holds no pack.json: name the folder of one migration" in one_sentence(capsys)
    assert listing(pack) == before


def test_b4_validate_a_snapshot_older_than_its_plan(
    bench: Bench, migration: str, pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal says when the plan was made; a snapshot from before that says nothing of this move."""
    later(bench, migration)
    before = listing(pack)
    assert main(["validate", migration, "canary", "after"]) == REJECTED
    said = one_sentence(capsys)
    assert "snapshot canary/before was taken at " in said
    assert f"(run {migration}) was made: it says nothing about this move; take it again" in said
    assert listing(pack) == before


def test_b4_snapshot_older_than_its_plan(
    bench: Bench, migration: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A live snapshot by a clock that is behind the one which made the plan; refused before brokers are
    asked, and a plan that nobody made too."""
    later(bench, migration)
    before = listing(tmp_path)
    arguments = ["snapshot", "--output", str(tmp_path / "s"), "--migration"]
    assert main([*arguments, migration]) == REJECTED
    said = one_sentence(capsys)
    assert f"snapshot {tmp_path / 's'} was taken at " in said
    assert said.endswith("was made: it says nothing about this move; take it again")
    assert main([*arguments, "m-0"]) == REJECTED
    assert "m-0" in one_sentence(capsys)
    assert listing(tmp_path) == before


def later(bench: Bench, migration: str) -> None:
    """Let the journal say that the plan was made in the year 2100."""
    found = bench.journal.find(migration)
    bench.journal._records[migration] = replace(found, created_at_ms=4_102_444_800_000)


def test_b6_report_on_a_full_disk(
    disk: str, migration: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither page nor part of one; the pack is as it was sealed, and with room the same command ends."""
    needs_mount(disk)
    filler = tmp_path / "evidence" / "filler"
    before = listing(pack)
    fill(filler)
    assert main(["report", migration]) == TRANSIENT
    said = one_sentence(capsys)
    assert said.startswith(f"transient: evidence below {pack} cannot be written (")
    assert said.endswith("nothing of it was left: make room, then run the same command again")
    assert listing(pack) == before
    assert main(["verify-evidence", migration]) == 0
    filler.unlink()
    capsys.readouterr()
    with small_disk(tmp_path / "elsewhere", 1):
        output = tmp_path / "elsewhere" / "page.html"
        assert main(["report", migration, "--output", str(output)]) == TRANSIENT
        assert f"--output {output} cannot be written (" in one_sentence(capsys)
        assert listing(tmp_path / "elsewhere") == []
    assert main(["report", migration]) == 0


def fill(path: Path) -> None:
    """Take what is left of the disk."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def test_b4_compare_snapshots_that_are_not_of_this_plan(
    bench: Bench, migration: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is older than the plan that is named, though it says nothing of it; one was for another plan."""
    plan = bench.app().plan_of(migration)[1]
    store, at_ms = ParquetClusterSnapshots(), plan.made_at_ms
    for name, taken_at_ms, of in (
        ("old", at_ms - 1, None),
        ("new", at_ms, None),
        ("other", at_ms + 1, replace(plan, migration="m-2", hash="b" * 64)),
    ):
        store.write(tmp_path / name, ClusterState(cluster_id="c", taken_at_ms=taken_at_ms), of)
    before = listing(tmp_path)

    def compared(*names: str) -> int:
        folders = [str(tmp_path / name) for name in names]
        return main(["compare", *folders, "--move", "protocol", "--migration", migration])

    assert compared("old", "new") == REJECTED
    said = one_sentence(capsys)
    assert f"snapshot {tmp_path / 'old'} was taken at " in said
    assert f"(migration {migration}) was made" in said
    assert compared("new", "other") == REJECTED
    said = one_sentence(capsys)
    assert f"snapshot {tmp_path / 'other'} was taken for the plan bbbbbbbbbbbb… of migration m-2" in said
    assert f"that of migration {migration} is {plan.hash[:12]}…: name the snapshots of this migration" in said
    assert listing(tmp_path) == before
