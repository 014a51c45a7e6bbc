"""The report of an expansion, from runs in a simulated cluster; and what is sealed of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.application.expansion_account import UNKNOWN, ExpansionAccount, account_of, intervals
from groupshift.application.expansion_report import headline, render
from groupshift.application.expansion_run import begin, go_on, plan_run, turn_back
from groupshift.application.expansion_work import ExpansionTools
from groupshift.application.run_account import accepted, decisions
from groupshift.application.run_engine import Ended
from groupshift.application.run_pack import verify_run
from groupshift.application.run_reports import ReportAndPack, headline_of, page_of
from groupshift.domain.placement import partition_of
from groupshift.domain.step import RunAct
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Transient
from groupshift.log.releases import Coordinator
from groupshift.ports.evidence import SEALED
from groupshift.ports.journal import RunState
from support.simulated_downgrade import yes
from support.simulated_expansion import GROUPS, Expansible, committed, tools_of

MOVING = [group for group in GROUPS if partition_of(group, 5) != partition_of(group, 8)]
EVIL = "<script>alert(1)</script>"
BOTH = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])


@pytest.fixture
def evidence(tmp_path: Path) -> ParquetEvidence:
    """Folders of runs."""
    return ParquetEvidence(tmp_path / "expansions")


def sealing(world: Expansible, evidence: ParquetEvidence) -> ExpansionTools:
    """A run in this world that leaves its report there."""
    return replace(tools_of(world), seal=ReportAndPack(evidence=evidence))


def begun(tools: ExpansionTools) -> str:
    """The id of a run to 8 partitions."""
    return begin(tools, plan_run(tools, 8)).run


def told(tools: ExpansionTools, run: str) -> ExpansionAccount:
    """What the journal tells of it."""
    return account_of(tools.runs.find(run), tools.runs.steps(run))


@BOTH
def test_a_run_that_is_done_says_so_and_shows_every_part(
    kind: Coordinator, evidence: ParquetEvidence
) -> None:
    """Counts of each broker over time, comparisons, groups that moved, steps, who approved; sealed."""
    tools = sealing(committed(kind), evidence)
    run = begun(tools)
    assert go_on(tools, yes(who="alice"), tools.runs.find(run)).ended is Ended.DONE
    account = told(tools, run)
    top = headline(account)
    assert (top.verdict, top.word) == (Verdict.PASS, "done")
    assert "has 8 partitions now, from 5, and every broker counts them" in top.sentence
    assert f"{len(MOVING)} offsets were committed again and read back; 2 comparisons" in top.sentence
    assert [each[1] for each in top.now] == [
        "", "groupshift expansion watch", f"groupshift verify-evidence {run}",
    ]  # fmt: skip
    lanes = intervals(account)
    assert list(dict.fromkeys(each.node for each in lanes)) == ["2", "3", "1"]
    assert [(each.ran, each.changing) for each in lanes if each.node == "2"] == [
        ("5", False), ("8", True), ("8", False),
    ]  # fmt: skip
    assert [each.who for each in decisions(account)] == ["alice"]
    text = evidence.read_text(run, "report.html") or ""
    for part in (
        "broker 2",
        "broker 2 changes to 8",
        "no problem and no difference",
        "approved",
        MOVING[0],
    ):
        assert part in text, part
    assert 'id="load-groups-that-move-title">groups that move by partition<' in text
    assert "Steps back" not in text
    assert "<script" not in text
    assert "Steps there" in page_of(tools.runs.find(run), tools.runs.steps(run))
    assert verify_run(evidence, tools.runs, run).troubles == ()
    assert json.loads(evidence.read_text(run, "journal.json") or "")["state"] == "done"


def test_one_that_waits_for_members_and_ended_changed_nothing(evidence: ParquetEvidence) -> None:
    """What to type begins another one, with its count; names of groups are text."""
    world = committed(Coordinator.NEW)
    assert world.commit_as_client(EVIL, 1, 1)
    world.members = {EVIL}
    tools = sealing(world, evidence)
    run = begun(tools)
    assert go_on(tools, yes(patience_s=5.0), tools.runs.find(run)).ended is Ended.WAITING
    assert tools.runs.find(run).state is RunState.ENDED
    account = told(tools, run)
    top = headline(account)
    assert (top.verdict, top.word) == (Verdict.INCONCLUSIVE, "nothing changed")
    assert f"It waited: members are in 1 group: {EVIL}" in top.sentence
    assert top.now == (("To plan it again:", "groupshift expansion run --to 8"),)
    text = render(account)
    assert EVIL not in text
    assert "alert(1)" in text


def test_a_stop_before_partitions_are_made_offers_both_ways_and_the_way_back_is_told(
    evidence: ParquetEvidence,
) -> None:
    """Deleted, then taken back: what was committed again, and that clients may start."""
    tools = sealing(committed(Coordinator.OLD), evidence)
    run = begun(tools)
    acts = frozenset(RunAct) - {RunAct.CREATE_PARTITIONS}
    assert go_on(tools, yes(acts=acts), tools.runs.find(run)).ended is Ended.PAUSED
    top = headline(told(tools, run))
    assert (top.verdict, top.word) == (Verdict.INCONCLUSIVE, "under way")
    assert [each[1] for each in top.now] == [
        "", "groupshift expansion run --execute", "groupshift expansion back --execute",
    ]  # fmt: skip
    assert top.now[0][0] == "No client may start before it is done, or taken back."
    turned = turn_back(tools, yes(), tools.runs.find(run))
    going = headline(told(tools, run))
    assert (going.word, going.now[0][1]) == ("not back yet", "groupshift expansion back --execute")
    assert go_on(tools, yes(), turned).ended is Ended.TAKEN_BACK
    back = headline(told(tools, run))
    assert (back.verdict, back.word) == (Verdict.PASS, "taken back")
    assert "to 8 partitions was taken back: what was deleted is committed again" in back.sentence
    assert f"{len(MOVING)} offsets were committed again and read back" in back.sentence
    assert back.now[0] == ("Clients may start: every group is where it was.", "")
    assert "Steps back" in (evidence.read_text(run, "report.html") or "")


def test_after_partitions_are_made_there_is_only_the_way_forward(evidence: ParquetEvidence) -> None:
    """A broker that does not come up: which one, and no word of a way back."""
    world = committed(Coordinator.OLD)
    world.dies = {3}
    tools = sealing(world, evidence)
    run = begun(tools)
    assert go_on(tools, yes(patience_s=5.0), tools.runs.find(run)).ended is Ended.FAILED
    account = told(tools, run)
    top = headline(account)
    assert (top.verdict, top.word) == (Verdict.FAIL, "stopped")
    assert "restart 3; 1 of 3 brokers are restarted. It stopped there: broker 3 does not run" in top.sentence
    ((said, command),) = top.now
    assert said == "No client may start yet, and there is only the way forward; once the cause is cured:"
    assert command == "groupshift expansion run --execute"
    lanes = [(each.ran, each.changing) for each in intervals(account) if each.node == "3"]
    assert lanes == [("5", False), (UNKNOWN, True)]
    assert SEALED not in tools.runs.steps(run)


def test_what_somebody_accepted_is_no_success(evidence: ParquetEvidence) -> None:
    """An offset that could not be committed: the first line says so, and who let it go on."""
    world = committed(Coordinator.NEW)
    tools = sealing(world, evidence)
    run = begun(tools)
    until = frozenset(RunAct) - {RunAct.RESTORE}
    assert go_on(tools, yes(acts=until), tools.runs.find(run)).ended is Ended.PAUSED
    world.uncommitted = {MOVING[0]: "TOPIC_AUTHORIZATION_FAILED (29)"}
    assert go_on(tools, yes(), tools.runs.find(run)).ended is Ended.WAITING
    stopped = headline(told(tools, run))
    assert (stopped.verdict, stopped.word) == (Verdict.FAIL, "stopped")
    assert f"{MOVING[0]!r}" in stopped.sentence
    outcome = go_on(tools, yes(seen=True, who="bob"), tools.runs.find(run))
    while outcome.ended is not Ended.DONE:  # the comparison says it once more, and wants the same word
        assert outcome.ended in {Ended.WAITING, Ended.FAILED}, outcome
        outcome = go_on(tools, yes(seen=True, who="bob"), tools.runs.find(run))
    account = told(tools, run)
    assert {each.who for each in accepted(account)} == {"bob"}
    assert accepted(account)[0].what == "offsets are not as in snapshot S"
    top = headline(account)
    assert (top.verdict, top.word) == (Verdict.FAIL, "done")
    assert "every broker counts them. But not all is as it has to be: offsets are not as in" in top.sentence
    assert "TOPIC_AUTHORIZATION_FAILED (29)) (accepted by bob)" in top.sentence
    assert top.now[0][0].startswith("Correct what differs before its clients start")
    assert top == headline_of(tools.runs.find(run), tools.runs.steps(run))
    text = evidence.read_text(run, "report.html") or ""
    assert "go on although offsets are not as in snapshot S: &#39;" in text


def test_one_that_was_taken_back_before_it_changed_anything_says_so(evidence: ParquetEvidence) -> None:
    """Nothing was deleted, nothing was compared."""
    tools = sealing(committed(Coordinator.NEW), evidence)
    run = begun(tools)
    acts = frozenset({RunAct.DRAIN, RunAct.SNAPSHOT})
    assert go_on(tools, yes(acts=acts), tools.runs.find(run)).ended is Ended.PAUSED
    assert go_on(tools, yes(), turn_back(tools, yes(), tools.runs.find(run))).ended is Ended.TAKEN_BACK
    top = headline(told(tools, run))
    assert (top.verdict, top.word) == (Verdict.PASS, "taken back")
    assert top.sentence.endswith("was taken back: nothing was changed. Groups were not compared.")


def test_where_only_the_way_back_helps_it_is_offered_with_the_reason(evidence: ParquetEvidence) -> None:
    """A group that moves committed after the deletion: partitions are not made, and the journal says why."""
    world = committed(Coordinator.NEW)
    tools = sealing(world, evidence)
    run = begun(tools)
    acts = frozenset(RunAct) - {RunAct.CREATE_PARTITIONS}
    assert go_on(tools, yes(acts=acts), tools.runs.find(run)).ended is Ended.PAUSED
    asked = next(node for node in world.world.brokers if world.world.serves(node, MOVING[0]))
    assert world.commit_as_client(MOVING[0], 999, asked)
    with pytest.raises(Conflict, match="expansion back"):
        go_on(tools, yes(), tools.runs.find(run))
    top = headline(told(tools, run))
    assert (top.verdict, top.word) == (Verdict.FAIL, "stopped")
    assert "groupshift expansion back" in top.sentence
    assert [each[1] for each in top.now] == [
        "", "groupshift expansion back --execute", "groupshift expansion run --execute",
    ]  # fmt: skip
    turn_back(tools, yes(), tools.runs.find(run))


def test_an_audit_that_was_accepted_asks_for_that_first(evidence: ParquetEvidence) -> None:
    """Partitions were made by somebody else, and the run was taken back: the next restart would lose offsets,
    which the page says, with the rule."""
    world = committed(Coordinator.NEW)
    tools = sealing(world, evidence)
    run = begun(tools)
    acts = frozenset(RunAct) - {RunAct.CREATE_PARTITIONS}
    assert go_on(tools, yes(acts=acts), tools.runs.find(run)).ended is Ended.PAUSED
    world.world.expand(7)
    turned = turn_back(tools, yes(), tools.runs.find(run))
    assert go_on(tools, yes(), turned).ended is Ended.WAITING
    assert go_on(tools, yes(seen=True, who="bob"), turned).ended is Ended.TAKEN_BACK
    account = told(tools, run)
    top = headline(account)
    assert (top.verdict, [each.act for each in accepted(account)]) == (Verdict.FAIL, [RunAct.AUDIT])
    assert "stays at" not in top.sentence
    assert "X04" in top.sentence or "brokers count 5" in top.sentence
    first = ("Restart no broker and start no client before this is clean:", "groupshift audit placement")
    assert top.now[0] == first


def test_of_several_things_that_were_accepted_each_is_to_be_cured(evidence: ParquetEvidence) -> None:
    """Partitions of somebody else, and an offset that nobody may commit: the log first, then the offset."""
    world = committed(Coordinator.NEW)
    tools = sealing(world, evidence)
    run = begun(tools)
    acts = frozenset(RunAct) - {RunAct.CREATE_PARTITIONS}
    assert go_on(tools, yes(acts=acts), tools.runs.find(run)).ended is Ended.PAUSED
    world.world.expand(7)
    world.uncommitted = {MOVING[0]: "TOPIC_AUTHORIZATION_FAILED (29)"}
    turned = turn_back(tools, yes(), tools.runs.find(run))
    outcome = go_on(tools, yes(), turned)
    while outcome.ended is not Ended.TAKEN_BACK:
        assert outcome.ended in {Ended.WAITING, Ended.FAILED}, outcome
        outcome = go_on(tools, yes(seen=True, who="bob"), turned)
    account = told(tools, run)
    assert {each.act for each in accepted(account)} >= {RunAct.RESTORE, RunAct.AUDIT}
    log, offset, check = headline(account).now
    assert log == (
        "Restart no broker and start no client before this is clean:",
        "groupshift audit placement",
    )
    assert offset[0].startswith("Correct what differs before its clients start")
    assert check[1] == f"groupshift verify-evidence {run}"


def test_a_snapshot_with_problems_is_the_reason(evidence: ParquetEvidence) -> None:
    """A group did not answer."""
    world = committed(Coordinator.NEW)
    tools = sealing(world, evidence)
    run = begun(tools)
    acts = frozenset({RunAct.DRAIN})
    assert go_on(tools, yes(acts=acts), tools.runs.find(run)).ended is Ended.PAUSED
    world.silent = {MOVING[1]}
    outcome = go_on(tools, yes(), tools.runs.find(run))
    assert outcome.ended is Ended.FAILED
    top = headline(told(tools, run))
    assert (top.verdict, top.word) == (Verdict.FAIL, "stopped")
    assert "It stopped there: the snapshot has problems: loading" in top.sentence


def test_an_error_in_an_act_is_told_and_gone_with_the_next_process(evidence: ParquetEvidence) -> None:
    """A group does not answer while offsets are restored: the page says so and can be written; a process that
    has the step since is not told to have stopped."""
    world = committed(Coordinator.NEW)
    tools = sealing(world, evidence)
    run = begun(tools)
    acts = frozenset(RunAct) - {RunAct.RESTORE}
    assert go_on(tools, yes(acts=acts), tools.runs.find(run)).ended is Ended.PAUSED
    world.silent = {MOVING[0]}
    with pytest.raises(Transient):
        go_on(tools, yes(), tools.runs.find(run))
    account = told(tools, run)
    assert "It waited: " in headline(account).sentence
    assert "offsets committed again" in render(account)
    world.silent = set()
    steps = dict(tools.runs.steps(run))
    key = next(each.step.key for each in account.there if each.step.act is RunAct.RESTORE)
    steps[key] = replace(steps[key], token=steps[key].token + 1)
    assert "It waited" not in headline(account_of(tools.runs.find(run), steps)).sentence
    assert go_on(tools, yes(), tools.runs.find(run)).ended is Ended.DONE
    assert headline(told(tools, run)).word == "done"
