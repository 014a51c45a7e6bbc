"""``groupshift report``: the page of a run, sealed when it is over, and what of its evidence is altered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from groupshift.cli.main import main
from groupshift.ports.runs import EventKind
from support.toy_bench import ToyBench, document, toy_bench, words

REJECTED, BROKEN = 2, 5


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyBench:
    """The command line over a toy."""
    return toy_bench(monkeypatch, tmp_path)


def finished(bench: ToyBench) -> Path:
    """The folder of the evidence of a run that went to its end."""
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes") == 0
    return bench.folder / "evidence" / bench.run


def sealings(bench: ToyBench) -> int:
    """How often the run was sealed."""
    runs = bench.runs()
    try:
        return sum(each.kind is EventKind.SEALED for each in runs.events(bench.run))
    finally:
        runs.close()


def test_the_page_is_sealed_with_the_run_and_left_alone(
    bench: ToyBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what became of it; a copy is written where somebody wants one; the next command verifies."""
    page, copy = finished(bench) / "report.html", tmp_path / "copy.html"
    sealed = page.read_text()
    for part in ("the toy is green", "Steps there", "Who decided", "toy of", "Colour", "finalised"):
        assert part in sealed, part
    capsys.readouterr()
    assert bench.call("report", bench.run, "--output", str(copy)) == 0
    said = capsys.readouterr().out
    assert str(copy) in words(said).replace(" ", "")
    assert said.splitlines()[-1].startswith(f"next: groupshift verify-evidence {bench.run}")
    assert (page.read_text(), copy.read_text(), sealings(bench)) == (sealed, sealed, 1)
    assert bench.call("report", bench.run, "--json") == 0
    found = document(capsys.readouterr().out)
    assert (found["report"], found["sealed"], found["troubles"]) == (str(page), True, [])
    assert bench.call("verify-evidence", bench.run) == 0


def test_a_page_that_cannot_be_made_keeps_no_run_open(
    bench: ToyBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends and is sealed; the next report makes the page and seals it, too."""

    def fails(*_what: object) -> object:
        raise KeyError("store")

    with monkeypatch.context() as broken:
        broken.setattr("groupshift.bootstrap.moves.page_of", fails)
        folder = finished(bench)
    assert (sealings(bench), (folder / "report.html").exists()) == (1, False)
    assert bench.call("report", bench.run) == 0
    assert (sealings(bench), (folder / "report.html").exists()) == (2, True)


def test_a_page_that_was_altered_is_not_shown(
    bench: ToyBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal still tells what became of the run; the file is named."""
    page, copy = finished(bench) / "report.html", tmp_path / "copy.html"
    page.write_text("<h1>all is well</h1>")
    capsys.readouterr()
    assert bench.call("report", bench.run, "--output", str(copy)) == BROKEN
    assert "report.html" in capsys.readouterr().err
    assert "all is well" not in copy.read_text()
    assert "the toy is green" in copy.read_text()
    assert page.read_text() == "<h1>all is well</h1>"


def test_an_output_that_cannot_be_written_leaves_nothing(
    bench: ToyBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence with the option and the remedy."""
    finished(bench)
    capsys.readouterr()
    assert bench.call("report", bench.run, "--output", str(tmp_path / "absent" / "r.html")) == REJECTED
    said = capsys.readouterr().err
    assert "--output" in said
    assert "name a place that can" in said
    assert not (tmp_path / "absent").exists()


def test_an_open_run_has_a_page_whenever_it_is_asked_for(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what it waits for, and nothing of it is sealed."""
    assert bench.call("toy", "run", *bench.request(), "--execute") == 6
    capsys.readouterr()
    assert bench.call("report", bench.run, "--json") == 0
    found = document(capsys.readouterr().out)
    page = bench.folder / "evidence" / bench.run / "report.html"
    assert (found["report"], found["sealed"]) == (str(page), False)
    assert found["next"].startswith(f"groupshift continue {bench.run}")
    assert "waits for an answer" in page.read_text()
    assert bench.call("toy", "plan", *bench.request()) == 0
    assert bench.call("report", bench.run, "--json") == 0
    assert document(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))["report"] == ""


def test_an_audit_becomes_evidence_when_it_is_taken_up(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until then nothing is known of it; afterwards the page is sealed once more, and everything is sound."""
    folder = finished(bench)
    (folder / "consumption").mkdir()
    (folder / "consumption" / "audit.json").write_text("{}")
    assert bench.call("report", bench.run) == BROKEN
    assert "consumption/audit.json" in capsys.readouterr().err
    bench.clock.sleep(1)
    assert bench.call("report", bench.run, "--audit") == 0
    assert sealings(bench) == 2
    assert bench.call("verify-evidence", bench.run) == 0
    assert bench.call("report", bench.run) == 0
    assert sealings(bench) == 2


def test_evidence_of_a_folder_is_verified_by_that_folder(
    bench: ToyBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --state there are no settings to verify with: the next command names the folder."""
    folder, state = finished(bench), tmp_path / "state"
    state.mkdir()
    shutil.copy(bench.folder / "journal.db", state / "journal.db")
    shutil.copytree(folder.parent, state / "evidence")
    capsys.readouterr()
    assert main(["report", bench.run, "--state", str(state)]) == 0
    following = capsys.readouterr().out.splitlines()[-1]
    assert following == f"next: groupshift verify-evidence {state / 'evidence' / bench.run}"
    assert main(following.removeprefix("next: groupshift ").split()) == 0
