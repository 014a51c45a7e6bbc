"""The verbs of an expansion that acts, where no cluster is needed: bad input, and a run from its journal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.sqlalchemy.journal import SqlClusterRuns
from groupshift.application.expansion_run import MOVE, begin, go_on, plan_run
from groupshift.application.run_reports import ReportAndPack
from groupshift.cli.main import main
from groupshift.cli.run_show import finish
from groupshift.domain.step import RunAct
from groupshift.log.releases import Coordinator
from support.simulated_downgrade import yes
from support.simulated_expansion import committed, tools_of


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--to", "8", "--bootstrap-servers", "127.0.0.1:1"], "needs --state FOLDER"),
        (["run", "--state", "here"], "--state goes with --bootstrap-servers"),
        (["back", "--state", "here"], "--state goes with --bootstrap-servers"),
        (["status", "--state", "nowhere"], "the journal has no expansion"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2."""
    monkeypatch.chdir(tmp_path)
    assert main(["expansion", *arguments]) == 2
    error = capsys.readouterr().err
    assert (error.startswith("rejected: "), said in error) == (True, True), error


def test_status_needs_nothing_but_the_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which step a run has come to, and what to type next; a downgrade's verb does not show it."""
    runs = SqlClusterRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    tools = replace(tools_of(committed(Coordinator.OLD)), runs=runs)
    run = begin(tools, plan_run(tools, 8))
    go_on(tools, yes(acts=frozenset(RunAct) - {RunAct.DELETE_GROUPS}), run)
    runs.close()
    assert main(["expansion", "status", "--state", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run"], told["state"], told["from"], told["to"]) == (run.run, "open", 5, 8)
    assert [each["stand"] for each in told["steps"]] == ["done"] * 7 + ["untouched"] * 10
    assert told["next"] == f"groupshift expansion run --execute --state {tmp_path}"
    assert main(["expansion", "status", "--state", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"run {run.run} of cluster simulated: open" in said
    assert "it stopped" not in said
    assert main(["downgrade", "status", "--state", str(tmp_path)]) == 2
    assert "the journal has no downgrade" in capsys.readouterr().err


def test_status_says_why_a_run_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the process that found it out is gone."""
    runs = SqlClusterRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    world = committed(Coordinator.OLD)
    world.dies = {3}
    tools = replace(tools_of(world), runs=runs)
    go_on(tools, yes(patience_s=5.0), begin(tools, plan_run(tools, 8)))
    runs.close()
    assert main(["expansion", "status", "--state", str(tmp_path)]) == 0
    assert "it stopped: broker 3 does not run" in capsys.readouterr().out
    assert main(["expansion", "status", "--state", str(tmp_path), "--json"]) == 0
    stopped = json.loads(capsys.readouterr().out)["stopped"]
    assert (stopped["seen"], stopped["hopeless"]) == ("failed", False)
    assert stopped["detail"].startswith("broker 3 does not run")


def test_the_report_of_a_run_and_whether_it_is_what_was_sealed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an open run as it stands, of one that is over as it was sealed; a run of another move is refused by
    name."""
    evidence = ParquetEvidence(tmp_path / "expansions")
    runs = SqlClusterRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    tools = replace(tools_of(committed(Coordinator.OLD)), runs=runs, seal=ReportAndPack(evidence=evidence))
    run = begin(tools, plan_run(tools, 8))
    go_on(tools, yes(acts=frozenset(RunAct) - {RunAct.CREATE_PARTITIONS}), run)
    page, where = tmp_path / "expansions" / run.run / "report.html", ["--state", str(tmp_path)]
    assert main(["expansion", "report", *where]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"next: groupshift expansion status --state {tmp_path}"
    assert "0 of 3 brokers are restarted" in page.read_text()
    go_on(tools, yes(), run)
    runs.close()
    sealed = page.read_bytes()
    assert main(["expansion", "report", run.run, *where, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"run": run.run, "state": "done", "report": str(page), "sealed": True}
    assert page.read_bytes() == sealed
    settings = tmp_path / "settings.toml"
    settings.write_text(
        '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[zookeeper]\nhosts = "127.0.0.1:1"\n'
        f'[journal]\nurl = "sqlite:///{tmp_path / "journal.db"}"\n[evidence]\nroot = "{tmp_path}"\n'
        '[fleet]\ndriver = "manual"\n'
    )
    verify = ["verify-evidence", run.run, "--settings", str(settings)]
    assert main(verify) == 0
    following = f"groupshift expansion report {run.run} --settings {settings}"
    assert capsys.readouterr().out.splitlines()[-1] == f"next: {following}"
    page.write_text("another")
    assert main(verify) == 5
    assert "report.html" in capsys.readouterr().out
    assert main(["downgrade", "report", run.run, *where]) == 2
    assert f"groupshift expansion report {run.run}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("members", "offset", "following"),
    [
        ((), 0, "groupshift expansion run --execute"),
        (("g1",), 0, "groupshift expansion run --to 8 --execute"),
        ((), 999, "groupshift expansion back --execute"),
    ],
)
def test_what_to_type_next_follows_from_where_a_run_stopped(
    members: tuple[str, ...], offset: int, following: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that waits for an approval goes on; one that a drain ended is asked for anew, with its count; a
    difference that stays is taken back."""
    world = committed(Coordinator.NEW)
    world.members = set(members)
    tools = tools_of(world)
    run = begin(tools, plan_run(tools, 8))
    outcome = go_on(tools, yes(decide=lambda _asked: None, patience_s=5.0), run)
    if offset:
        assert world.commit_as_client("g1", offset, 1)
        outcome = go_on(tools, yes(), run)
    assert finish(MOVE, tools.runs, outcome, as_json=True) in {1, 6}
    assert json.loads(capsys.readouterr().out)["next"] == following
