"""While two engines are in use: each run is found by its name, whichever engine drives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.cli import evidence, verbs
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Phase, WayBack
from groupshift.settings import Settings, load
from support.simulated_move import Bench, make_bench
from support.toy_bench import ToyBench, document, toy_bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyBench:
    """The command line over a toy."""
    return toy_bench(monkeypatch, tmp_path)


@pytest.fixture
def old(bench: ToyBench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A group that the engine before drives, at the same place."""
    made = make_bench()

    def opened(_path: Path | None) -> tuple[object, Settings]:
        return made.app(), load(bench.settings)

    monkeypatch.setattr(verbs, "open_app", opened)
    monkeypatch.setattr(evidence, "open_app", opened)
    return made


def test_status_lists_the_runs_of_both(
    bench: ToyBench, old: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """And shows one of either by its name."""
    migration = old.plan()
    bench.call("toy", "plan", *bench.request(), "--execute")
    capsys.readouterr()
    assert bench.call("status", "--json") == 0
    found = document(capsys.readouterr().out)
    assert [each["run"] for each in found["runs"]] == [bench.run]
    assert [each["migration"] for each in found["migrations"]] == [migration]
    assert bench.call("status") == 0
    listed = capsys.readouterr().out
    assert migration in listed
    assert listed.strip().splitlines()[-1].startswith(f"next: groupshift status {bench.run}")
    assert bench.call("status", migration, "--json") == 0
    assert document(capsys.readouterr().out)["migrations"][0]["group"] == "orders-app"
    assert bench.call("status", bench.run, "--json") == 0
    assert document(capsys.readouterr().out)["move"] == "toy"


def test_a_run_of_the_engine_before_is_taken_back_by_its_own_verb(
    bench: ToyBench, old: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the words of its own way back; a wrong word is named with those that there are."""
    migration = old.plan()
    assert bench.call("roll-back", migration, "--to", "nowhere") == 2
    assert f"it is one of {', '.join(each.value for each in WayBack)}" in capsys.readouterr().err
    assert bench.call("roll-back", migration, "--json") == 0
    assert document(capsys.readouterr().out)["migration"] == migration
    assert old.kinds() == [MemberKind.OLD] * 3
    assert old.app().status(migration)[0].phase is Phase.PLANNED


def test_a_report_is_the_page_of_its_engine(
    bench: ToyBench, old: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each engine writes its own."""
    bench.call("toy", "plan", *bench.request(), "--execute")
    page = tmp_path / "page.html"
    assert bench.call("report", bench.run, "--output", str(page)) == 0
    assert "Steps there" in page.read_text()
    assert bench.call("report", bench.run, "--json") == 0
    assert document(capsys.readouterr().out)["run"] == bench.run
    migration = old.plan()
    assert bench.call("report", migration, "--output", str(page)) == 0
    assert "<html" in page.read_text()


def test_where_no_place_is_named_the_sentence_says_so(
    bench: ToyBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of whichever engine: there is no journal to look into."""
    from groupshift.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GROUPSHIFT_HOME", raising=False)
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    for verb in (["status"], ["status", "m-1"], ["report", "m-1"], ["roll-back", "m-1"], ["continue", "r-1"]):
        assert main(verb) == 2
        assert "no settings: name a file with --settings" in capsys.readouterr().err
