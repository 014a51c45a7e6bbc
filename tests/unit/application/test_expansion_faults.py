"""What may go wrong around an expansion, and that no offset is lost by it, nor a run stuck."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.application.expansion_run import begin, go_on, plan_run, turn_back
from groupshift.application.expansion_work import ExpansionTools
from groupshift.application.run_engine import Ended, RunOutcome
from groupshift.domain.placement import partition_of
from groupshift.domain.step import RunAct
from groupshift.errors import Conflict, Transient
from groupshift.log.releases import Coordinator
from groupshift.ports.journal import ClusterRun, RunStepRecord, StepState
from support.placement_clusters import commit
from support.simulated_downgrade import KillAt, Killed, yes
from support.simulated_expansion import GROUPS, Expansible, committed, equal, tools_of

MOVING = [group for group in GROUPS if partition_of(group, 5) != partition_of(group, 8)]
BOTH = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])


def begun(world: Expansible) -> tuple[ExpansionTools, ClusterRun]:
    """A run to 8 partitions."""
    tools = tools_of(world)
    return tools, begin(tools, plan_run(tools, 8))


def gone_on(tools: ExpansionTools, *without: RunAct, **changes: object) -> RunOutcome:
    """The run, gone on with, up to the first of these acts."""
    acts = frozenset(RunAct) - frozenset(without)
    return go_on(tools, yes(acts=acts, **changes), tools.runs.recent(1)[0])


def test_what_a_client_committed_too_early_stays_unless_a_person_says_otherwise() -> None:
    """One that never was a member, between restart and restore; nothing of the others is held up."""
    world = committed(Coordinator.NEW)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.RESTORE).ended is Ended.PAUSED
    early = MOVING[0]
    assert world.commit_as_client(early, 3, 1)
    waiting = gone_on(tools)
    assert waiting.ended is Ended.WAITING
    assert "3 was committed since" in waiting.detail
    assert gone_on(tools, seen=True).ended is Ended.FAILED  # the comparison tells it once more
    assert gone_on(tools, seen=True).ended is Ended.DONE
    assert equal(world)


def test_what_is_accepted_is_what_was_shown() -> None:
    """Another client commits between the question and the answer: it is asked again."""
    world = committed(Coordinator.NEW)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.RESTORE).ended is Ended.PAUSED
    assert world.commit_as_client(MOVING[0], 3, 1)
    assert gone_on(tools).ended is Ended.WAITING
    assert world.commit_as_client(MOVING[1], 4, 1)
    again = gone_on(tools, seen=True)
    assert again.ended is Ended.WAITING
    assert "2 of" in again.detail
    assert gone_on(tools, seen=True).step == "15 compare V"


def test_a_commit_at_the_former_coordinator_is_not_moved_back() -> None:
    """A program that never is a member, after the deletion and before the restarts: a person decides."""
    world = committed(Coordinator.NEW)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.RESTART).ended is Ended.PAUSED
    late = MOVING[0]
    assert world.commit_as_client(late, 150, 1)
    waiting = gone_on(tools)
    assert (waiting.ended, waiting.step) == (Ended.WAITING, "14 restore S")
    assert "150 was committed at its former coordinator since" in waiting.detail
    assert world.answered(late) == -1
    assert world.commit_as_client(late, 150, 1)  # set by hand
    assert "150 was committed since" in gone_on(tools).detail
    assert gone_on(tools, seen=True).ended is Ended.FAILED
    assert gone_on(tools, seen=True).ended is Ended.DONE
    assert equal(world)


def test_the_newest_commit_at_a_former_coordinator_is_what_counts() -> None:
    """An older record elsewhere, which is as the snapshot, hides no later commit of a client."""
    world = committed(Coordinator.NEW)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.RESTORE).ended is Ended.PAUSED
    group = MOVING[0]
    home = {partition_of(group, 8)}
    late, *_, older = (place for place in range(8) if place not in home)
    for place, offset, ms in ((late, 555, 9_000), (older, world.told[group], 1)):
        log = world.world.logs[place]
        log.append(commit(group, place, at=len(log), offset=offset, ms=ms))
    waiting = gone_on(tools)
    assert (waiting.ended, waiting.step) == (Ended.WAITING, "14 restore S")
    assert "555 was committed at its former coordinator since" in waiting.detail


@BOTH
def test_a_group_that_does_not_answer_is_not_taken_for_one_without_offsets(kind: Coordinator) -> None:
    """Its coordinator loads: nothing is committed over what it may have."""
    world = committed(kind)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.RESTORE).ended is Ended.PAUSED
    done = len(world.asked)
    world.silent = {MOVING[3]}
    with pytest.raises(Transient, match=f"group '{MOVING[3]}' is not answered"):
        gone_on(tools)
    assert len(world.asked) == done
    world.silent = set()
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)


def test_whoever_may_not_commit_is_told_before_anything_is_deleted() -> None:
    """The rehearsal commits everything once, where it is."""
    world = committed(Coordinator.NEW)
    world.uncommitted = dict.fromkeys(MOVING, "GROUP_AUTHORIZATION_FAILED (30)")
    tools, run = begun(world)
    waiting = gone_on(tools)
    assert (waiting.ended, waiting.step) == (Ended.WAITING, "07 rehearse S")
    assert "GROUP_AUTHORIZATION_FAILED (30)" in waiting.detail
    assert "let this login read group and topic where it says 29 or 30" in waiting.detail
    assert "delete" not in world.asked
    assert go_on(tools, yes(), turn_back(tools, yes(), run)).ended is Ended.TAKEN_BACK
    assert equal(world)


def test_one_offset_that_nobody_can_commit_any_more_holds_up_no_other() -> None:
    """Its topic was deleted while brokers restarted: named, accepted, and the run comes to its end."""
    world = committed(Coordinator.NEW)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.RESTORE).ended is Ended.PAUSED
    lost = MOVING[0]
    world.uncommitted = {lost: "UNKNOWN_TOPIC_OR_PARTITION (3)"}
    waiting = gone_on(tools)
    assert waiting.ended is Ended.WAITING
    assert "UNKNOWN_TOPIC_OR_PARTITION (3)" in waiting.detail
    for ended in (Ended.FAILED, Ended.DONE):
        assert gone_on(tools, seen=True).ended is ended
    assert {group for group, offset in world.told.items() if world.answered(group) != offset} == {lost}


def test_a_sick_topic_is_met_before_groups_are_deleted() -> None:
    """Brokers will be stopped one after the other: a partition that is short already would be gone."""
    world = committed(Coordinator.NEW)
    world.sick = "payments-3 is not in sync on broker 2"
    tools, _ = begun(world)
    stopped = gone_on(tools)
    assert (stopped.ended, stopped.step, world.asked) == (Ended.FAILED, "06 prove 8", [])
    assert "payments-3 is not in sync on broker 2" in stopped.detail
    world.sick = ""
    assert gone_on(tools).ended is Ended.DONE


def test_a_group_that_came_before_a_deletion_that_was_cut_off_is_not_left_behind() -> None:
    """Clients ran for a day between two processes: what the snapshot has not is not deleted."""
    world = committed(Coordinator.OLD)
    tools, run = begun(world)
    assert gone_on(tools, RunAct.DELETE_GROUPS).ended is Ended.PAUSED
    token = tools.runs.claim(run.run, "killed", 1)
    key = "08 delete-groups __consumer_offsets"
    tools.runs.put(run.run, RunStepRecord(step=key, state=StepState.INTENDED, token=token, at_ms=1))
    names = (f"new{number}" for number in range(99))
    new = next(name for name in names if partition_of(name, 5) != partition_of(name, 8))
    assert world.commit_as_client(new, 5, 1)
    with pytest.raises(Conflict, match=f"offsets of 1 group: {new} changed since snapshot S"):
        gone_on(tools)
    assert "new" in go_on(tools, yes(), turn_back(tools, yes(), run)).detail
    assert gone_on(tools, seen=True).ended is Ended.TAKEN_BACK
    assert equal(world)


def test_a_run_that_was_taken_back_meanwhile_deletes_nothing_more() -> None:
    """Each batch is fenced."""
    world = committed(Coordinator.NEW)
    tools, run = begun(world)
    assert gone_on(tools, RunAct.DELETE_GROUPS).ended is Ended.PAUSED
    take = world.take

    def overtaken(*arguments: object, **named: object):
        found = take(*arguments, **named)  # type: ignore[arg-type]
        tools.runs.claim(run.run, "another", 1)
        return found

    class Reader:
        """As the world, and overtaken while it reads."""

        take = staticmethod(overtaken)
        cluster_id = staticmethod(world.cluster_id)
        close = staticmethod(world.close)

    with pytest.raises(Conflict):
        gone_on(replace(tools, reader=Reader()))
    assert "delete" not in world.asked


def test_what_stays_a_difference_is_to_be_taken_back() -> None:
    """A commit between two snapshots: the next command that is shown is the one that helps."""
    world = committed(Coordinator.NEW)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.COMPARE).ended is Ended.PAUSED
    assert world.commit_as_client(MOVING[0], 999, 1)
    stopped = gone_on(tools)
    assert (stopped.ended, stopped.hopeless, stopped.undo) == (Ended.FAILED, True, ())


def test_who_accepts_what_cannot_be_committed_any_more_goes_on() -> None:
    """The topic of an offset is gone: it is left out, all others are restored."""
    world = committed(Coordinator.NEW)
    world.uncommitted = {MOVING[0]: "UNKNOWN_TOPIC_OR_PARTITION (3)"}
    tools, _ = begun(world)
    steps = [gone_on(tools).step]
    for _ in range(6):
        outcome = gone_on(tools, seen=True)
        steps.append(outcome.step)
        if outcome.ended is Ended.DONE:
            break
    assert steps == ["07 rehearse S", "14 restore S", "15 compare V", ""]
    assert {group for group, offset in world.told.items() if world.answered(group) != offset} == {MOVING[0]}


@BOTH
def test_a_commit_after_the_deletion_is_met_while_the_way_back_is_open(kind: Coordinator) -> None:
    """Also of a group that nobody knew: no partition is made."""
    for late in (MOVING[0], "late-3"):
        world = committed(kind)
        tools, run = begun(world)
        assert gone_on(tools, RunAct.CREATE_PARTITIONS).ended is Ended.PAUSED
        assert partition_of("late-3", 5) != partition_of("late-3", 8)
        assert world.commit_as_client(late, 150, 1)
        with pytest.raises(Conflict, match=f"1 group: {late} came or committed since groups were deleted"):
            gone_on(tools)
        assert (len(world.world.logs), world.answered(late)) == (5, 150)
        go_on(tools, yes(), turn_back(tools, yes(), run))
        for _ in range(3):
            ended = gone_on(tools, seen=True).ended
        assert (ended, equal(world)) == (Ended.TAKEN_BACK, True)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_stale_copy_on_old_coordinators_is_told_and_the_run_ends(nodes: int) -> None:
    """A program that commits between the partitions and the restarts: what it said is shown, and accepted."""
    world = committed(Coordinator.OLD, nodes=nodes)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.RESTART).ended is Ended.PAUSED
    assert world.commit_as_client(MOVING[0], 150, 1)
    details = []
    for _ in range(8):
        outcome = gone_on(tools, seen=bool(details))
        details.append(outcome.detail)
        if outcome.ended is Ended.DONE:
            break
    assert outcome.ended is Ended.DONE
    assert any("150" in each for each in details)
    others = {group: offset for group, offset in world.told.items() if group != MOVING[0]}
    assert {group: world.answered(group) for group in others} == others


def test_a_broker_that_dies_while_it_is_placed_is_started_again() -> None:
    """Its driver had lied first; then it did not come up."""
    world = committed(Coordinator.NEW)
    world.lies = {2}
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.PLACE).ended is Ended.PAUSED
    world.dies = {2}
    stopped = gone_on(tools)
    assert (stopped.ended, stopped.step) == (Ended.FAILED, "13 place 8")
    assert "broker 2 does not run: killed" in stopped.detail
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)


def test_brokers_that_all_deviate_are_restarted_one_a_run() -> None:
    """Never two of them at once; each run says whose turn it is."""
    world = committed(Coordinator.NEW)
    world.lies = {1, 3}
    tools, _ = begun(world)
    stopped = gone_on(tools)
    assert (stopped.ended, "not adopted by broker 3" in stopped.detail) == (Ended.FAILED, True)
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)


def test_an_audit_of_another_process_is_made_again() -> None:
    """It may be days old: clients are told to start by what is true now."""
    world = committed(Coordinator.NEW)
    tools, run = begun(world)
    assert gone_on(tools, RunAct.AUDIT).ended is Ended.PAUSED
    token = tools.runs.claim(run.run, "killed", 1)
    key = "16 audit __consumer_offsets"
    clean = {"against": [], "records": 1}
    tools.runs.put(
        run.run, RunStepRecord(step=key, state=StepState.ACTED, token=token, at_ms=1, result=clean)
    )
    world.world.stop(2)
    waiting = gone_on(tools)
    assert (waiting.ended, "X02" in waiting.detail) == (Ended.WAITING, True)


def test_offsets_that_another_process_left_are_committed_once_they_can_be() -> None:
    """It was killed after it journaled what it left: nobody accepts what is cured by now."""
    world = committed(Coordinator.OLD)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.RESTORE).ended is Ended.PAUSED
    world.members = {MOVING[0]}
    assert "(25)" in gone_on(tools).detail
    with pytest.raises(Killed):
        gone_on(replace(tools, crash=KillAt(2)))
    world.members.clear()
    assert gone_on(tools, seen=True).ended is Ended.DONE
    assert equal(world)


def test_what_nobody_was_told_to_do_was_not_seen() -> None:
    """The process that was to say it was killed: the next one says it first, whatever was answered."""
    world = committed(Coordinator.NEW, count=6)
    world.knows = False
    tools = tools_of(world)
    begin(tools, plan_run(tools, 12))
    first = gone_on(tools, RunAct.RESTART)
    assert first.ended is Ended.PAUSED
    with pytest.raises(Killed):
        gone_on(replace(tools, crash=KillAt(4)))
    shown = gone_on(tools, seen=True)
    assert (shown.ended, shown.step) == (Ended.WAITING, first.step)
    assert "say --seen when it was started again" in shown.detail
    assert gone_on(tools, seen=True).step > first.step
