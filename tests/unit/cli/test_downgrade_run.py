"""The verbs of a downgrade that acts, where no cluster is needed: bad input, and a run from its journal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.sqlalchemy.cluster_runs import SqlClusterRuns
from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_run import begin, go_on, plan_run
from groupshift.cli.main import main
from groupshift.domain.downgrade.releases import target_of
from groupshift.domain.hazards.versions import Version
from simulated_downgrade import tools_of, two_of_43, yes


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
    assert f"run {run.run}: open" in shown
    assert shown.splitlines()[-1] == "next: groupshift downgrade run --execute"
