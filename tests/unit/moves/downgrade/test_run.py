"""A downgrade on the engine, in a simulated cluster: what it does in which order, where it stops, and its
rollback."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.group_protocol import Kind
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import Outcome, RunState, StepState
from groupshift.engine.begin import assess
from groupshift.engine.roll_back import rollback_of
from groupshift.engine.status import status_of
from groupshift.engine.watch import watch
from groupshift.errors import Conflict, Fenced, Rejected
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.facts import DowngradeRequest
from groupshift.ports.clock import CrashPoint
from support.coordinator_story import commit
from support.coordinator_vectors import T
from support.driven_moves import (
    Driver,
    answered,
    approves,
    declines,
    detail,
    nobody,
    where,
)
from support.simulated_downgrade import (
    OWN,
    Group,
    KillAt,
    Killed,
    World,
    driver_of,
    one_of_39,
    two_of_43,
)

TO_39 = DowngradeRequest(to="3.9.2", from_="4.3.1")
TO_34 = DowngradeRequest(to="3.4.0", from_="3.9.2")


class Before:
    """Ends the process, or does something, when a step of this kind reaches a point."""

    def __init__(self, kind: str, point: CrashPoint = CrashPoint.BEFORE_JOURNAL) -> None:
        self._kind, self._point = f"/{kind}", point

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        if self._kind in f"{step} ".replace(" ", "/", 1) and point is self._point:
            raise Killed


def begun(driver: Driver, request: DowngradeRequest = TO_39) -> str:
    """A run of the plan for this world."""
    return driver.begin(request).run


def killed(driver: Driver, run: str, kind: str, point: CrashPoint = CrashPoint.BEFORE_JOURNAL) -> None:
    """A process dies at a step of this kind."""
    with pytest.raises(Killed):
        driver.go_on(run, Before(kind, point))


def test_everything_is_prepared_before_the_first_node_and_compared_after_each() -> None:
    """The whole way from 4.3.1 to 3.9.2."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run)) == ("moved", "")
    assert world.asked == ["convert left", "configure left", "lower group.version", "replace 2", "replace 1"]
    assert (set(world.releases.values()), world.features["group.version"]) == ({"3.9.2"}, 0)
    assert world.compares == 4
    assert {each.state for each in driver.runs.steps(run).values()} == {StepState.DONE}


def test_the_topic_is_compacted_and_set_back_as_it_was() -> None:
    """With what stood there before; groupshift's own groups are gone."""
    world = one_of_39()
    driver, before = driver_of(world), dict(world.topic)
    gates: list[str] = []

    def decide(question):
        gates.append(question.gate.rpartition(" ")[2])
        return approves(question)

    assert where(driver.go_on(begun(driver, TO_34), decide=decide)) == ("moved", "")
    assert gates == ["plan", "forward-only"]
    assert (world.topic, world.churns > 1, OWN in world.groups) == (before, True, False)
    assert world.releases == {1: "3.4.0"}


def test_a_group_with_members_waits_for_a_person_who_may_also_just_stop_them() -> None:
    """It is named; when its members are gone the run converts it itself."""
    world = two_of_43()
    world.groups["busy"] = Group(kind=Kind.CONSUMER, members=2)
    driver = driver_of(world)
    run = begun(driver)
    stopped = driver.go_on(run)
    assert where(stopped) == ("waiting", "convert busy")
    assert "group busy has members" in detail(stopped)
    assert world.asked == []
    world.groups["busy"].members = 0
    assert where(driver.go_on(run)) == ("moved", "")
    assert world.groups["busy"].kind is Kind.CLASSIC


def test_a_member_that_joins_before_anything_is_changed_voids_the_approval() -> None:
    """While it is given, and behind it: the run ends with nothing changed, and the cluster is free."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)

    def joins(question):
        world.groups["left"].members = 1
        return approves(question)

    void = driver.go_on(run, decide=joins)
    assert where(void) == ("rejected", "")
    assert "group left: consumer, without members is now consumer, with members" in void.closing.reason
    assert (world.asked, driver.runs.find(run).state) == ([], RunState.REJECTED)
    world.groups["left"].members = 0
    later = begun(driver)
    killed(driver, later, "snapshot")
    world.groups["left"].members = 1
    assert where(driver.go_on(later)) == ("rejected", "")
    assert world.asked == []


@pytest.mark.parametrize("members", [0, 2])
def test_a_consumer_group_that_comes_after_the_conversions_keeps_the_feature(members: int) -> None:
    """Nothing would serve it: the run stops before, and goes on when it is gone."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)

    def tell(step, _detail) -> None:
        if step.kind == "lower":
            world.groups.setdefault("new", Group(kind=Kind.CONSUMER, members=members))

    with pytest.raises(Conflict, match=r"group new is of type consumer, and group\.version 0 serves none"):
        driver.go_on(run, tell=tell)
    assert world.features["group.version"] == 1
    assert not [each for each in world.asked if each.startswith("lower")]
    del world.groups["new"]
    assert where(driver.go_on(run)) == ("moved", "")


