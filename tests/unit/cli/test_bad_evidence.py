"""Show 8: bad input of ``report``, ``verify-evidence``, ``compare --run`` and ``snapshot --run``.

One sentence that names what is wrong and what to do, the documented exit code, and the same files before
and after. Rows: B1 truncated Parquet, B2 missing manifest, B4 older than its plan, B6 disk full; the others
are in tests/spark/test_bad_input.py and tests/live/test_bad_evidence.py. What a run makes of its own
snapshots: tests/unit/moves/coordination/test_measurements.py and test_lifecycle.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.parquet.snapshots import ParquetClusterSnapshots
from groupshift.bootstrap.moves import plan_of
from groupshift.cli.main import main
from groupshift.domain.evidence import MANIFEST
from groupshift.domain.rows import ClusterState
from groupshift.domain.seal import PACK, REPORT
from support.kept_runs import SealedProcesses, sealed_processes
from support.small_disk import listing, needs_mount, small_disk

REJECTED, TRANSIENT, BROKEN = 2, 4, 5
ROOM = 400
FAR_MS = 4_102_444_800_000
"""In the year 2100."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """The evidence lies on a small disk: what kind of one."""
    with small_disk(tmp_path / "evidence", ROOM) as kind:
        yield kind


@pytest.fixture
def group(disk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SealedProcesses]:
    """A simulated group with a real journal and real evidence, where the verbs find them."""
    made = sealed_processes(tmp_path)
    monkeypatch.setenv("GROUPSHIFT_SETTINGS", str(made.file))
    yield made
    made.runs.close()


@pytest.fixture
def run(group: SealedProcesses) -> str:
    """A run that is over, sealed."""
    return group.moved()


@pytest.fixture
def pack(run: str, tmp_path: Path) -> Path:
    """The folder of its evidence."""
    return tmp_path / "evidence" / run


@pytest.fixture
def snapshot(pack: Path) -> Path:
    """The snapshot after its canary."""
    (found,) = [each.parent for each in pack.glob(f"*canary-snapshot-after*/after/{MANIFEST}")]
    return found


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said, which must be one line on standard error."""
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1), told
    return told.err.strip()


