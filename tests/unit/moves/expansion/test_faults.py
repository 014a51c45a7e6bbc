"""What may go wrong around an expansion on the engine, and that no offset is lost by it, nor a run stuck."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupshift.domain.commit_places import TopicNow
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.rows import OffsetRow
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.questions_and_approvers import Approvers
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.facts import ExpansionRequest
from groupshift.ports.clock import CrashPoint
from groupshift.ports.spark_jobs import Compared
from support.driven_expansion import BOTH, MOVING, STAYING, accepted, accepting, begun, killed
from support.driven_moves import Comparisons, Driver, answered, declines, detail, nobody, where
from support.placement_clusters import commit
from support.simulated_expansion import GROUPS, Expansible, committed, driver_of, equal


def run_to(world: Expansible, kind: str, point: CrashPoint = CrashPoint.BEFORE_JOURNAL) -> tuple[Driver, str]:
    """A run to 8 partitions, up to the first step of this kind."""
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, kind, point)
    return driver, run


# before anything is changed


def test_of_many_groups_with_members_the_first_are_named_and_who_names_all() -> None:
    """A sentence stays one, and nobody has to guess."""
    world = committed(Coordinator.NEW)
    world.members = set(GROUPS)
    driver = driver_of(world)
    said = detail(driver.go_on(begun(driver), patience_s=5.0))
    assert "24 groups: g0, g1, g10" in said
    assert "and 4 more (groupshift audit placement --json names all); stop them" in said


def test_what_forbids_a_run_is_said_before_it_begins() -> None:
    """Nothing is journaled of it."""
    world = committed(Coordinator.NEW)
    world.world.stop(2)
    driver = driver_of(world)
    with pytest.raises(Rejected, match=r"not ready, nothing was journaled: X02: partition .* is not in sync"):
        begun(driver)
    for count in (3, 5):
        with pytest.raises(Rejected, match=f"--to {count}: .* has 5 partitions already and a count can only"):
            begun(driver, count)
    with pytest.raises(Rejected, match=r"--to 100001: no cluster takes more than 100,000 partitions"):
        begun(driver, 100_001)
    assert driver.runs.recent(9) == ()


def test_a_controller_that_refuses_is_met_before_groups_are_deleted() -> None:
    """Too few brokers for the replicas of new partitions, or no right to make them."""
    world = committed(Coordinator.NEW)
    world.refuses = "8 partitions of __consumer_offsets: INVALID_REPLICATION_FACTOR (38)"
    driver = driver_of(world)
    with pytest.raises(Rejected, match="INVALID_REPLICATION_FACTOR"):
        driver.go_on(begun(driver))
    assert world.asked == []


def test_a_second_process_voids_the_first() -> None:
    """The one that was asleep changes nothing more."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)

    def while_asked(question: Any) -> Any:
        driver.claim(run)
        return answered(Choice.APPROVE)(question)

    with pytest.raises(Conflict):
        driver.go_on(run, decide=while_asked)
    assert world.asked == []
    assert where(driver.go_on(run)) == ("finalised", "")


def test_s11_a_run_is_approved_by_another_person_than_asked_for_it() -> None:
    """With four eyes; by the account, through every process that goes on with it."""
    driver = driver_of(committed(Coordinator.NEW))
    driver.approvers = Approvers(four_eyes=True)
    ann, alias, bob = "ann (uid 1)", "bob (uid 1, ann)", "bob (uid 2)"
    run = driver.begin(_to_8(), who=ann).run
    assert where(driver.go_on(run, who=ann, decide=nobody)) == ("waiting", "approve plan")
    for who in (ann, alias):
        with pytest.raises(Rejected, match=r"asked for this run and may not approve it"):
            driver.go_on(run, who=who, decide=answered(Choice.APPROVE, who))
    assert where(driver.go_on(run, who=bob, decide=answered(Choice.APPROVE, bob))) == ("finalised", "")
    approvals = [each for key, each in driver.runs.steps(run).items() if "/approve " in key]
    assert [(each.intent["requester"], each.result["by"]) for each in approvals] == [(ann, bob)]


