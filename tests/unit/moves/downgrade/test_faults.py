"""What a downgrade meets on the engine when processes are killed, sleep, or come too late, brokers are
silent, and people and other processes have a hand in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from groupshift.adapters.drivers.manual import ManualReplacement
from groupshift.domain.cluster import ClusterView
from groupshift.domain.group_protocol import Kind
from groupshift.domain.rows import ClusterState, ProblemRow
from groupshift.domain.run import RunState
from groupshift.engine.begin import request_differences
from groupshift.errors import Conflict, Fenced, Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.facts import DowngradeRequest
from groupshift.ports.clock import CrashPoint
from groupshift.ports.driver import ForPerson, NodeState, NodeStatus, Replacement, Started
from support.coordinator_story import commit
from support.coordinator_vectors import T
from support.driven_moves import At, Driver, detail, where
from support.simulated_downgrade import Group, Killed, Shelf, World, driver_of, one_of_39, two_of_43

TO_39 = DowngradeRequest(to="3.9.2", from_="4.3.1")
TO_34 = DowngradeRequest(to="3.4.0", from_="3.9.2")
SESSION = "consumer.session.timeout.ms"


def die() -> None:
    """The process ends."""
    raise Killed


def begun(driver: Driver, request: DowngradeRequest = TO_39) -> str:
    """A run of the plan for this world."""
    return driver.begin(request).run


def killed(driver: Driver, run: str, kind: str, point: CrashPoint) -> None:
    """A process dies there."""
    with pytest.raises(Killed):
        driver.go_on(run, At(kind, point, die))


# a node that is dead, in a rollback


@pytest.mark.parametrize(("make", "request_"), [(two_of_43, TO_39), (one_of_39, TO_34)])
def test_a_rollback_starts_a_dead_node_that_nobody_can_wait_for(
    make: Callable[[], World], request_: DowngradeRequest
) -> None:
    """It died at its start with the older release: one of two, and the only one of a cluster."""
    world = make()
    before = dict(world.releases)
    node = max(before)
    world.dies = {node}
    driver = driver_of(world)
    run = begun(driver, request_)
    stopped = driver.go_on(run, patience_s=4.0)
    assert (where(stopped)[0], world.down) == ("failed", {node})
    assert driver.roll_back(run)
    assert where(driver.go_on(run, patience_s=4.0)) == ("rolled_back", "")
    assert (world.releases, world.down) == (before, set())


def test_a_rollback_waits_for_the_other_nodes() -> None:
    """One that runs is not stopped while another one is out of sync."""
    world = two_of_43()
    world.lose = {"simple"}
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run)) == ("failed", "compare C2")
    driver.roll_back(run)
    world.replaced[1] = ("somebody", "another")
    with pytest.raises(Transient, match="no node is touched: broker 1 is not registered"):
        driver.go_on(run, patience_s=4.0)
    assert world.releases[2] == "3.9.2"


@pytest.mark.parametrize("name", ["A", "B", "C0", "C1", "plan"])
def test_a_group_may_be_named_like_a_snapshot(name: str) -> None:
    """Empty or not, with configurations or not: its steps are not taken for those of the snapshot."""
    world = two_of_43()
    world.groups[name] = Group(kind=Kind.CONSUMER)
    world.group_configs[name] = {SESSION: "50000"}
    driver = driver_of(world)
    assert where(driver.go_on(begun(driver))) == ("moved", "")
    assert world.groups[name].kind is Kind.CLASSIC


# two processes


@pytest.mark.parametrize("kind", ["convert-empty", "delete-configs", "lower", "replace"])
def test_a_process_that_was_asleep_before_its_act_changes_nothing(kind: str) -> None:
    """Between its intent and the act the run was rolled back as a whole."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    met: list[object] = []

    def roll_back() -> None:
        driver.roll_back(run)
        assert where(driver.go_on(run)) == ("rolled_back", "")
        met.extend([list(world.asked), world.end()])

    with pytest.raises(Fenced, match=r"void|took this run over"):
        driver.go_on(run, At(kind, CrashPoint.AFTER_JOURNAL, roll_back))
    assert [world.asked, world.end()] == met


def test_a_process_that_was_asleep_does_not_commit_for_a_compaction_any_more() -> None:
    """Its groups of its own would be left behind."""
    world = one_of_39()
    driver = driver_of(world)
    run = begun(driver, TO_34)

    def roll_back() -> None:
        driver.roll_back(run)
        driver.go_on(run)

    with pytest.raises(Fenced, match=r"void|took this run over"):
        driver.go_on(run, At("compact", CrashPoint.AFTER_ACT, roll_back))
    assert world.churns == 0


