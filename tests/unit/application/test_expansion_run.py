"""An expansion of the offsets topic, step by step: what it waits for, what it refuses, where it stops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupshift.application.expansion_plan import from_json
from groupshift.application.expansion_run import begin, demand_same, go_on, plan_run, statuses, turn_back
from groupshift.application.expansion_work import ExpansionTools
from groupshift.application.run_engine import Ended, RunOutcome
from groupshift.application.run_work import RunTerms
from groupshift.domain.cluster import COUNT
from groupshift.domain.placement import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.domain.step import RunAct, Stand
from groupshift.errors import Conflict, Rejected
from groupshift.log.releases import Coordinator
from groupshift.ports.journal import ClusterRun, RunState
from support.simulated_downgrade import yes
from support.simulated_expansion import GROUPS, Expansible, committed, equal, tools_of

MOVING = [group for group in GROUPS if partition_of(group, 5) != partition_of(group, 8)]
RESTARTS = ("restart 2", "restart 3", "restart 1")
BOTH = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])


def begun(tools: ExpansionTools, to: int = 8) -> ClusterRun:
    """A run of a plan to ``to`` partitions."""
    return begin(tools, plan_run(tools, to))


def gone_on(tools: ExpansionTools, **changes: object) -> RunOutcome:
    """The latest run, gone on with."""
    terms = yes(**changes)
    return go_on(tools, terms, tools.runs.recent(1)[0])


def until(tools: ExpansionTools, *acts: RunAct) -> RunOutcome:
    """Go on, and pause before the first step of another kind than these."""
    return gone_on(tools, acts=frozenset(acts))


BEFORE_DELETE = (
    RunAct.DRAIN,
    RunAct.SNAPSHOT,
    RunAct.AGREE,
    RunAct.APPROVE,
    RunAct.COMPARE,
    RunAct.PROVE,
    RunAct.REHEARSE,
)


@BOTH
def test_every_offset_is_there_after_the_move_and_after_leaders_moved(kind: Coordinator) -> None:
    """The count of the file is set with the restart; groups that stay are not touched."""
    world = committed(kind)
    tools = tools_of(world)
    begun(tools)
    outcome = gone_on(tools)
    assert (outcome.ended, outcome.detail) == (Ended.DONE, "")
    assert equal(world)
    assert world.asked == ["commit", "delete", "create", *RESTARTS, "commit"]
    assert world.properties == {node: {COUNT: "8"} for node in (1, 2, 3)}
    for partition in range(8):
        world.world.bounce(partition)
    assert equal(world)
    assert all(each.stand is Stand.DONE for each in statuses(tools.runs, tools.runs.recent(1)[0]))


@BOTH
def test_members_are_waited_for_by_name_and_the_run_ends_without_a_change(kind: Coordinator) -> None:
    """Whoever was stopped may start again; the cluster is free for another plan."""
    world = committed(kind)
    world.members = {"g3", "g4"}
    tools = tools_of(world)
    run = begun(tools)
    outcome = gone_on(tools, patience_s=10.0)
    assert outcome.ended is Ended.WAITING
    assert "2 groups: g3, g4" in outcome.detail
    assert world.asked == []
    assert tools.runs.find(run.run).state is RunState.ENDED
    assert tools.clock.now_ms() >= 10_000
    begun(tools, 10)


def test_of_many_groups_with_members_the_first_are_named_and_who_names_all() -> None:
    """A sentence stays one, and nobody has to guess."""
    world = committed(Coordinator.NEW)
    world.members = set(GROUPS)
    tools = tools_of(world)
    begun(tools)
    detail = gone_on(tools, patience_s=5.0).detail
    assert "24 groups: g0, g1, g10" in detail
    assert "and 4 more (groupshift audit placement --json names all); stop them" in detail


def test_a_plan_that_is_not_approved_changes_nothing() -> None:
    """Nobody there to answer keeps the run; a no ends it."""
    world = committed(Coordinator.NEW)
    tools = tools_of(world)
    begun(tools)
    assert gone_on(tools, decide=lambda _asked: None).ended is Ended.WAITING
    assert gone_on(tools, decide=lambda _asked: False).ended is Ended.DECLINED
    assert world.asked == []
    assert tools.runs.recent(1)[0].state is RunState.ENDED


def test_an_approval_of_another_count_or_of_other_groups_is_void() -> None:
    """A group that came meanwhile and would move was not approved."""
    world = committed(Coordinator.NEW)
    tools = tools_of(world)
    run = begun(tools)
    with pytest.raises(Rejected, match=r"--to 10 was asked for, and run .* to 8 partitions is open"):
        demand_same(run, 10)
    until(tools, RunAct.DRAIN, RunAct.SNAPSHOT, RunAct.AGREE)
    new = next(
        f"new{number}"
        for number in range(99)
        if partition_of(f"new{number}", 5) != partition_of(f"new{number}", 8)
    )
    assert world.commit_as_client(new, 5, 1)
    with pytest.raises(
        Conflict, match=f"approval void, nothing was changed: group {new}: not there is now moves"
    ):
        gone_on(tools)
    assert world.asked == []


def test_a_commit_after_the_snapshot_stops_before_anything_is_deleted() -> None:
    """A simple consumer is refused by nobody: the comparison with the snapshot sees it."""
    world = committed(Coordinator.OLD)
    tools = tools_of(world)
    run = begun(tools)
    assert until(tools, RunAct.DRAIN, RunAct.SNAPSHOT, RunAct.AGREE).ended is Ended.PAUSED
    assert world.commit_as_client("g1", 999, 1)
    outcome = gone_on(tools)
    assert (outcome.ended, world.asked) == (Ended.FAILED, [])
    assert "g1: 101 is 999" in outcome.detail
    assert go_on(tools, yes(), turn_back(tools, yes(), run)).ended is Ended.TAKEN_BACK
    assert world.asked == []


@pytest.mark.parametrize("group", [MOVING[0], MOVING[-1]])
def test_a_commit_between_proof_and_deletion_is_not_deleted(group: str) -> None:
    """The deletion looks once more at what it takes away; the process before was killed right before it."""
    world = committed(Coordinator.NEW)
    tools = tools_of(world)
    run = begun(tools)
    assert until(tools, *BEFORE_DELETE).ended is Ended.PAUSED
    tools.runs.put(run.run, _written_down(tools, run))
    assert world.commit_as_client(group, 999, 1)
    with pytest.raises(Conflict, match=f"offsets of 1 group: {group} changed since snapshot S"):
        gone_on(tools)
    assert world.asked == ["commit"]
    assert go_on(tools, yes(), turn_back(tools, yes(), run)).ended is Ended.WAITING
    assert world.answered(group) == 999


def _written_down(tools: ExpansionTools, run: ClusterRun):
    """A deletion that a killed process wrote down."""
    from groupshift.ports.journal import RunStepRecord, StepState

    step = next(each for each in from_json(run.plan).steps if each.act is RunAct.DELETE_GROUPS)
    token = tools.runs.claim(run.run, "killed", 1)
    return RunStepRecord(step=step.key, state=StepState.INTENDED, token=token, at_ms=1)


@BOTH
def test_before_partitions_are_made_it_goes_back_whole(kind: Coordinator) -> None:
    """Deleted groups are committed again at the coordinators that they had."""
    world = committed(kind)
    tools = tools_of(world)
    run = begun(tools)
    assert until(tools, *BEFORE_DELETE, RunAct.DELETE_GROUPS).ended is Ended.PAUSED
    assert {world.answered(group) for group in MOVING} == {-1}
    outcome = go_on(tools, yes(), turn_back(tools, yes(), run))
    assert outcome.ended is Ended.TAKEN_BACK
    assert (equal(world), len(world.world.logs)) == (True, 5)


@BOTH
def test_after_partitions_were_made_it_only_goes_forward(kind: Coordinator) -> None:
    """And never gets stuck there."""
    world = committed(kind)
    tools = tools_of(world)
    run = begun(tools)
    until(tools, *BEFORE_DELETE, RunAct.DELETE_GROUPS, RunAct.CREATE_PARTITIONS)
    with pytest.raises(Rejected, match="the way back is closed: partitions never become fewer"):
        turn_back(tools, yes(), run)
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)


def test_a_controller_that_refuses_is_met_before_groups_are_deleted() -> None:
    """Too few brokers for the replicas of new partitions, or no right to make them."""
    world = committed(Coordinator.NEW)
    world.refuses = "8 partitions of __consumer_offsets: INVALID_REPLICATION_FACTOR (38)"
    tools = tools_of(world)
    begun(tools)
    with pytest.raises(Rejected, match="INVALID_REPLICATION_FACTOR"):
        gone_on(tools)
    assert world.asked == []


def test_a_count_that_somebody_else_changed_stops_the_run_which_can_go_back() -> None:
    """Brokers still count what they counted: what was deleted is committed there again."""
    world = committed(Coordinator.NEW)
    tools = tools_of(world)
    run = begun(tools)
    until(tools, *BEFORE_DELETE, RunAct.DELETE_GROUPS)
    world.world.expand(12)
    with pytest.raises(Conflict, match="the offsets topic has 12 partitions, neither 5 nor 8"):
        gone_on(tools)
    back = go_on(tools, yes(), turn_back(tools, yes(), run))
    assert back.ended is Ended.WAITING
    assert "X04: __consumer_offsets has 12 partitions and all brokers count 5" in back.detail
    assert equal(world)
    assert gone_on(tools, seen=True).ended is Ended.TAKEN_BACK


@BOTH
def test_a_broker_that_was_not_restarted_is_found_and_restarted(kind: Coordinator) -> None:
    """Whatever its driver said: each broker is asked by which count it coordinates."""
    world = committed(kind)
    world.lies = {3}
    tools = tools_of(world)
    begun(tools)
    assert gone_on(tools).ended is Ended.DONE
    assert world.asked.count("restart 3") == 2
    assert equal(world)


def test_a_broker_that_does_not_come_up_is_started_again() -> None:
    """Killed while it was restarted: the next process starts it."""
    world = committed(Coordinator.OLD)
    world.dies = {3}
    tools = tools_of(world)
    begun(tools)
    outcome = gone_on(tools)
    assert (outcome.ended, outcome.step) == (Ended.FAILED, "11 restart 3")
    assert "broker 3 does not run: killed" in outcome.detail
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)


def test_no_broker_is_restarted_while_somebody_is_there() -> None:
    """Two brokers could serve one group; when they are gone it goes on."""
    world = committed(Coordinator.NEW)
    tools = tools_of(world)
    begun(tools)
    until(tools, *BEFORE_DELETE, RunAct.DELETE_GROUPS, RunAct.CREATE_PARTITIONS)
    stays = next(group for group in GROUPS if group not in MOVING)
    world.members = {stays}
    with pytest.raises(Conflict, match=f"members are in 1 group: {stays}; stop them, then run it again"):
        gone_on(tools)
    world.members = set()
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)


def test_members_that_come_too_early_are_named_and_nothing_is_lost() -> None:
    """Their coordinator refuses a commit for them; when they are stopped it goes on."""
    world = committed(Coordinator.NEW)
    tools = tools_of(world)
    begun(tools)
    assert gone_on(tools, acts=frozenset(RunAct) - {RunAct.RESTORE}).ended is Ended.PAUSED
    world.members = {MOVING[0]}
    waiting = gone_on(tools)
    assert waiting.ended is Ended.WAITING
    assert "UNKNOWN_MEMBER_ID" in waiting.detail
    world.members = set()
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)


def test_a_person_may_restart_brokers_and_the_cluster_tells_when_it_is_done() -> None:
    """The count that a broker uses is the proof."""
    world = committed(Coordinator.NEW)
    world.knows = False
    tools = tools_of(world)
    begun(tools)
    for node in (2, 3, 1):
        waiting = gone_on(tools)
        assert waiting.ended is Ended.WAITING
        assert f"restart broker {node} (broker {node} counts 5)" in waiting.detail
        world.world.restart(node)
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)


def test_a_count_that_brokers_have_not_taken_up_is_taken_up_by_a_run() -> None:
    """The latent bomb: somebody made partitions long ago, and restarted nobody."""
    world = committed(Coordinator.OLD)
    world.world.expand(8)
    tools = tools_of(world)
    begun(tools)
    assert gone_on(tools).ended is Ended.DONE
    assert "create" not in world.asked
    assert equal(world)


def test_what_forbids_a_run_is_said_before_it_begins() -> None:
    """Nothing is journaled of it."""
    world = committed(Coordinator.NEW)
    world.world.stop(2)
    tools = tools_of(world)
    planned = plan_run(tools, 8)
    assert [each.rule for each in planned.against] == ["X02"]
    with pytest.raises(
        Rejected, match=r"may not begin, nothing was changed: X02: partition .* is not in sync"
    ):
        begin(tools, planned)
    assert tools.runs.recent(9) == ()
    for count in (3, 5):
        with pytest.raises(
            Rejected, match=f"--to {count}: .* has 5 partitions already and a count can only grow"
        ):
            plan_run(tools, count)


def test_a_second_process_voids_the_first() -> None:
    """The one that was asleep changes nothing more."""
    world = committed(Coordinator.NEW)
    tools = tools_of(world)
    run = begun(tools)

    def while_asked(_asked: object) -> bool:
        tools.runs.claim(run.run, "another", 1)
        return True

    with pytest.raises(Conflict):
        go_on(tools, RunTerms(decide=while_asked, who="me"), run)
    assert world.asked == []
    assert gone_on(tools).ended is Ended.DONE


def doomed(kind: Coordinator, **more: Any) -> Expansible:
    """A group that moves has a second commit, of a partition that topic t does not have (or ``more``)."""
    from groupshift.domain.commit_places import TopicNow

    world = committed(kind)
    fields = {"topic": "t", "partition": 7, "offset": 70} | more
    node = world.coordinator(MOVING[0])
    world.world.commit_at(node, [OffsetRow(group=MOVING[0], **fields)])
    world.now = {
        "t": TopicNow(topic="t", topic_id="today", epochs={0: 0}),
        "gone": TopicNow(topic="gone", exists=False),
    }
    return world


@BOTH
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "the topic has 1 partition"),
        ({"topic": "gone", "partition": 1}, "there is no such topic"),
    ],
)
def test_f09_what_cannot_be_given_back_is_asked_about_once_and_the_rest_goes_on(
    kind: Coordinator, more: dict[str, Any], why: str
) -> None:
    """The plan names it, the rehearsal names it and no healthy offset; dropped, it is in the journal."""
    world = doomed(kind, **more)
    tools = tools_of(world)
    planned = plan_run(tools, 8)
    (named,) = [each for each in planned.findings if each.rule == "X14"]
    place = f"{more.get('topic', 't')}-{more.get('partition', 7)}"
    assert (named.verdict.value, why in named.reason, place in named.reason) == ("inconclusive", True, True)
    run = begin(tools, planned)
    waiting = gone_on(tools)
    assert waiting.ended is Ended.WAITING
    assert f"1 of {len(MOVING) + 1} offsets are not as in the snapshot" in waiting.detail
    assert f"{place}: it cannot be committed again ({why})" in waiting.detail
    assert world.asked == ["commit"]
    done = gone_on(tools, seen=True)
    assert (done.ended, done.detail) == (Ended.DONE, "")
    assert equal(world)
    (rehearsed,) = [
        record.result for record in tools.runs.steps(run.run).values() if "dropped" in record.result
    ]
    assert [each[:3] for each in rehearsed["dropped"]] == [
        [MOVING[0], more.get("topic", "t"), more.get("partition", 7)]
    ]


def test_f09_a_person_who_does_not_drop_it_loses_nothing() -> None:
    """Asked again, the run waits again; taken back, every offset is where it was."""
    world = doomed(Coordinator.NEW)
    tools = tools_of(world)
    run = begun(tools)
    assert gone_on(tools).ended is Ended.WAITING
    assert go_on(tools, yes(), turn_back(tools, yes(), run)).ended is Ended.TAKEN_BACK
    assert equal(world)
    assert "delete" not in world.asked


@BOTH
def test_f03_a_commit_of_a_former_topic_is_never_given_back(kind: Coordinator) -> None:
    """A coordinator answers it by name only: it is named before, asked about, and not committed."""
    world = doomed(kind)
    world.now = {"t": replace(world.now["t"], epochs={0: 0, 7: 0})}
    world.former = {(MOVING[0], "t", 7)}
    tools = tools_of(world)
    begun(tools)
    waiting = gone_on(tools)
    assert waiting.ended is Ended.WAITING
    said = f"{MOVING[0]!r} t-7: it cannot be committed again (it belongs to a former topic of that name)"
    assert said in waiting.detail
    assert gone_on(tools, seen=True).ended is Ended.DONE
    left = {(row.group, row.topic, row.partition) for row in world.take(MOVING).offsets}
    assert (MOVING[0], "t", 7) not in left
    assert len(left) == len(MOVING)


def test_s11_a_run_is_approved_by_another_person_than_asked_for_it() -> None:
    """With four eyes; by the account, through every process that goes on with it."""
    from groupshift.settings import ApprovalSettings

    tools = tools_of(committed(Coordinator.NEW))
    begun(tools)
    rule = ApprovalSettings(four_eyes=True)
    asked = gone_on(tools, approval=rule, who="ann (uid 1)", decide=lambda _asked: None)
    assert asked.ended is Ended.WAITING
    for who in ("ann (uid 1)", "bob (uid 1, ann)"):
        with pytest.raises(Rejected, match=r"asked for this and may not approve it"):
            gone_on(tools, approval=rule, who=who)
    assert gone_on(tools, approval=rule, who="bob (uid 2)").ended is Ended.DONE
    steps = tools.runs.steps(tools.runs.recent(1)[0].run).values()
    approvals = [each for each in steps if "requester" in each.intent]
    assert approvals
    assert {(each.intent["requester"], each.result["by"]) for each in approvals} == {
        ("ann (uid 1)", "bob (uid 2)")
    }


def test_s11_a_run_is_approved_by_those_who_are_named() -> None:
    """A no of anybody else is taken."""
    from groupshift.settings import ApprovalSettings

    tools = tools_of(committed(Coordinator.OLD))
    begun(tools)
    rule = ApprovalSettings(approvers=("bob",))
    with pytest.raises(Rejected, match=r"approval\.approvers names bob"):
        gone_on(tools, approval=rule, who="bob (uid 1, ann)")
    assert gone_on(tools, approval=rule, who="ann", decide=lambda _asked: False).ended is Ended.DECLINED