def test_s11_a_run_is_approved_by_those_who_are_named() -> None:
    """A no of anybody else is taken."""
    driver = driver_of(committed(Coordinator.OLD))
    driver.approvers = Approvers(names=("bob",))
    run = begun(driver)
    alias = "bob (uid 1, ann)"
    with pytest.raises(Rejected, match=r"approval\.approvers names bob"):
        driver.go_on(run, who=alias, decide=answered(Choice.APPROVE, alias))
    assert where(driver.go_on(run, who="ann", decide=declines)) == ("declined", "approve plan")


def _to_8() -> Any:
    return ExpansionRequest(to=8)


def test_a_sick_topic_is_met_before_groups_are_deleted() -> None:
    """Brokers will be stopped one after the other: a partition that is short already would be gone."""
    world = committed(Coordinator.NEW)
    world.sick = "payments-3 is not in sync on broker 2"
    driver = driver_of(world)
    run = begun(driver)
    stopped = driver.go_on(run)
    assert (where(stopped), world.asked) == (("failed", "prove 8"), [])
    assert "payments-3 is not in sync on broker 2" in detail(stopped)
    assert not stopped.checked.only_rollback_helps, "whoever cures it goes on"
    world.sick = ""
    assert where(driver.go_on(run)) == ("finalised", "")


def test_whoever_may_not_commit_is_named_before_anything_is_deleted() -> None:
    """The rehearsal commits everything once, where it is."""
    world = committed(Coordinator.NEW)
    world.uncommitted = dict.fromkeys(MOVING, "GROUP_AUTHORIZATION_FAILED (30)")
    driver = driver_of(world)
    run = begun(driver)
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "rehearse S")
    assert "GROUP_AUTHORIZATION_FAILED (30)" in detail(waiting)
    assert "let this login read group and topic where it says 29 or 30" in detail(waiting)
    assert "delete" not in world.asked
    driver.roll_back(run)
    assert not driver.runs.find(run).state.is_open
    assert equal(world)


# what cannot be given back


def doomed(kind: Coordinator, **more: Any) -> Expansible:
    """A group that moves has a second commit, of a partition that topic t does not have (or ``more``)."""
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
    driver = driver_of(world)
    run = begun(driver)
    checks = driver.claim(run).plan.about["checks"]
    (named,) = [each for each in checks if each["rule"] == "X14"]
    place = f"{more.get('topic', 't')}-{more.get('partition', 7)}"
    assert named["verdict"] == "inconclusive"
    assert why in named["reason"]
    assert place in named["reason"]
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "rehearse S")
    assert f"1 of {len(MOVING) + 1} offsets are not as in the snapshot" in detail(waiting)
    assert f"{place}: it cannot be committed again ({why})" in detail(waiting)
    assert world.asked == ["commit"]
    assert where(accepted(driver, run, waiting)) == ("finalised", "")
    assert equal(world)
    (rehearsed,) = [each.result for each in driver.runs.steps(run).values() if "dropped" in each.result]
    assert [each[:3] for each in rehearsed["dropped"]] == [
        [MOVING[0], more.get("topic", "t"), more.get("partition", 7)]
    ]