def truncated(path: Path) -> str:
    """Half of it is gone; returns its name in the evidence."""
    os.truncate(path, path.stat().st_size // 2)
    return "/".join(path.parts[-3:])


def reported(run: str, pack: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence that a report ends with, which the page that it writes says, too; no evidence changes."""
    before, copy = contents(pack), pack.parents[1] / "page.html"
    assert main(["report", run, "--output", str(copy)]) == BROKEN
    said = capsys.readouterr().err.strip()
    assert said.startswith("broken: ")
    assert "\n" not in said
    assert contents(pack) == before
    assert said.removeprefix("broken: ") in copy.read_text()
    return said


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {each: (folder / each).read_bytes() for each in listing(folder) if not (folder / each).is_dir()}


def verified(what: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of evidence that is not sound."""
    assert main(["verify-evidence", what]) == BROKEN
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "take no decision on this evidence before a person knows why" in said
    return said


def test_b1_a_truncated_snapshot(
    run: str, pack: Path, snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is written and says it; verified it is one line for the file, with and without journal."""
    name = truncated(snapshot / "offsets.parquet")
    assert name in reported(run, pack, capsys)
    before = listing(pack)
    for what in (run, f"{pack}/"):
        said = verified(what, capsys)
        assert name in said
        assert "1 altered" in said
    assert listing(pack) == before


def test_b2_a_snapshot_without_its_manifest(
    run: str, pack: Path, snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was sealed: the report says that it is gone, and so does who verifies."""
    (snapshot / MANIFEST).unlink()
    name = f"{snapshot.relative_to(pack)}/{MANIFEST}"
    assert name in reported(run, pack, capsys)
    for what in (run, f"{pack}/"):
        assert "1 missing" in verified(what, capsys)


def test_b2_verify_without_the_packs_manifest(
    run: str, pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal knows that it was sealed; a folder alone only that it is no pack."""
    (pack / PACK).unlink()
    before = listing(pack)
    assert main(["verify-evidence", run]) == BROKEN
    assert f"{PACK} of {run} is gone although it was sealed: take no decision" in one_sentence(capsys)
    assert main(["verify-evidence", f"{pack}/"]) == REJECTED
    assert f"holds no {PACK}: name the folder of one run" in one_sentence(capsys)
    assert listing(pack) == before


def planned_in_the_future(group: SealedProcesses) -> str:
    """A plan that a clock in the year 2100 made."""
    group.clock.sleep((FAR_MS - group.clock.now_ms()) / 1000)
    return group.begin(execute=False)


def test_b4_snapshot_older_than_its_plan(
    group: SealedProcesses, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A live snapshot by a clock that is behind the one which made the plan; refused before brokers are
    asked, and a plan that nobody made too."""
    run = planned_in_the_future(group)
    before = listing(tmp_path)
    arguments = ["snapshot", "--output", str(tmp_path / "s"), "--run"]
    assert main([*arguments, run]) == REJECTED
    said = one_sentence(capsys)
    assert f"snapshot {tmp_path / 's'} was taken at " in said
    assert said.endswith("was made: it says nothing about this move; take it again")
    assert main([*arguments, "m-0"]) == REJECTED
    assert "m-0" in one_sentence(capsys)
    assert listing(tmp_path) == before


def test_b4_compare_snapshots_that_are_not_of_this_plan(
    group: SealedProcesses, run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is older than the plan that is named, though it says nothing of it; one was for another plan."""
    plan = plan_of(group.settings, run)[1]
    store, at_ms = ParquetClusterSnapshots(), plan.made_at_ms
    for name, taken_at_ms, of in (
        ("old", at_ms - 1, None),
        ("new", at_ms, None),
        ("other", at_ms + 1, replace(plan, run="m-2", hash="b" * 64)),
    ):
        store.write(tmp_path / name, ClusterState(cluster_id="c", taken_at_ms=taken_at_ms), of)
    before = listing(tmp_path)

    def compared(*names: str) -> int:
        folders = [str(tmp_path / name) for name in names]
        return main(["compare", *folders, "--move", "protocol", "--run", run])

    assert compared("old", "new") == REJECTED
    said = one_sentence(capsys)
    assert f"snapshot {tmp_path / 'old'} was taken at " in said
    assert f"(run {run}) was made" in said
    assert compared("new", "other") == REJECTED
    said = one_sentence(capsys)
    assert f"snapshot {tmp_path / 'other'} was taken for the plan bbbbbbbbbbbb… of run m-2" in said
    assert f"that of run {run} is {plan.hash[:12]}…: name the snapshots of this run" in said
    assert listing(tmp_path) == before


def test_b6_a_page_on_a_full_disk(
    disk: str, group: SealedProcesses, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a run that is open: neither the page nor part of one; with room the same command ends."""
    needs_mount(disk)
    run = group.begin(soak=1)
    group.drive(run, phases=frozenset({"plan", "canary"}))
    pack = tmp_path / "evidence" / run
    before, filler = listing(pack), tmp_path / "evidence" / "filler"
    assert REPORT not in before
    fill(filler)
    full_disk(run, pack, before, capsys)
    filler.unlink()
    assert main(["report", run]) == 0
    assert listing(pack) == sorted([*before, REPORT])


def test_b6_a_report_on_a_full_disk(
    disk: str, run: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pack is as it was sealed, and with room the same command seals it again."""
    needs_mount(disk)
    (pack / "consumption").mkdir()
    (pack / "consumption" / "audit.json").write_text('{"verdict": "pass"}')
    before, filler = contents(pack), tmp_path / "evidence" / "filler"
    fill(filler)
    full_disk(run, pack, listing(pack), capsys, "--audit")
    assert contents(pack) == before
    assert main(["verify-evidence", run]) == 0
    filler.unlink()
    assert main(["report", run, "--audit"]) == 0
    assert main(["verify-evidence", run]) == 0
    assert b"audit.json" in contents(pack)[PACK]


def full_disk(
    run: str, pack: Path, before: list[str], capsys: pytest.CaptureFixture[str], *more: str
) -> None:
    """A report says in one sentence that there is no room, and leaves what is there."""
    capsys.readouterr()
    assert main(["report", run, *more]) == TRANSIENT
    said = one_sentence(capsys)
    assert said.startswith(f"transient: evidence below {pack} cannot be written (")
    assert said.endswith("nothing of it was left: make room, then run the same command again")
    assert listing(pack) == before


def test_b6_an_output_on_a_full_disk(
    disk: str, run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither page nor part of one."""
    needs_mount(disk)
    with small_disk(tmp_path / "elsewhere", 1):
        output = tmp_path / "elsewhere" / "page.html"
        capsys.readouterr()
        assert main(["report", run, "--output", str(output)]) == TRANSIENT
        assert f"--output {output} cannot be written (" in one_sentence(capsys)
        assert listing(tmp_path / "elsewhere") == []
    assert main(["report", run]) == 0


def fill(path: Path) -> None:
    """Take what is left of the disk."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return
