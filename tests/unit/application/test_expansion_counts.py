"""Counts that are not the plan's: somebody else gives the topic more, or a broker keeps a former one and its
answers do not tell. No offset is lost by it, nor a run stuck."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

import pytest

from groupshift.application.expansion_account import account_of
from groupshift.application.expansion_report import headline, render
from groupshift.application.expansion_run import begin, go_on, plan_run, statuses, turn_back
from groupshift.application.expansion_work import ExpansionTools
from groupshift.application.run_engine import Ended, RunOutcome
from groupshift.domain.cluster import COUNT, PlacementView
from groupshift.domain.placement import partition_of
from groupshift.domain.step import RunAct, Stand
from groupshift.errors import Conflict
from groupshift.log.releases import Coordinator
from groupshift.ports.cluster import PlacementViews
from groupshift.ports.journal import ClusterRuns, RunStepRecord, StepState
from support.simulated_downgrade import KillAt, Killed, yes
from support.simulated_expansion import GROUPS, Expansible, committed, equal, tools_of

LATE = [
    name
    for name in (f"late{number}" for number in range(99))
    if partition_of(name, 5) == partition_of(name, 8) != partition_of(name, 12)
]
"""They stay at 8 partitions, and move at 12."""
STAYING = [each for each in GROUPS if len({partition_of(each, count) for count in (5, 8, 12)}) == 1]
BOTH = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])


def begun(world: Expansible, to: int = 8) -> ExpansionTools:
    """A run to ``to`` partitions."""
    tools = tools_of(world)
    begin(tools, plan_run(tools, to))
    return tools


def gone_on(tools: ExpansionTools, *without: RunAct, **changes: object) -> RunOutcome:
    """The run, gone on with, up to the first of these acts."""
    acts = frozenset(RunAct) - frozenset(without)
    return go_on(tools, yes(acts=acts, **changes), tools.runs.recent(1)[0])


def in_the_end(tools: ExpansionTools, *, wanted: Ended = Ended.DONE) -> list[RunOutcome]:
    """Every outcome of processes that accept what was shown, until this one; at most ten."""
    found: list[RunOutcome] = []
    while (not found or found[-1].ended is not wanted) and len(found) < 10:
        found.append(gone_on(tools, patience_s=5.0, seen=True, who="bob"))
    return found


@BOTH
def test_more_partitions_before_a_restart_stop_the_run_while_there_is_a_way_back(kind: Coordinator) -> None:
    """No broker counts them yet: none is restarted, and what was deleted is committed again."""
    world = committed(kind)
    tools = begun(world)
    assert gone_on(tools, RunAct.RESTART).ended is Ended.PAUSED
    world.world.expand(12)
    with pytest.raises(Conflict, match=r"has 12 partitions, neither 5 nor 8.*expansion back --execute"):
        gone_on(tools)
    assert not any(each.startswith("restart") for each in world.asked)
    turn_back(tools, yes(), tools.runs.recent(1)[0])
    assert in_the_end(tools, wanted=Ended.TAKEN_BACK)[-1].ended is Ended.TAKEN_BACK
    assert equal(world)


def test_more_partitions_than_were_made_are_met_at_once() -> None:
    """Before they are read back as the plan's: only the way back helps."""
    world = committed(Coordinator.NEW)
    tools = begun(world)

    def meanwhile() -> bool:
        if world.asked[-1] == "create":
            world.world.expand(12)
        return False

    world.answers_lost = meanwhile
    outcome = gone_on(tools)
    assert (outcome.ended, outcome.hopeless) == (Ended.FAILED, True)
    assert "has 12 partitions" in outcome.detail


@BOTH
def test_more_partitions_after_a_restart_are_counted_once_a_person_says_so(kind: Coordinator) -> None:
    """There is only the way forward: more groups move than were deleted, and the snapshot has all."""
    world = committed(kind)
    for group in LATE:
        assert world.commit_as_client(group, 7, 1)
    world.dies = {3}
    tools = begun(world)
    assert gone_on(tools, patience_s=5.0).step.endswith("restart 3")
    world.world.expand(12)
    asked = gone_on(tools, patience_s=5.0)
    assert asked.ended is Ended.WAITING
    assert "12 partitions, not 8" in asked.detail
    assert "to go on to 12: --seen" in asked.detail
    assert gone_on(tools, patience_s=5.0).detail == asked.detail, "nobody said it was seen"
    found = in_the_end(tools)
    assert found[-1].ended is Ended.DONE
    assert {broker.count for broker in world.world.brokers.values()} == {12}
    assert world.properties[2] == {COUNT: "12"}, "the broker that was restarted before is restarted again"
    assert equal(world)
    run = tools.runs.recent(1)[0]
    top = headline(account_of(run, tools.runs.steps(run.run)))
    assert "has 12 partitions now, from 5" in top.sentence
    assert f"Set {COUNT}=12 in the file of every broker." in [said for said, _ in top.now]
    assert "accepted by bob" in top.sentence
    render(account_of(run, tools.runs.steps(run.run)))
    told = [each for each in found if "older commits" in each.detail]
    assert bool(told) is (kind is Coordinator.OLD), "what was not deleted lies where 5 put it: repair says so"
    assert all("groupshift repair placement" in each.detail for each in told)