def test_what_was_not_compared_is_not_called_equal_where_a_person_dropped_an_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What differs is what the person let go of, and passes; a field that nobody looked at stays one."""
    driver = driver_of(doomed(Coordinator.NEW))
    lacking = Finding(rule="EX06", verdict=Verdict.INCONCLUSIVE, reason="time of the commit was not compared")
    read = driver.comparisons.read

    def left(output: Path) -> Compared | None:
        found = read(output)
        return found and replace(found, findings=(*found.findings, lacking))

    monkeypatch.setattr(Comparisons, "read", lambda _, output: left(output))
    run = begun(driver)
    assert where(accepted(driver, run, driver.go_on(run))) == ("finalised", "")
    found = [each.result["findings"] for each in driver.runs.steps(run).values() if "findings" in each.result]
    verdicts = [{finding["rule"]: finding["verdict"] for finding in each} for each in found]
    assert len(verdicts) >= 2
    assert {each["EX06"] for each in verdicts} == {"inconclusive"}
    assert {"fail", "error"}.isdisjoint({verdict for each in verdicts for verdict in each.values()})


def test_f09_a_person_who_does_not_drop_it_loses_nothing() -> None:
    """Asked again, the run waits again; taken back, every offset is where it was."""
    world = doomed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    for _ in range(2):
        assert where(driver.go_on(run)) == ("waiting", "rehearse S")
    driver.roll_back(run)
    assert not driver.runs.find(run).state.is_open
    assert equal(world)
    assert "delete" not in world.asked


@BOTH
def test_f03_a_commit_of_a_former_topic_is_never_given_back(kind: Coordinator) -> None:
    """A coordinator answers it by name only: it is named before, asked about, and not committed."""
    world = doomed(kind)
    world.now = {"t": replace(world.now["t"], epochs={0: 0, 7: 0})}
    world.former = {(MOVING[0], "t", 7)}
    driver = driver_of(world)
    run = begun(driver)
    waiting = driver.go_on(run)
    said = f"{MOVING[0]!r} t-7: it cannot be committed again (it belongs to a former topic of that name)"
    assert said in detail(waiting)
    assert where(accepted(driver, run, waiting)) == ("finalised", "")
    left = {(row.group, row.topic, row.partition) for row in world.take(MOVING).offsets}
    assert (MOVING[0], "t", 7) not in left
    assert len(left) == len(MOVING)


def test_who_accepts_what_cannot_be_committed_any_more_goes_on() -> None:
    """The topic of an offset is gone: it is left out, all others are restored."""
    world = committed(Coordinator.NEW)
    world.uncommitted = {MOVING[0]: "UNKNOWN_TOPIC_OR_PARTITION (3)"}
    driver = driver_of(world)
    steps = [where(each)[1] for each in accepting(driver, begun(driver))]
    assert steps == ["rehearse S", "restore S", "compare V", ""]
    assert {group for group, offset in world.told.items() if world.answered(group) != offset} == {MOVING[0]}


def test_one_offset_that_nobody_can_commit_any_more_holds_up_no_other() -> None:
    """Its topic was deleted while brokers restarted: named, accepted, and the run comes to its end."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restore S")
    lost = MOVING[0]
    world.uncommitted = {lost: "UNKNOWN_TOPIC_OR_PARTITION (3)"}
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "restore S")
    assert "UNKNOWN_TOPIC_OR_PARTITION (3)" in detail(waiting)
    later = accepted(driver, run, waiting)
    assert where(later) == ("failed", "compare V")
    assert where(accepted(driver, run, later)) == ("finalised", "")
    assert {group for group, offset in world.told.items() if world.answered(group) != offset} == {lost}


# before the deletion, and around it


@pytest.mark.parametrize("group", [MOVING[0], MOVING[-1]])
def test_a_commit_between_proof_and_deletion_is_not_deleted(group: str) -> None:
    """The deletion looks once more at what it takes away; the process before was killed right before it."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "delete-groups", CrashPoint.AFTER_JOURNAL)
    assert world.commit_as_client(group, 999, 1)
    with pytest.raises(Conflict, match=f"offsets of 1 group: {group} changed since snapshot S"):
        driver.go_on(run)
    assert world.asked == ["commit"]
    assert driver.roll_back(run)
    assert where(driver.go_on(run))[0] == "waiting"
    assert world.answered(group) == 999


def test_a_group_that_came_before_a_deletion_that_was_cut_off_is_not_left_behind() -> None:
    """Clients ran for a day between two processes: what the snapshot has not is not deleted."""
    world = committed(Coordinator.OLD)
    driver, run = run_to(world, "delete-groups", CrashPoint.AFTER_JOURNAL)
    names = (f"new{number}" for number in range(99))
    new = next(name for name in names if partition_of(name, 5) != partition_of(name, 8))
    assert world.commit_as_client(new, 5, 1)
    with pytest.raises(Conflict, match=f"offsets of 1 group: {new} changed since snapshot S"):
        driver.go_on(run)
    assert driver.roll_back(run)
    stopped = driver.go_on(run)
    assert new in detail(stopped)
    assert where(accepted(driver, run, stopped)) == ("rolled_back", "")
    assert equal(world)


def test_what_stays_a_difference_is_to_be_taken_back() -> None:
    """A commit between two snapshots: nothing is to be undone, and the cluster is free."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "compare S0")
    assert world.commit_as_client(MOVING[0], 999, 1)
    stopped = driver.go_on(run)
    assert (where(stopped)[0], stopped.checked.only_rollback_helps) == ("failed", True)
    driver.roll_back(run)
    assert driver.runs.find(run).state is RunState.REJECTED
    assert equal(world)