@pytest.mark.parametrize(("feature", "kind"), [("share.version", "share"), ("streams.version", "streams")])
def test_a_group_of_another_new_type_keeps_its_feature_too(feature: str, kind: str) -> None:
    """A share or streams group that comes before its own feature is lowered."""
    world = two_of_43()
    world.features[feature] = 1
    driver = driver_of(world)
    run = begun(driver)

    def tell(step, _detail) -> None:
        if step.kind == "lower" and step.subject == feature:
            world.groups.setdefault("new", Group(kind=Kind(kind), members=1))

    with pytest.raises(Conflict, match=rf"group new is of type {kind}, and {feature} 0 serves none"):
        driver.go_on(run, tell=tell)
    assert world.features[feature] == 1
    del world.groups["new"]
    assert where(driver.go_on(run)) == ("moved", "")


def test_a_no_changes_nothing_and_frees_the_cluster() -> None:
    """Of the plan; a no to what is forward only leaves the run where it is."""
    world = one_of_39()
    driver = driver_of(world)
    run = begun(driver, TO_34)
    assert where(driver.go_on(run, decide=declines)) == ("declined", "approve plan")
    assert (world.asked, driver.runs.find(run).state) == ([], RunState.REJECTED)
    later = begun(driver, TO_34)

    def half(question):
        return (approves if question.gate.endswith("plan") else declines)(question)

    assert where(driver.go_on(later, decide=half)) == ("declined", "approve forward-only")
    assert (world.asked, driver.runs.find(later).state) == (["convert left"], RunState.RUNNING)
    assert where(driver.go_on(later, decide=nobody)) == ("waiting", "approve forward-only")
    assert where(driver.go_on(later)) == ("moved", "")


def lossy() -> tuple[World, Driver, str]:
    """A cluster whose first node loses a group, stopped there."""
    world = two_of_43()
    world.lose = {"simple"}
    driver = driver_of(world)
    return world, driver, begun(driver)


def test_a_difference_stops_before_the_next_node_and_the_run_stays_open() -> None:
    """The second node is not touched; going on measures again."""
    world, driver, run = lossy()
    stopped = driver.go_on(run)
    assert where(stopped) == ("failed", "compare C2")
    assert "group simple" in detail(stopped)
    assert world.releases == {1: "4.3.1", 2: "3.9.2"}
    found = status_of(driver.runs, run)
    assert (found.waits_at, found.stopped) == (stopped.step.key, True)
    assert "group simple" in found.waits_for
    assert where(driver.go_on(run)) == ("failed", "compare C2")
    assert world.releases[1] == "4.3.1"


def test_what_a_rollback_would_undo_is_shown_before_it_is_begun() -> None:
    """Node and feature in words, last first; looking changes nothing."""
    world, driver, run = lossy()
    driver.go_on(run)
    before, asked = driver.runs.find(run).state, list(world.asked)
    plan = rollback_of(driver.claim(run), "start")
    assert plan is not None
    said = [each.does for each in plan.steps if each.undoes]
    assert "4.3.1" in said[0], said
    assert "node 2" in said[0]
    assert any("group.version" in each for each in said[1:])
    assert (driver.runs.find(run).state, world.asked) == (before, asked)


def test_a_run_that_was_rolled_back_stays_there() -> None:
    """The process that ended it may have been killed before it could say so: Airflow tries again."""
    world = two_of_43()
    world.checkpoint = None
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run)) == ("waiting", "await-snapshot __cluster_metadata")
    assert driver.roll_back(run)
    end = driver.go_on(run)
    assert where(end) == ("rolled_back", "")
    before, steps, state = list(world.asked), driver.runs.steps(run), driver.runs.find(run).state
    assert driver.go_on(run) == end
    assert (world.asked, driver.runs.steps(run), driver.runs.find(run).state) == (before, steps, state)