def test_a_run_that_goes_back_is_not_driven_on_by_who_wants_it_forward() -> None:
    """And the other way round."""
    world = two_of_43()
    world.checkpoint = None
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run)) == ("waiting", "await-snapshot __cluster_metadata")
    driver.roll_back(run)
    before = list(world.asked)
    with pytest.raises(Conflict, match="is being rolled back"):
        driver.go_on(run, direction="forward")
    assert world.asked == before
    assert where(driver.go_on(run, direction="back")) == ("rolled_back", "")


# brokers that load


def test_a_group_that_nobody_lists_yet_is_not_converted() -> None:
    """While a broker loads, an empty list proves nothing: the run waits, and then converts the group."""
    world = two_of_43()
    driver = driver_of(world)

    def load() -> None:
        world.loading = 6

    late = At("convert-empty", CrashPoint.AFTER_JOURNAL, load)
    assert where(driver.go_on(begun(driver), late)) == ("moved", "")
    assert world.asked[0] == "convert left"


def test_a_broker_that_goes_on_loading_is_named() -> None:
    """And nothing is changed."""
    world = two_of_43()
    driver = driver_of(world)

    def load() -> None:
        world.loading = 10_000

    late = At("convert-empty", CrashPoint.AFTER_JOURNAL, load)
    stopped = driver.go_on(begun(driver), late)
    assert where(stopped) == ("waiting", "convert-empty left")
    assert "broker 1, 2 still loads coordinator partitions" in detail(stopped)
    assert world.asked == []


# the go/no-go before an act that was only written down


def test_a_replacement_that_was_only_written_down_needs_a_new_go() -> None:
    """A consumer group that came since is found before the node is touched."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "replace", CrashPoint.AFTER_JOURNAL)
    world.groups["late"] = Group(kind=Kind.CONSUMER, members=1)
    assert where(driver.go_on(run)) == ("failed", "prove 3.9.2")
    assert set(world.releases.values()) == {"4.3.1"}
    del world.groups["late"]
    assert where(driver.go_on(run)) == ("moved", "")


@dataclass
class Unreachable:
    """A driver whose programs cannot be started; it still tells what it knows."""

    world: World

    def start(self, replacement: Replacement) -> Started:
        """See the port."""
        raise Transient(f"the driver did not answer for node {replacement.node_id}")

    def observe(self, node_id: int) -> NodeStatus:
        """See the port."""
        return self.world.observe(node_id)


def test_a_replacement_that_the_driver_did_not_take_up_needs_a_new_go() -> None:
    """What is written down of the stop is no word of an act: checks are made again, as often as it takes."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    with pytest.raises(Transient, match="the driver did not answer"):
        driver.go_on(run, ports=replace(driver.ports, nodes=Unreachable(world)))
    world.groups["late"] = Group(kind=Kind.CONSUMER, members=1)
    for _ in range(2):
        assert where(driver.go_on(run)) == ("failed", "prove 3.9.2")
    assert set(world.releases.values()) == {"4.3.1"}
    del world.groups["late"]
    assert where(driver.go_on(run)) == ("moved", "")


def test_a_replacement_that_was_made_and_not_written_down_is_gone_on_with() -> None:
    """The driver knows the change: rules for brokers of one release are not asked of two."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "replace", CrashPoint.AFTER_ACT)
    assert set(world.releases.values()) == {"4.3.1", "3.9.2"}
    assert where(driver.go_on(run)) == ("moved", "")


def test_a_rollback_compares_with_what_there_is_when_the_last_snapshot_was_cut_off() -> None:
    """Killed before the act, then while C0 was taken again: back is compared with what C0 was."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "replace", CrashPoint.AFTER_JOURNAL)
    with pytest.raises(Killed):
        driver.go_on(run, At("compare", CrashPoint.AFTER_JOURNAL, die))
    driver.roll_back(run)
    assert where(driver.go_on(run)) == ("rolled_back", "")


# acts that were never taken up