@BOTH
@pytest.mark.parametrize("late", [MOVING[0], "late-3"])
def test_a_commit_after_the_deletion_is_met_while_the_rollback_is_open(kind: Coordinator, late: str) -> None:
    """Also of a group that nobody knew: no partition is made."""
    world = committed(kind)
    driver, run = run_to(world, "create-partitions")
    assert partition_of("late-3", 5) != partition_of("late-3", 8)
    assert world.commit_as_client(late, 150, 1)
    with pytest.raises(Conflict, match=f"1 group: {late} came or committed since groups were deleted"):
        driver.go_on(run)
    assert (len(world.world.logs), world.answered(late)) == (5, 150)
    assert driver.roll_back(run)
    accepting(driver, run, "rolled_back")
    assert equal(world)


def test_a_run_that_another_process_took_over_deletes_nothing_more() -> None:
    """Each batch is fenced."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "delete-groups")
    take = world.take

    class Reader:
        """As the world, and overtaken while it reads."""

        cluster_id = staticmethod(world.cluster_id)
        committed = staticmethod(world.committed)

        @staticmethod
        def take(*arguments: Any, **named: Any) -> Any:
            """See the port."""
            found = take(*arguments, **named)
            if driver.runs.steps(run).get("08 delete/delete-groups __consumer_offsets"):
                driver.claim(run)
            return found

    with pytest.raises(Conflict):
        driver.go_on(run, ports=replace(driver.ports, reader=Reader()))
    assert "delete" not in world.asked
    assert where(driver.go_on(run)) == ("finalised", "")


# between the restarts and the end


def test_what_a_client_committed_too_early_stays_unless_a_person_says_otherwise() -> None:
    """One that never was a member, between restart and restore; nothing of the others is held up."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restore S")
    assert world.commit_as_client(MOVING[0], 3, 1)
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "restore S")
    assert "3 was committed since" in detail(waiting)
    later = accepted(driver, run, waiting)
    assert where(later)[0] == "failed", "the comparison shows it once more"
    assert where(accepted(driver, run, later)) == ("finalised", "")
    assert equal(world)


def test_what_is_accepted_is_what_was_shown() -> None:
    """Another client commits between the question and the answer: it is asked again."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restore S")
    assert world.commit_as_client(MOVING[0], 3, 1)
    waiting = driver.go_on(run)
    assert world.commit_as_client(MOVING[1], 4, 1)
    again = accepted(driver, run, waiting)
    assert where(again) == ("waiting", "restore S")
    assert "2 of" in detail(again)
    assert where(accepted(driver, run, again)) == ("failed", "compare V")


def test_a_commit_at_the_former_coordinator_is_not_moved_back() -> None:
    """A program that never is a member, after the deletion and before the restarts: a person decides."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restart")
    late = MOVING[0]
    assert world.commit_as_client(late, 150, 1)
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "restore S")
    assert "150 was committed at its former coordinator since" in detail(waiting)
    assert world.answered(late) == -1
    assert world.commit_as_client(late, 150, 1)  # set by hand
    waiting = driver.go_on(run)
    assert "150 was committed since" in detail(waiting)
    later = accepted(driver, run, waiting)
    assert where(later) == ("failed", "compare V")
    assert where(accepted(driver, run, later)) == ("finalised", "")
    assert equal(world)