def test_what_goes_on_is_said_step_by_step() -> None:
    """For somebody who watches."""
    driver = driver_of(two_of_43())
    said: list[str] = []
    run = begun(driver)
    driver.go_on(run, tell=lambda step, text: said.append(f"{step.kind}: {text}"))
    assert "replace: begins" in said


def test_the_rollback_undoes_what_was_done_last_first() -> None:
    """Nodes, the feature, the configurations; conversions stay. Then the cluster is free."""
    world, driver, run = lossy()
    kept = dict(world.groups)
    driver.go_on(run)
    world.groups, world.lose = kept, set()
    assert driver.roll_back(run)
    assert where(driver.go_on(run)) == ("rolled_back", "")
    assert world.asked[-3:] == ["replace 2", "raise group.version", "configure left"]
    assert world.releases == {1: "4.3.1", 2: "4.3.1"}
    assert world.group_configs == {"left": {"consumer.session.timeout.ms": "50000"}}
    assert begun(driver), "the cluster is free"


def test_a_run_that_reached_its_end_may_be_rolled_back() -> None:
    """All of it: nothing of a downgrade closes the rollback."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run)) == ("moved", "")
    assert where(driver.go_on(run)) == ("moved", ""), "it stays where it is"
    assert driver.roll_back(run)
    assert where(driver.go_on(run)) == ("rolled_back", "")
    assert world.releases == {1: "4.3.1", 2: "4.3.1"}
    assert world.features["group.version"] == 1


def test_a_node_that_dies_is_told_with_its_own_words() -> None:
    """And nothing after it is done."""
    world = two_of_43()
    world.dies = {2}
    driver = driver_of(world)
    stopped = driver.go_on(begun(driver))
    assert (where(stopped)[0], "Tried to apply FeatureLevelRecord" in detail(stopped)) == ("failed", True)
    assert world.releases == {1: "4.3.1", 2: "4.3.1"}


@pytest.mark.parametrize(("checkpoint", "how"), [(None, "waiting"), (99, "waiting"), (100, "moved")])
def test_no_node_is_touched_before_the_metadata_snapshot(checkpoint: int | None, how: str) -> None:
    """Where the driver cannot see it, somebody has to say that it is there; where it can, nobody may."""
    world = two_of_43()
    world.checkpoint = checkpoint
    driver = driver_of(world)
    run = begun(driver)
    found = driver.go_on(run)
    assert (where(found)[0], "replace 2" in world.asked) == (how, how == "moved")
    if how == "waiting":
        assert "up to offset 100" in detail(found)
        later = driver.go_on(run, accept=found.step.key)
        assert (where(later)[0] == "moved") == (checkpoint is None)


def test_the_go_is_asked_again_by_each_process_until_a_node_was_touched() -> None:
    """A group of type consumer that came meanwhile is found before the first node."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "replace")
    world.groups["late"] = Group(kind=Kind.CONSUMER, members=1)
    stopped = driver.go_on(run)
    assert where(stopped) == ("failed", "prove 3.9.2")
    assert "W07: 1 group of type consumer ('late') with members" in detail(stopped)
    assert set(world.releases.values()) == {"4.3.1"}


def test_a_second_process_voids_the_first() -> None:
    """Its next word in the journal is refused."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)

    def other(question):
        driver.runs.claim(run, "other", 1, anew=True, take_over=True)
        return approves(question)

    with pytest.raises(Fenced, match="void"):
        driver.go_on(run, decide=other)
    assert world.asked == []


def test_what_no_step_answers_is_refused_before_anything() -> None:
    """Share groups, a way that does not exist, and a release that nobody said."""
    world = two_of_43()
    world.groups["shared"] = Group(kind=Kind.SHARE)
    driver = driver_of(world)
    with pytest.raises(Rejected, match="is not ready, nothing was journaled: W06"):
        begun(driver)
    other = driver_of(replace(two_of_43(), features={"metadata.version": 30}))
    with pytest.raises(Rejected, match="is not ready, nothing was journaled"):
        begun(other)
    with pytest.raises(Rejected, match="--from"):
        begun(driver_of(two_of_43()), DowngradeRequest(to="3.9.2"))
    assert (world.asked, driver.runs.recent(5), other.runs.recent(5)) == ([], (), ())


def test_what_a_step_answers_is_found_and_does_not_stop_the_run() -> None:
    """The findings stay what they are; the plan keeps them for the gate."""
    driver = driver_of(two_of_43())
    _, findings = assess(driver.move, driver.tools(), driver.ports, TO_39)
    failed = {each.rule for each in findings if each.verdict.value == "fail"}
    assert {"W07", "W10", "W11"} <= failed
    run = begun(driver)
    plan = driver.claim(run).plan
    assert {each["rule"] for each in plan.about["checks"] if each["verdict"] == "fail"} == failed


def test_the_flip_of_a_coordinator_is_seen_by_the_coordinator() -> None:
    """3.9.2 NEW to OLD: within a line only that tells that a node was replaced."""
    world = replace(one_of_39(), features={"metadata.version": 21})
    driver = driver_of(world)
    request = DowngradeRequest(to="3.9.2", from_="3.9.2")
    assert where(driver.go_on(begun(driver, request))) == ("moved", "")
    assert world.coordinators == {1: Coordinator.OLD}


def test_a_process_may_do_some_phases_and_pause_before_the_first_other() -> None:
    """So that each part of a run is a task of its own."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    parts = [
        ({"approve"}, "snapshot A"),
        ({"prepare", "convert"}, "delete-configs left"),
        ({"replace"}, "delete-configs left"),
    ]
    for phases, before in parts:
        assert where(driver.go_on(run, phases=frozenset(phases))) == ("paused", before)
    assert world.asked == ["convert left"]
    assert where(driver.go_on(run)) == ("moved", "")


