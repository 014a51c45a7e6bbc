"""The verbs of a downgrade that acts, where no cluster is needed: bad input, and a run from its journal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.sqlalchemy.journal import SqlClusterRuns
from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_demands import Wanted, demand_same
from groupshift.application.downgrade_run import MOVE, begin, go_on, plan_run
from groupshift.application.run_engine import Ended
from groupshift.application.run_reports import ReportAndPack
from groupshift.cli.main import main
from groupshift.cli.run_show import show_planned
from groupshift.domain.versions import Version
from groupshift.errors import Rejected
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.releases import target_of
from groupshift.ports.journal import RunState
from support.simulated_downgrade import tools_of, two_of_43, yes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--bootstrap-servers", "127.0.0.1:1"], "needs --state FOLDER"),
        (["run", "--state", "here"], "--state goes with --bootstrap-servers"),
        (["back", "--state", "here"], "--state goes with --bootstrap-servers"),
    ],
)
def test_where_a_run_is_written_down_must_be_said(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one sentence."""
    assert main(["downgrade", *arguments]) == 2
    error = capsys.readouterr().err
    assert (error.startswith("rejected: "), said in error) == (True, True), error


def test_status_needs_nothing_but_the_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which step a run has come to, and what to type next; an empty journal is said."""
    assert main(["downgrade", "status", "--state", str(tmp_path)]) == 2
    assert "the journal has no downgrade" in capsys.readouterr().err
    runs = SqlClusterRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    world = two_of_43()
    world.checkpoint = None
    tools = replace(tools_of(world), runs=runs)
    asked = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    run = begin(tools, plan_run(tools, asked))
    assert go_on(tools, yes(), run).step == "07 await-snapshot __cluster_metadata"
    runs.close()
    assert main(["downgrade", "status", "--state", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run"], told["state"], told["to"], told["from"]) == (run.run, "open", "3.9.2", "4.3.1")
    stands = {each["step"]["key"][3:]: each["stand"] for each in told["steps"]}
    assert (stands["lower group.version"], stands["replace 2"]) == ("done", "untouched")
    assert main(["downgrade", "status", "--state", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert f"run {run.run} of cluster cluster: open" in shown
    assert shown.splitlines()[-1] == f"next: groupshift downgrade run --execute --state {tmp_path}"


def test_status_names_every_open_run_with_its_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The latest may be another cluster's, and closed."""
    runs = SqlClusterRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    tools = replace(tools_of(two_of_43()), runs=runs)
    asked = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    run = begin(tools, plan_run(tools, asked))
    for name, at_ms, state in (("B", 1, RunState.GOING_BACK), ("C", 2, RunState.DONE)):
        created = run.created_at_ms + at_ms
        other = replace(run, run=f"downgrade-{name}", cluster_id=name, created_at_ms=created)
        runs.create(other)
        runs.move(other.run, runs.claim(other.run, "test", created), state, created)
    runs.close()
    where = ["downgrade", "status", "--state", str(tmp_path)]
    assert main(where) == 0
    shown = capsys.readouterr().out
    assert "run downgrade-C of cluster C: done" in shown
    also = [line for line in shown.splitlines() if line.startswith("also ")]
    assert also == [
        "also going_back: run downgrade-B of cluster B",
        f"also open: run {run.run} of cluster cluster",
    ]
    assert main([*where, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["cluster"], [each["cluster"] for each in told["others"]]) == ("C", ["B", "cluster"])


def test_a_run_of_a_cluster_that_does_not_answer_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody guesses which run is meant; named, its way back is shown without any broker."""
    runs = SqlClusterRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    world = two_of_43()
    world.dies = {2}
    tools = replace(tools_of(world), runs=runs)
    asked = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    run = begin(tools, plan_run(tools, asked))
    assert go_on(tools, yes(), run).ended is Ended.FAILED
    runs.close()
    where = ["--bootstrap-servers", "127.0.0.1:1", "--state", str(tmp_path), "--timeout", "1"]
    assert main(["downgrade", "back", *where]) == 4
    assert "name the run: groupshift downgrade status shows it" in capsys.readouterr().err
    assert main(["downgrade", "back", *where, "--run", run.run]) == 0
    assert "stop node 2 cleanly, start 4.3.1 over the same folder" in capsys.readouterr().err


def test_an_open_run_of_all_nodes_is_not_gone_on_with_as_one_of_brokers_only() -> None:
    """What was approved is another plan."""
    tools = tools_of(two_of_43())
    asked = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    run = begin(tools, plan_run(tools, asked))
    demand_same(run, Wanted(release="3.9.2"))
    with pytest.raises(Rejected, match="go on with it, or take it back"):
        demand_same(run, Wanted(release="3.9.2", brokers_only=True))


def test_the_report_of_a_run_is_written_and_what_is_sealed_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an open run whenever it is asked for; of one that is over as it was sealed; no cluster is asked."""
    evidence = ParquetEvidence(tmp_path / "downgrades")
    runs = SqlClusterRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    world = two_of_43()
    world.checkpoint = None
    tools = replace(tools_of(world), runs=runs, seal=ReportAndPack(evidence=evidence))
    asked = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    run = begin(tools, plan_run(tools, asked))
    go_on(tools, yes(), run)
    page, copy = tmp_path / "downgrades" / run.run / "report.html", tmp_path / "copy.html"
    where = ["--state", str(tmp_path)]
    assert main(["downgrade", "report", *where, "--output", str(copy)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"next: groupshift downgrade status --state {tmp_path}"
    assert "0 of 2 nodes run 3.9.2" in page.read_text()
    assert copy.read_text() == page.read_text()

    world.checkpoint = 100
    go_on(tools, yes(), run)
    runs.close()
    sealed = page.read_bytes()
    assert main(["downgrade", "report", run.run, *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "run": run.run,
        "state": "done",
        "report": str(page),
        "sealed": True,
    }
    assert page.read_bytes() == sealed
    assert main(["verify-evidence", str(page.parent)]) == 0
    assert main(["downgrade", "report", "downgrade-x", *where]) == 2


def test_a_run_is_verified_by_its_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against the journal; an altered page ends with 5 and its name."""
    settings = tmp_path / "settings.toml"
    settings.write_text(
        '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[zookeeper]\nhosts = "127.0.0.1:1"\n'
        f'[journal]\nurl = "sqlite:///{tmp_path / "journal.db"}"\n[evidence]\nroot = "{tmp_path}"\n'
        '[fleet]\ndriver = "manual"\n'
    )
    runs = SqlClusterRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    seal = ReportAndPack(evidence=ParquetEvidence(tmp_path / "downgrades"))
    tools = replace(tools_of(two_of_43()), runs=runs, seal=seal)
    asked = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    run = begin(tools, plan_run(tools, asked))
    go_on(tools, yes(), run)
    runs.close()
    verify = ["verify-evidence", run.run, "--settings", str(settings)]
    assert main(verify) == 0
    following = f"groupshift downgrade report {run.run} --settings {settings}"
    assert capsys.readouterr().out.splitlines()[-1] == f"next: {following}"
    (tmp_path / "downgrades" / run.run / "report.html").write_text("another")
    assert main(verify) == 5
    shown = capsys.readouterr().out
    assert ("report.html" in shown, "altered" in shown) == (True, True)
    assert main(["verify-evidence", "downgrade-x", "--settings", str(settings)]) == 2


def test_the_next_command_holds_everything_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Typed as shown, it makes the same plan."""
    planned = plan_run(
        tools_of(two_of_43()), DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    )
    plan = replace(planned.plan, coordinator=Coordinator.NEW, live=True, brokers_only=True)
    assert show_planned(MOVE, replace(planned, plan=plan), (), as_json=True) == 0
    following = json.loads(capsys.readouterr().out)["next"]
    way = "groupshift downgrade run --to 3.9.2 --from 4.3.1"
    assert following == f"{way} --coordinator new --live --brokers-only --execute"
    assert show_planned(MOVE, planned, (), as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["next"] == f"{way} --execute"


@pytest.mark.parametrize("move", ["downgrade", "expansion"])
def test_u03_the_command_that_takes_back_names_the_run_that_was_named(
    move: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no broker answers, the command without it finds no run; for programs it is JSON."""
    from groupshift.cli.run_show import show_back
    from groupshift.domain.step import RunAct, RunStep

    steps = (RunStep(key="02 back", act=RunAct.REPLACE, subject="1", does="replace node 1 by 4.3.1"),)
    for run, option in ((f"{move}-1", f"--run {move}-1 "), ("", "")):
        assert show_back(move, run, steps, as_json=False) == 0
        shown = capsys.readouterr()
        assert "1. replace node 1 by 4.3.1" in shown.out + shown.err
        assert f"next: groupshift {move} back {option}--execute" in shown.out + shown.err
        assert show_back(move, run, steps, as_json=True) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["next"] == f"groupshift {move} back {option}--execute"
        assert [each["does"] for each in told["steps"]] == ["replace node 1 by 4.3.1"]
