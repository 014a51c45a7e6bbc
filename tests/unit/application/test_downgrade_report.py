"""The report of a downgrade, from runs in a simulated cluster; and what is sealed of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_account import DowngradeAccount, account_of, intervals
from groupshift.application.downgrade_report import headline, render
from groupshift.application.downgrade_run import begin, go_on, plan_run, turn_back
from groupshift.application.downgrade_work import DowngradeTools
from groupshift.application.pack import verify_folder
from groupshift.application.run_engine import Ended
from groupshift.application.run_pack import verify_run
from groupshift.application.run_reports import ReportAndPack, written
from groupshift.domain.group_protocol import Kind
from groupshift.domain.seal import State
from groupshift.domain.verdict import Verdict
from groupshift.domain.versions import Version
from groupshift.errors import Rejected
from groupshift.moves.downgrade.releases import target_of
from groupshift.ports.evidence import SEALED
from groupshift.ports.journal import RunState
from support.simulated_downgrade import Group, Killed, World, again, one_of_39, tools_of, two_of_43, yes

EVIL = "<script>alert(1)</script>"


def begun(tools: DowngradeTools, to: str = "3.9.2", now: str = "4.3.1") -> str:
    """The id of a run of the plan for this world."""
    request = DowngradeRequest(target=target_of(to), said=Version.parse(now))
    return begin(tools, plan_run(tools, request)).run


def told(tools: DowngradeTools, run: str) -> DowngradeAccount:
    """What the journal tells of it."""
    return account_of(tools.runs.find(run), tools.runs.steps(run))


@pytest.fixture
def evidence(tmp_path: Path) -> ParquetEvidence:
    """Folders of runs."""
    return ParquetEvidence(tmp_path / "downgrades")


def sealing(world: World, evidence: ParquetEvidence) -> DowngradeTools:
    """A run in this world that leaves its report there."""
    return replace(tools_of(world), seal=ReportAndPack(evidence=evidence))


def test_a_run_that_is_done_says_so_and_shows_every_part(evidence: ParquetEvidence) -> None:
    """Steps, comparisons, releases of both nodes, who approved; what to do next is to check it."""
    tools = sealing(two_of_43(), evidence)
    run = begun(tools)
    assert go_on(tools, yes(), tools.runs.find(run)).ended is Ended.DONE
    top = headline(told(tools, run))
    assert (top.verdict, top.word) == (Verdict.PASS, "done")
    assert "run 3.9.2 now, from 4.3.1" in top.sentence
    assert top.now[1][1] == f"groupshift verify-evidence {run}"
    text = evidence.read_text(run, "report.html") or ""
    for part in (
        "node 1",
        "node 2",
        "lower group.version",
        "no problem and no difference",
        "approved",
        "Hazards",
    ):
        assert part in text
    assert "<script" not in text


def test_a_difference_that_somebody_accepted_is_no_success(evidence: ParquetEvidence) -> None:
    """The way back went on by a person's word: the first line says what is lost and who said so."""
    world = two_of_43()
    world.lose = {"simple"}
    tools = sealing(world, evidence)
    run = begun(tools)
    go_on(tools, yes(patience_s=4.0), tools.runs.find(run))
    turned = turn_back(tools, yes(), tools.runs.find(run))
    go_on(tools, yes(patience_s=4.0), turned)
    assert go_on(tools, yes(seen=True, who="alice"), turned).ended is Ended.TAKEN_BACK
    top = headline(told(tools, run))
    assert (top.verdict, top.word) == (Verdict.FAIL, "taken back")
    assert "group simple: lost" in top.sentence
    assert "(accepted by alice)" in top.sentence
    assert "nothing lost" not in top.sentence
    assert "C0" in top.now[0][0]
    text = evidence.read_text(run, "report.html") or ""
    assert "go on although snapshot D is not equal to C0" in text
    back = told(tools, run)
    done = headline(replace(back, run=replace(back.run, state=RunState.DONE)))
    assert (done.verdict, done.word) == (Verdict.FAIL, "done")
    assert "run 3.9.2 now, but not all groups are as they were: group simple: lost" in done.sentence
    assert done.now == top.now


def test_a_report_is_sealed_when_the_run_ends_and_an_altered_file_is_named(evidence: ParquetEvidence) -> None:
    """With the journal, and with the folder alone."""
    tools = sealing(two_of_43(), evidence)
    run = begun(tools)
    with pytest.raises(Rejected, match="has no sealed evidence"):
        verify_run(evidence, tools.runs, run)
    go_on(tools, yes(), tools.runs.find(run))
    assert tools.runs.find(run).state is RunState.DONE
    assert verify_run(evidence, tools.runs, run).troubles == ()
    assert verify_folder(evidence, run).troubles == ()
    kept = json.loads(evidence.read_text(run, "journal.json") or "")
    assert (kept["state"], kept["run"]) == ("done", run)
    evidence.write_text(run, "report.html", text="another")
    (found,) = verify_run(evidence, tools.runs, run).troubles
    assert (found.path, found.state) == ("report.html", State.ALTERED)
    pack = json.loads(evidence.read_text(run, "pack.json") or "")
    evidence.write_text(run, "pack.json", text=json.dumps({**pack, "state": "open"}))
    states = {each.path: each.state for each in verify_run(evidence, tools.runs, run).troubles}
    assert states["pack.json"] is State.SWAPPED