def test_the_newest_commit_at_a_former_coordinator_is_what_counts() -> None:
    """An older record elsewhere, which is as the snapshot, hides no later commit of a client."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restore S")
    group = MOVING[0]
    late, *_, older = (place for place in range(8) if place != partition_of(group, 8))
    for place, offset, ms in ((late, 555, 9_000), (older, world.told[group], 1)):
        log = world.world.logs[place]
        log.append(commit(group, place, at=len(log), offset=offset, ms=ms))
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "restore S")
    assert "555 was committed at its former coordinator since" in detail(waiting)


@BOTH
def test_a_group_that_does_not_answer_is_not_taken_for_one_without_offsets(kind: Coordinator) -> None:
    """Its coordinator loads: nothing is committed over what it may have."""
    world = committed(kind)
    driver, run = run_to(world, "restore S")
    done = len(world.asked)
    world.silent = {MOVING[3]}
    with pytest.raises(Transient, match=f"group '{MOVING[3]}' is not answered"):
        driver.go_on(run)
    assert len(world.asked) == done
    world.silent = set()
    assert where(driver.go_on(run)) == ("finalised", "")
    assert equal(world)


def test_members_that_come_too_early_are_named_and_nothing_is_lost() -> None:
    """Their coordinator refuses a commit for them; when they are stopped it goes on."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restore S")
    world.members = {MOVING[0]}
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "restore S")
    assert "UNKNOWN_MEMBER_ID" in detail(waiting)
    world.members = set()
    assert where(driver.go_on(run)) == ("finalised", "")
    assert equal(world)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_stale_copy_on_old_coordinators_is_shown_and_the_run_ends(nodes: int) -> None:
    """A program that commits between the partitions and the restarts: what it said is shown, and accepted."""
    world = committed(Coordinator.OLD, nodes=nodes)
    driver, run = run_to(world, "restart")
    assert world.commit_as_client(MOVING[0], 150, 1)
    found = accepting(driver, run)
    assert any("150" in detail(each) for each in found[:-1])
    others = {group: offset for group, offset in world.told.items() if group != MOVING[0]}
    assert {group: world.answered(group) for group in others} == others


def test_an_audit_of_another_process_is_made_again() -> None:
    """It may be days old: clients are told to start by what is true now."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "audit", CrashPoint.AFTER_READ_BACK)
    world.world.stop(2)
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "audit __consumer_offsets")
    assert "X02" in detail(waiting)


def test_offsets_that_another_process_left_are_committed_once_they_can_be() -> None:
    """It was killed after it journaled what it left: nobody accepts what is cured by now."""
    world = committed(Coordinator.OLD)
    driver, run = run_to(world, "restore S")
    world.members = {MOVING[0]}
    shown = driver.go_on(run)
    assert "(25)" in detail(shown)
    killed(driver, run, "restore S", CrashPoint.AFTER_READ_BACK)
    world.members.clear()
    end = accepted(driver, run, shown)
    assert where(end) == ("finalised", "")
    assert end.closing.verdict.value == "pass"
    assert equal(world)


def test_no_step_is_stuck_behind_groups_that_stay() -> None:
    """They commit while brokers restart, as programs that are no members do: the run comes to its end."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restart")
    assert world.commit_as_client(STAYING[0], 900, 1)
    found = accepting(driver, run)
    assert [where(each)[1] for each in found] == ["compare V", ""]
    assert world.answered(STAYING[0]) == 900


@pytest.mark.parametrize(("times", "end"), [(1, "finalised"), (99, "declined")])
def test_groups_are_not_deleted_while_two_brokers_list_one_that_moves(
    times: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the go: once is a moment in passing and is measured again; nobody may accept it where it lasts."""
    looks = [0, 0]

    def twice(_: Expansible, __: object) -> list[str]:
        looks[0] += 1
        if looks[0] < 2 or looks[1] >= times:
            return []
        looks[1] += 1
        return [MOVING[0]]

    monkeypatch.setattr(Expansible, "_twice", twice)
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    ended = driver.go_on(run, patience_s=5.0)
    assert where(ended)[0] == end
    if end != "finalised":
        assert where(driver.go_on(run, patience_s=5.0, accept=ended.step.key))[0] != "finalised"
        assert "delete" not in " ".join(map(str, world.asked))