@pytest.mark.parametrize(("live", "how"), [(False, ("failed", "compare C0")), (True, ("moved", ""))])
def test_a_commit_between_two_snapshots_stops_the_run_although_all_offsets_are_equal(
    live: bool,  # noqa: FBT001
    how: tuple[str, str],
) -> None:
    """Before the first node is touched; with --live it is none of the run's business."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver, replace(TO_39, live=live))
    killed(driver, run, "delete-configs")
    world.later.append(commit("simple", offset=7, at=T + 1))
    found = driver.go_on(run)
    assert where(found) == how
    if not live:
        assert "commit of group 'simple'" in detail(found)


def test_consumers_may_commit_anew_while_they_are_converted() -> None:
    """Between A and B: a client commits when it is restarted; offsets are compared all the same."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "convert-empty")
    world.later.append(commit("simple", offset=7, at=T + 1))
    assert where(driver.go_on(run)) == ("moved", "")


def test_a_run_that_is_over_is_watched_and_soaks_where_asked() -> None:
    """An offset that fell is found, by group and partition."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver, replace(TO_39, soak_s=120))
    before = driver.clock.now_ms()
    assert where(driver.go_on(run, patience_s=600.0)) == ("moved", "")
    assert driver.clock.now_ms() - before >= 120_000
    assert watch(driver.move, driver.tools(), driver.ports, run).outcome is Outcome.PASS
    world.groups["simple"].offset = 3
    found = watch(driver.move, driver.tools(), driver.ports, run)
    assert found.outcome is Outcome.FAIL
    assert "group simple, t-0: 7 then, 3 now" in found.findings[0].reason


def test_an_offset_that_falls_in_the_soak_stops_the_run() -> None:
    """It stays open: nothing is taken back unasked."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver, replace(TO_39, soak_s=120))

    def tell(_step, text) -> None:
        if text.startswith("soaks for"):
            world.groups["simple"].offset = 3

    stopped = driver.go_on(run, patience_s=600.0, tell=tell)
    assert where(stopped) == ("failed", "soak")
    assert driver.runs.find(run).state is RunState.RUNNING


def test_an_accepted_loss_lets_the_rollback_go_on() -> None:
    """Whoever accepts it is journaled; the rest is undone then, and the end is red."""
    world, driver, run = lossy()
    driver.go_on(run)
    driver.roll_back(run)
    for _ in range(2):
        stopped = driver.go_on(run)
        assert where(stopped) == ("failed", "compare D")
        assert "accept it with: groupshift continue" in detail(stopped)
    assert world.features["group.version"] == 0
    end = driver.go_on(run, accept=stopped.step.key, who="alice", decide=answered(Choice.APPROVE, "alice"))
    assert where(end) == ("rolled_back", "")
    assert end.closing.verdict.value == "fail"
    assert world.features["group.version"] == 1
    assert driver.runs.steps(run)[stopped.step.key].result["accepted_by"] == "alice"


def test_the_processes_of_a_story_leave_no_two_records_of_one_step() -> None:
    """Killed twice at the same step: one record, done."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    for number in (9, 14):
        with pytest.raises(Killed):
            driver.go_on(run, KillAt(number))
    assert where(driver.go_on(run)) == ("moved", "")
    assert set(driver.runs.steps(run)) == {each.key for each in driver.claim(run).there.steps}