@BOTH
def test_a_broker_whose_answers_fit_both_counts_is_told_by_where_it_puts_commits(kind: Coordinator) -> None:
    """From 6 to 12 each group's two partitions have one leader: nothing that a broker answers tells."""
    world = committed(kind, count=6)
    world.lies = {2}
    tools = begun(world, 12)
    stopped = gone_on(tools, patience_s=5.0)
    assert stopped.ended is Ended.WAITING
    assert "restore S" in stopped.step
    assert "broker 2 does not count 12 partitions; restart it" in stopped.detail
    assert gone_on(tools, patience_s=5.0).detail.startswith(stopped.detail.split(":")[0])
    world.world.restart(2)
    again = gone_on(tools, patience_s=5.0)
    if kind is Coordinator.OLD:
        assert again.step.endswith("audit __consumer_offsets")
        assert "groupshift repair placement" in again.detail
        again = gone_on(tools, patience_s=5.0, seen=True)
    assert again.ended is Ended.DONE
    assert equal(world)


@BOTH
def test_residue_hides_no_difference(kind: Coordinator) -> None:
    """More groups are listed twice than sentences are journaled: what is lost is said before them, and what
    is accepted is all of it."""
    world = committed(kind)
    for group in LATE:
        assert world.commit_as_client(group, 7, 1)
    world.dies = {3}
    tools = begun(world)
    assert gone_on(tools, patience_s=5.0).step.endswith("restart 3")
    world.world.expand(12)
    while not (outcome := gone_on(tools, patience_s=5.0, seen=True)).step.endswith("compare V"):
        assert outcome.ended in {Ended.WAITING, Ended.FAILED}
    lost = STAYING[0]
    world.delete({lost})
    outcome = gone_on(tools, patience_s=5.0, seen=True)
    assert outcome.ended is Ended.FAILED, "nobody was shown that"
    assert f"{lost}: {100 + GROUPS.index(lost)} is None" in outcome.detail.split(";")[0]


def test_what_was_accepted_is_kept_while_a_broker_is_down() -> None:
    """It dies when it is to take the other count up: it is started again with that count, and nobody is
    asked twice."""
    world = committed(Coordinator.NEW)
    world.dies = {3}
    tools = begun(world)
    assert gone_on(tools, patience_s=5.0).step.endswith("restart 3")
    world.world.expand(12)
    assert "go on to 12" in gone_on(tools, patience_s=5.0).detail
    world.dies = {2}
    assert "broker 2 does not run" in gone_on(tools, patience_s=5.0, seen=True).detail
    while (outcome := gone_on(tools, patience_s=5.0)).ended is not Ended.DONE:
        assert "--seen" not in outcome.detail
    assert world.properties[2] == {COUNT: "12"}
    assert equal(world)


def test_a_count_that_changes_once_more_is_asked_for_again() -> None:
    """What was accepted was 12."""
    world = committed(Coordinator.NEW)
    world.dies = {3}
    tools = begun(world)
    assert gone_on(tools, patience_s=5.0).step.endswith("restart 3")
    world.world.expand(12)
    assert "go on to 12" in gone_on(tools, patience_s=5.0).detail
    world.world.expand(16)
    again = gone_on(tools, patience_s=5.0, seen=True)
    assert again.ended is Ended.WAITING
    assert "go on to 16" in again.detail
    assert in_the_end(tools)[-1].ended is Ended.DONE
    assert {broker.count for broker in world.world.brokers.values()} == {16}
    assert equal(world)