def test_what_was_not_seen_in_time_is_done_again() -> None:
    """The controller forgot the request: the next process asks again instead of only looking."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    lower, lost = world.lower_feature, [True]

    def forgetful(feature: str, level: int) -> None:
        if lost:
            lost.pop()
            return
        lower(feature, level)

    world.lower_feature = forgetful
    assert where(driver.go_on(run, patience_s=4.0)) == ("waiting", "lower group.version")
    assert where(driver.go_on(run)) == ("moved", "")
    assert world.features["group.version"] == 0


# what only a person can see


def patches() -> World:
    """Two brokers of 4.2.1, nothing to prepare."""
    return World(
        groups={"simple": Group(kind=Kind.CLASSIC, offset=7)},
        releases={1: "4.2.1", 2: "4.2.1"},
        coordinators={1: Coordinator.NEW, 2: Coordinator.NEW},
        features={"metadata.version": 21, "group.version": 1},
        knows=False,
        checkpoint=None,
    )


def test_a_person_says_when_a_node_runs_a_release_of_the_same_line() -> None:
    """4.2.1 to 4.2.0 by hand: never taken as done at once, and one word is for one node."""
    world = patches()
    driver = driver_of(world)
    run = begun(driver, DowngradeRequest(to="4.2.0", from_="4.2.1"))
    stopped = None
    for node in (2, 1):
        if stopped is None:
            stopped = driver.go_on(run)
        assert where(stopped) == ("waiting", f"replace {node}")
        assert "start 4.2.0" in detail(stopped)
        assert f"--accept '{stopped.step.key}'" in detail(stopped)
        world.releases[node] = "4.2.0"
        stopped = driver.go_on(run, accept=stopped.step.key)
    assert where(stopped) == ("moved", "")


def test_whoever_accepts_before_anything_was_shown_accepts_nothing() -> None:
    """The first process gives the instruction; its own word is of something else."""
    world = patches()
    driver = driver_of(world)
    run = begun(driver, DowngradeRequest(to="4.2.0", from_="4.2.1"))
    key = next(each.key for each in driver.claim(run).plan.steps if each.kind == "replace")
    assert where(driver.go_on(run, accept=key)) == ("waiting", "replace 2")
    assert set(world.releases.values()) == {"4.2.1"}


def test_a_word_about_one_step_is_none_about_another() -> None:
    """An answer belongs to the question that was shown."""
    driver = driver_of(two_of_43())
    driver.ports = replace(driver.ports, nodes=ManualReplacement())
    run = begun(driver)
    waits = driver.go_on(run)
    assert where(waits) == ("waiting", "await-snapshot __cluster_metadata")
    other = next(each.key for each in driver.claim(run).plan.steps if each.kind == "replace")
    assert where(driver.go_on(run, accept=other)) == where(waits)
    assert where(driver.go_on(run, accept=waits.step.key)) == ("waiting", "replace 2")


def test_another_line_is_seen_at_the_broker_itself() -> None:
    """Nobody has to say anything then, and a person's word is not taken for it."""
    world = two_of_43()
    world.knows = False
    driver = driver_of(world)
    run = begun(driver)
    stopped = driver.go_on(run)
    assert where(driver.go_on(run, accept=stopped.step.key)) == ("waiting", "replace 2")
    for node in (2, 1):
        world.releases[node], world.coordinators[node] = "3.9.2", Coordinator.OLD
        stopped = driver.go_on(run)
    assert where(stopped) == ("moved", "")


@dataclass
class Portal:
    """A driver that knows its nodes and lets a person press a button."""

    world: World
    state: NodeState = NodeState.RUNNING

    def start(self, asked: Replacement) -> ForPerson:
        """See the port."""
        return ForPerson(change_id=asked.change_id, instruction="press DEPLOY in the portal")

    def observe(self, node: int) -> NodeStatus:
        """See the port."""
        return NodeStatus(node_id=node, state=self.state, release=self.world.releases[node], snapshot=100)


@pytest.mark.parametrize("state", [NodeState.RUNNING, NodeState.DOWN])
def test_what_a_driver_asks_of_a_person_is_told(state: NodeState) -> None:
    """Also while the node is down because that person just stopped it."""
    world = two_of_43()
    driver = driver_of(world)
    driver.ports = replace(driver.ports, nodes=Portal(world, state))
    stopped = driver.go_on(begun(driver))
    assert where(stopped) == ("waiting", "replace 2")
    assert "press DEPLOY in the portal" in detail(stopped)


# another cluster, another request


def test_a_run_is_never_driven_on_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """One journal holds both: the brokers that answer are asked whose they are, before the run is claimed."""
    world = two_of_43()
    world.checkpoint = None
    driver = driver_of(world)
    run = begun(driver)
    driver.go_on(run)
    other = two_of_43()
    wrong = driver_of(other).ports
    monkeypatch.setattr(wrong.reader, "cluster_id", lambda: "B")
    with pytest.raises(Rejected, match=r"is of cluster cluster in .* answers is cluster B"):
        driver.go_on(run, ports=wrong)
    with pytest.raises(Rejected, match=r"is of cluster cluster in .* answers is cluster B"):
        driver.roll_back(run, ports=wrong)
    assert (other.asked, driver.runs.find(run).state) == ([], RunState.RUNNING)


def test_an_open_run_is_not_taken_for_another_one() -> None:
    """What differs is named."""
    driver = driver_of(two_of_43())
    run = begun(driver)
    record = driver.runs.find(run)
    found = request_differences(record, replace(TO_39, to="3.8.1", live=True))
    assert found == (
        "live: the run has False, asked for is True",
        "to: the run has '3.9.2', asked for is '3.8.1'",
    )
    with pytest.raises(Conflict, match=f"run {run} of cluster cluster is planned and is in the way"):
        begun(driver)