def test_a_process_that_dies_at_the_sealing_is_followed_by_one_that_seals(evidence: ParquetEvidence) -> None:
    """The run is open until its manifest is journaled."""
    seals = ReportAndPack(evidence=evidence)

    def dies(*_: object) -> dict[str, object]:
        raise Killed

    tools = replace(tools_of(two_of_43()), seal=dies)
    run = begun(tools)
    with pytest.raises(Killed):
        go_on(tools, yes(), tools.runs.find(run))
    assert tools.runs.find(run).state is RunState.OPEN
    tools = replace(again(tools), seal=seals)
    assert go_on(tools, yes(), tools.runs.find(run)).ended is Ended.DONE
    assert SEALED in tools.runs.steps(run)
    assert verify_run(evidence, tools.runs, run).troubles == ()


def test_a_difference_is_the_first_thing_that_is_said_and_then_the_way_back(
    evidence: ParquetEvidence,
) -> None:
    """Stopped in the middle, then taken back: both directions are told, and it is sealed as such."""
    world = two_of_43()
    world.lose = {"simple"}
    tools = sealing(world, evidence)
    run = begun(tools)
    assert go_on(tools, yes(), tools.runs.find(run)).ended is Ended.FAILED
    stopped = told(tools, run)
    top = headline(stopped)
    assert (top.verdict, top.word) == (Verdict.FAIL, "stopped")
    assert "1 of 2 nodes run 3.9.2" in top.sentence
    assert "group simple: lost" in top.sentence
    assert top.now[0][1] == "groupshift downgrade back --execute"
    path, text = written(evidence, tools.runs.find(run), tools.runs.steps(run))
    assert Path(path).read_text() == text
    assert "Steps back" not in text
    assert SEALED not in tools.runs.steps(run)

    world.groups["simple"], world.lose = Group(kind=Kind.CLASSIC, offset=7), set()
    turned = turn_back(tools, yes(), tools.runs.find(run))
    assert headline(told(tools, run)).word == "not back yet"
    assert go_on(tools, yes(), turned).ended is Ended.TAKEN_BACK
    back = told(tools, run)
    assert (headline(back).verdict, headline(back).word) == (Verdict.PASS, "taken back")
    assert "Steps back" in (evidence.read_text(run, "report.html") or "")
    assert verify_run(evidence, tools.runs, run).troubles == ()
    ran = [each.ran for each in intervals(back) if each.node == "2" and not each.changing]
    assert ran == ["4.3.1", "3.9.2", "4.3.1"]


def test_u15_a_downgrade_that_was_taken_back_says_which_groups_stay_classic(
    evidence: ParquetEvidence,
) -> None:
    """Nothing turns their protocol back by itself; the command that does is offered first."""
    world = two_of_43()
    world.lose = {"simple"}
    tools = sealing(world, evidence)
    run = begun(tools)
    assert go_on(tools, yes(), tools.runs.find(run)).ended is Ended.FAILED
    world.groups["simple"], world.lose = Group(kind=Kind.CLASSIC, offset=7), set()
    turned = turn_back(tools, yes(), tools.runs.find(run))
    assert go_on(tools, yes(), turned).ended is Ended.TAKEN_BACK
    (said, command), *_ = headline(told(tools, run)).now
    assert "groups stay on the classic protocol: left." in said
    assert command == "groupshift protocol run --group left --to consumer"


def test_a_node_that_is_being_replaced_is_shown_so_until_now(evidence: ParquetEvidence) -> None:
    """It does not come up: no release is claimed after that."""
    world = two_of_43()
    world.dies = {2}
    tools = sealing(world, evidence)
    run = begun(tools)
    assert go_on(tools, yes(), tools.runs.find(run)).ended is Ended.FAILED
    lanes = intervals(told(tools, run))
    assert [(each.ran, each.changing) for each in lanes if each.node == "2"] == [
        ("4.3.1", False),
        ("3.9.2", True),
    ]
    assert [(each.ran, each.changing) for each in lanes if each.node == "1"] == [("4.3.1", False)]


def test_what_was_not_approved_changed_nothing() -> None:
    """Nobody is told to take anything back."""
    tools = tools_of(two_of_43())
    run = begun(tools)
    terms = yes(decide=lambda _asked: False, who=EVIL)
    assert go_on(tools, terms, tools.runs.find(run)).ended is Ended.DECLINED
    account = told(tools, run)
    top = headline(account)
    assert (top.verdict, top.word) == (Verdict.INCONCLUSIVE, "nothing changed")
    text = render(account)
    assert "refused" in text
    assert EVIL not in text
    assert "&lt;script&gt;" in text


def test_compaction_and_its_own_approval_are_told(evidence: ParquetEvidence) -> None:
    """From 3.9.2 to 3.4.0."""
    tools = sealing(one_of_39(), evidence)
    run = begun(tools, "3.4.0", "3.9.2")
    assert go_on(tools, yes(), tools.runs.find(run)).ended is Ended.DONE
    text = evidence.read_text(run, "report.html") or ""
    assert "approve compacting" in text
    assert "records of the offsets topic were replayed as 3.4.0 would" in text