@BOTH
@pytest.mark.parametrize("stop", [RunAct.RESTORE, RunAct.COMPARE, RunAct.AUDIT])
def test_more_partitions_after_brokers_were_asked_send_the_run_back_there(
    kind: Coordinator, stop: RunAct
) -> None:
    """Somebody else restarts a broker then: all are restarted, and every step since is done again."""
    world = committed(kind)
    for group in LATE:
        assert world.commit_as_client(group, 7, 1)
    tools = begun(world)
    assert gone_on(tools, RunAct.RESTORE).ended is Ended.PAUSED
    if stop is not RunAct.RESTORE:
        doing = {RunAct.RESTORE} | ({RunAct.COMPARE} if stop is RunAct.AUDIT else set())
        assert gone_on(tools, *(frozenset(RunAct) - doing)).ended is Ended.PAUSED
    world.world.expand(12)
    world.world.restart(1)
    with pytest.raises(Conflict, match=r"placed by 12 partitions, not by 8.*goes back to that step"):
        gone_on(tools)
    asked = gone_on(tools)
    assert (asked.ended, "place" in asked.step) == (Ended.WAITING, True)
    assert "to go on to 12: --seen" in asked.detail
    assert in_the_end(tools)[-1].ended is Ended.DONE
    assert {broker.count for broker in world.world.brokers.values()} == {12}
    assert equal(world)


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_going_back_to_a_step_may_be_cut_off_anywhere(cut: int) -> None:
    """The step that all depends on is reopened last: the next process sees the same, and ends what is
    left."""
    world = committed(Coordinator.NEW)
    tools = begun(world)
    assert gone_on(tools, RunAct.AUDIT).ended is Ended.PAUSED
    world.world.expand(12)
    with pytest.raises(Conflict if cut > 4 else Killed):
        gone_on(replace(tools, runs=cast("ClusterRuns", Cut(tools.runs, cut))))
    with suppress(Conflict):
        gone_on(tools)
    again = [each.stand for each in statuses(tools.runs, tools.runs.recent(1)[0])[-5:]]
    assert Stand.DONE not in again
    assert in_the_end(tools)[-1].ended is Ended.DONE
    assert equal(world)


@BOTH
def test_the_way_back_names_who_does_not_count_what_somebody_else_made(kind: Coordinator) -> None:
    """While brokers count differently nothing is committed; then every group that moves by that count gets
    its offsets back, also those that the plan did not move."""
    world = committed(kind)
    for group in LATE:
        assert world.commit_as_client(group, 7, 1)
    tools = begun(world)
    assert gone_on(tools, RunAct.CREATE_PARTITIONS).ended is Ended.PAUSED
    world.world.expand(12)
    world.world.restart(1)
    turn_back(tools, yes(), tools.runs.recent(1)[0])
    before = list(world.asked)
    with pytest.raises(Conflict, match=r"12 partitions.*; broker 2, 3 does not: .*restart broker 2, 3,"):
        gone_on(tools)
    assert world.asked == before
    for node in (2, 3):
        world.world.restart(node)
    assert in_the_end(tools, wanted=Ended.TAKEN_BACK)[-1].ended is Ended.TAKEN_BACK
    assert equal(world)
    run = tools.runs.recent(1)[0]
    top = headline(account_of(run, tools.runs.steps(run.run)))
    assert "committed again, by 12 partitions, which somebody else made" in top.sentence
    assert f"Set {COUNT}=12 in the file of every broker." in [said for said, _ in top.now]


@BOTH
@pytest.mark.parametrize(("count", "nodes"), [(6, 3), (5, 1)])
def test_the_way_back_where_answers_fit_both_counts(kind: Coordinator, count: int, nodes: int) -> None:
    """The log tells which one brokers use."""
    world = committed(kind, count=count, nodes=nodes)
    for group in LATE:
        assert world.commit_as_client(group, 7, 1)
    tools = begun(world)
    assert gone_on(tools, RunAct.CREATE_PARTITIONS).ended is Ended.PAUSED
    world.world.expand(12)
    for node in world.world.brokers:
        world.world.restart(node)
    turn_back(tools, yes(), tools.runs.recent(1)[0])
    assert in_the_end(tools, wanted=Ended.TAKEN_BACK)[-1].ended is Ended.TAKEN_BACK
    assert equal(world)