# what changed meanwhile


def test_a_commit_in_between_does_not_stop_the_rollback() -> None:
    """It stops the way there, which compares byte for byte; what was lowered is raised again."""
    world = two_of_43()
    driver = driver_of(world)
    run = begun(driver)
    anew = commit("simple", offset=7, at=T + 1)
    commits = At("replace", CrashPoint.AFTER_ACT, lambda: world.later.append(anew))
    assert where(driver.go_on(run, commits)) == ("failed", "compare C2")
    driver.roll_back(run)
    assert where(driver.go_on(run)) == ("rolled_back", "")
    assert world.features["group.version"] == 1
    assert "left" in world.group_configs


def test_a_rollback_restores_the_configuration_that_was_deleted() -> None:
    """Not the one of the plan, which may be days old; also when the process died right after deleting it."""
    changed = {SESSION: "60000", "consumer.heartbeat.interval.ms": "7000"}
    world = two_of_43()
    world.checkpoint = None
    driver = driver_of(world)
    run = begun(driver)
    world.group_configs["left"] = dict(changed)
    killed(driver, run, "delete-configs", CrashPoint.AFTER_ACT)
    assert not world.group_configs.get("left")
    driver.go_on(run)
    driver.roll_back(run)
    assert where(driver.go_on(run)) == ("rolled_back", "")
    assert world.group_configs["left"] == changed


def test_a_configuration_that_is_set_while_it_is_deleted_is_kept() -> None:
    """It is written down nowhere."""
    world = two_of_43()
    driver = driver_of(world)
    another = {SESSION: "1"}
    late = At(
        "delete-configs", CrashPoint.AFTER_JOURNAL, lambda: world.group_configs.update(left=dict(another))
    )
    with pytest.raises(Conflict, match=f"{SESSION} of group left was set while"):
        driver.go_on(begun(driver), late)
    assert world.group_configs["left"] == another


def test_configurations_that_cannot_be_read_are_no_reason_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step deletes what was not seen, so the go/no-go would refuse after what is forward only."""
    world = two_of_43()
    look = world.look
    hidden = {"group_configs": {}, "configs_problem": "GROUP_AUTHORIZATION_FAILED"}
    monkeypatch.setattr(world, "look", lambda: replace(look(), **hidden))
    with pytest.raises(Rejected, match="is not ready, nothing was journaled: W10"):
        begun(driver_of(world))
    assert world.asked == []


@pytest.mark.parametrize(("behind", "waits"), [((7,), True), ((2,), False)])
def test_no_node_is_stopped_while_another_voter_is_behind(
    behind: tuple[int, ...],
    waits: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A controller of its own that has just been started again: with one more gone there is no majority. The
    node that is behind itself may be replaced."""
    world = two_of_43()
    look = world.look

    def seen() -> ClusterView:
        view = look()
        assert view.quorum is not None
        left = behind if world.releases[2] == "4.3.1" else ()
        return replace(view, quorum=replace(view.quorum, behind=left))

    monkeypatch.setattr(world, "look", seen)
    driver = driver_of(world)
    run = begun(driver)
    if not waits:
        assert where(driver.go_on(run, patience_s=4.0)) == ("moved", "")
        return
    with pytest.raises(Transient, match="voter 7 of the metadata quorum is behind"):
        driver.go_on(run, patience_s=4.0)
    assert [each for each in world.asked if each.startswith("replace")] == []


def test_a_rollback_is_not_compared_with_a_snapshot_that_lacks_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C0 was taken again by the process after a kill, and a coordinator answered nothing then. What a group
    lost since is found by the snapshot before it, not hidden by the gap in C0."""
    blind, silent = set[str](), set[str]()
    take = Shelf.take

    def taken(self: Shelf, groups: Sequence[str] | None = None, **_: object) -> ClusterState:
        state, gone = take(self, groups), blind | silent
        return replace(
            state,
            groups=[each for each in state.groups if each.group not in gone],
            offsets=[each for each in state.offsets if each.group not in gone],
            problems=[ProblemRow(group=each, problem=f"group {each!r}: no offsets (15)") for each in blind],
        )

    monkeypatch.setattr(Shelf, "take", taken)
    driver = driver_of(two_of_43())
    run = driver.begin(DowngradeRequest(to="3.9.2", from_="4.3.1")).run
    with pytest.raises(Killed):
        driver.go_on(run, At("replace", CrashPoint.AFTER_JOURNAL, die))
    blind.add("simple")
    assert where(driver.go_on(run, patience_s=4.0))[1] == "compare C0"
    blind.clear()
    silent.add("simple")  # its records are in the log, and the coordinator answers nothing of them any more
    assert driver.roll_back(run)
    assert where(driver.go_on(run, patience_s=4.0))[1] == "compare D"