def test_a_broker_that_fits_no_count_holds_up_no_way_back() -> None:
    """Nobody changed the topic: the audit tells it."""
    world = committed(Coordinator.NEW)
    tools = begun(world)
    assert gone_on(tools, RunAct.CREATE_PARTITIONS).ended is Ended.PAUSED
    turn_back(tools, yes(), tools.runs.recent(1)[0])
    outcome = gone_on(replace(tools, views=cast("PlacementViews", Unfit(world))))
    assert (outcome.ended, "broker 2 fits no count" in outcome.detail) == (Ended.WAITING, True)
    assert equal(world)


def test_the_way_back_commits_again_where_brokers_restart_meanwhile() -> None:
    """After it committed everything where it was."""
    world = committed(Coordinator.NEW)
    tools = begun(world)
    assert gone_on(tools, RunAct.CREATE_PARTITIONS).ended is Ended.PAUSED
    world.world.expand(12)
    turn_back(tools, yes(), tools.runs.recent(1)[0])
    assert gone_on(tools, RunAct.COMPARE).ended is Ended.PAUSED
    for node in (1, 2, 3):
        world.world.restart(node)
    with pytest.raises(Conflict, match=r"placed by 12 partitions, not by 5.*since step back .. restore S"):
        gone_on(tools)
    assert in_the_end(tools, wanted=Ended.TAKEN_BACK)[-1].ended is Ended.TAKEN_BACK
    assert equal(world)


def test_what_was_not_shown_is_not_accepted() -> None:
    """A broker is down, and only that is said: the count is shown once it is up."""
    world = committed(Coordinator.NEW)
    tools = begun(world)
    assert gone_on(tools, RunAct.PLACE).ended is Ended.PAUSED
    world.world.expand(12)
    world.world.stop(2)
    world.dies = {2}
    assert "broker 2 does not run" in gone_on(tools, patience_s=5.0).detail
    assert "has 12 partitions by now; run it again" in gone_on(tools, patience_s=5.0, seen=True).detail
    assert "go on to 12: --seen" in gone_on(tools, patience_s=5.0, seen=True).detail
    assert in_the_end(tools)[-1].ended is Ended.DONE
    assert equal(world)


def test_what_was_left_by_a_killed_process_is_shown_first() -> None:
    """It was journaled, and nobody saw it."""
    world = committed(Coordinator.NEW)
    tools = begun(world)
    assert gone_on(tools, RunAct.RESTORE).ended is Ended.PAUSED
    refused = next(each for each in GROUPS if partition_of(each, 5) != partition_of(each, 8))
    world.uncommitted = {refused: "TOPIC_AUTHORIZATION_FAILED (29)"}
    with pytest.raises(Killed):
        gone_on(replace(tools, crash=KillAt(4)))
    asked = gone_on(tools, seen=True)
    assert (asked.ended, "(29)" in asked.detail) == (Ended.WAITING, True)
    assert "restore" in asked.step


def test_what_is_said_while_a_broker_is_down_counts() -> None:
    """It is started, and nobody is asked once more."""
    world = committed(Coordinator.NEW)
    tools = begun(world)
    assert gone_on(tools, RunAct.PLACE).ended is Ended.PAUSED
    world.world.expand(12)
    assert "go on to 12" in gone_on(tools).detail
    world.world.stop(2)
    outcomes = [gone_on(tools, patience_s=5.0, seen=True)]
    while outcomes[-1].ended is not Ended.DONE and len(outcomes) < 10:
        outcomes.append(gone_on(tools, patience_s=5.0, seen="compare" in outcomes[-1].step))
    assert outcomes[-1].ended is Ended.DONE
    assert not any("go on to 12" in each.detail for each in outcomes)
    assert equal(world)


@dataclass(slots=True)
class Unfit:
    """The same brokers; nothing that broker 2 answers fits a count."""

    world: Expansible

    def __getattr__(self, name: str) -> object:
        return getattr(self.world, name)

    def look(self) -> PlacementView:
        """See the port."""
        found = self.world.look()
        answers = [
            replace(each, named=dict.fromkeys(each.named, 99)) if each.node_id == 2 else each
            for each in found.answers
        ]
        return replace(found, answers=tuple(answers))


@dataclass(slots=True)
class Cut:
    """The same journal; its process is killed where it reopens one more than so many steps."""

    runs: ClusterRuns
    left: int

    def __getattr__(self, name: str) -> object:
        return getattr(self.runs, name)

    def put(self, run: str, record: RunStepRecord) -> None:
        """See the port."""
        done = self.runs.steps(run).get(record.step)
        if done is not None and done.state is StepState.DONE:
            self.left -= 1
            if not self.left:
                raise Killed
        self.runs.put(run, record)
