"""A downgrade's run that people and other processes have a hand in: what is asked for differs from what is
there, consumers commit, drivers instruct, somebody changes a configuration meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from groupshift.adapters.drivers.manual import ManualReplacement
from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_demands import Wanted, demand_same
from groupshift.application.downgrade_run import begin, go_on, plan_run, statuses, turn_back
from groupshift.application.downgrade_work import DowngradeTools
from groupshift.application.run_engine import Ended
from groupshift.domain.cluster import ClusterView
from groupshift.domain.step import RunAct
from groupshift.domain.verdict import Verdict
from groupshift.domain.versions import Version
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.releases import target_of
from groupshift.moves.downgrade.rules import bugs
from groupshift.ports.clock import CrashPoint
from groupshift.ports.driver import ForPerson, NodeState, NodeStatus, Replacement
from groupshift.ports.journal import ClusterRun, RunState
from support.coordinator_story import commit
from support.coordinator_vectors import T
from support.simulated_downgrade import World, again, tools_of, two_of_43, yes

TO_39 = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
SESSION = "consumer.session.timeout.ms"


def begun(tools: DowngradeTools) -> ClusterRun:
    """A run of the plan for this world."""
    return begin(tools, plan_run(tools, TO_39))


@dataclass
class Once:
    """Does something, once, when a step of this kind reaches this point."""

    act: str
    point: CrashPoint
    what: Callable[[], None]
    left: int = 1

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        if self.left and self.act in step and point is self.point:
            self.left = 0
            self.what()


def stopped(world: World) -> tuple[DowngradeTools, ClusterRun]:
    """A run that waits for a metadata snapshot: groups, configurations and features are changed."""
    world.checkpoint = None
    tools = tools_of(world)
    run = begun(tools)
    assert go_on(tools, yes(patience_s=4.0), run).step.endswith("await-snapshot __cluster_metadata")
    return tools, run


# another cluster, another run


@pytest.mark.parametrize("back", [True, False])
def test_a_run_is_never_driven_on_another_cluster(back: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    """One journal holds both: the brokers that answer are asked whose they are, before the run is turned."""
    tools, run = stopped(two_of_43())
    other = two_of_43()
    wrong = replace(tools_of(other), runs=tools.runs)
    monkeypatch.setattr(wrong.reader, "cluster_id", lambda: "B")
    driven: Callable[..., object] = turn_back if back else go_on
    with pytest.raises(Rejected, match="is of cluster cluster, and the brokers that answer are of B"):
        driven(wrong, yes(), run)
    assert (other.asked, tools.runs.find(run.run).state) == ([], RunState.OPEN)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted(release="3.8.1"), "to 3.8.1 was asked for"),
        (Wanted(now="4.4.0"), "from 4.4.0 was asked for"),
        (Wanted(coordinator=Coordinator.NEW), "with the new coordinator was asked for"),
        (Wanted(live=True, brokers_only=True), "with live commits and of brokers only was asked for"),
    ],
)
def test_an_open_run_is_not_taken_for_another_one(wanted: Wanted, said: str) -> None:
    """What differs is named."""
    run = begun(tools_of(two_of_43()))
    with pytest.raises(Rejected, match=f"{said}, and run .* is open: go on with it, or take it back"):
        demand_same(run, wanted)
    demand_same(run, Wanted(release="3.9.2", now="4.3.1", coordinator=Coordinator.OLD))
    demand_same(run, Wanted())


@pytest.mark.parametrize("back", [True, False])
def test_a_run_that_reached_its_end_stays_there(back: bool) -> None:  # noqa: FBT001
    """The process that ended it may have been killed before it could say so: Airflow tries again."""
    world = two_of_43()
    tools, run = stopped(world) if back else (tools_of(world), None)
    run = turn_back(tools, yes(), run) if run is not None else begun(tools)
    end = go_on(tools, yes(), run)
    before, done = list(world.asked), tools.runs.find(run.run)
    assert end.ended is (Ended.TAKEN_BACK if back else Ended.DONE)
    assert go_on(again(tools), yes(), done) == end
    assert (world.asked, tools.runs.find(run.run)) == (before, done)


# the way back


def test_a_commit_in_between_does_not_stop_the_way_back() -> None:
    """It stops the way there, which compares byte for byte; what was lowered is raised again."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    anew = commit("simple", offset=7, at=T + 1)
    commits = Once("replace", CrashPoint.AFTER_ACT, lambda: world.later.append(anew))
    there = go_on(replace(tools, crash=commits), yes(patience_s=4.0), run)
    assert (there.ended, "compare C2" in there.step) == (Ended.FAILED, True)
    back = go_on(again(tools), yes(patience_s=4.0), turn_back(tools, yes(), run))
    assert (back.ended, world.features["group.version"]) == (Ended.TAKEN_BACK, 1)
    assert "left" in world.group_configs


def test_a_loss_stops_the_way_back_until_somebody_accepts_it() -> None:
    """Whoever does so is journaled; the rest is undone then."""
    world = two_of_43()
    world.lose = {"simple"}
    tools = tools_of(world)
    run = begun(tools)
    assert go_on(tools, yes(patience_s=4.0), run).ended is Ended.FAILED
    turned = turn_back(tools, yes(), run)
    for terms in (yes(patience_s=4.0), yes(patience_s=4.0)):
        back = go_on(again(tools), terms, turned)
        assert (back.ended, "compare D" in back.step, "accept it with --seen" in back.detail) == (
            Ended.FAILED,
            True,
            True,
        )
    assert world.features["group.version"] == 0
    assert go_on(again(tools), yes(seen=True, who="alice"), turned).ended is Ended.TAKEN_BACK
    assert world.features["group.version"] == 1
    steps = statuses(tools.runs, tools.runs.find(run.run))
    (compared,) = (each for each in steps if each.step.subject == "D")
    assert (compared.result or {})["accepted_by"] == "alice"


def test_the_way_back_restores_the_configuration_that_was_deleted() -> None:
    """Not the one of the plan, which may be days old; also when the process died right after deleting it."""
    changed = {SESSION: "60000", "consumer.heartbeat.interval.ms": "7000"}
    world = two_of_43()
    world.checkpoint = None
    tools = tools_of(world)
    run = begun(tools)
    world.group_configs["left"] = dict(changed)

    def die() -> None:
        raise KeyboardInterrupt

    killed = replace(tools, crash=Once("delete-configs", CrashPoint.AFTER_ACT, die))
    with pytest.raises(KeyboardInterrupt):
        go_on(killed, yes(patience_s=4.0), run)
    assert not world.group_configs.get("left")
    go_on(again(tools), yes(patience_s=4.0), run)
    assert go_on(again(tools), yes(), turn_back(tools, yes(), run)).ended is Ended.TAKEN_BACK
    assert world.group_configs["left"] == changed


def test_a_configuration_that_is_set_while_it_is_deleted_is_kept() -> None:
    """It is written down nowhere."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    another = {SESSION: "1"}
    late = Once(
        "delete-configs", CrashPoint.AFTER_JOURNAL, lambda: world.group_configs.update(left=dict(another))
    )
    with pytest.raises(Conflict, match=f"{SESSION} of group left was set while"):
        go_on(replace(tools, crash=late), yes(), run)
    assert world.group_configs["left"] == another


# what may not begin, and what a person is told


def test_configurations_that_cannot_be_read_are_no_reason_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step deletes what was not seen, so the go/no-go would refuse after what is forward only."""
    world = two_of_43()
    look = world.look
    hidden = {"group_configs": {}, "configs_problem": "GROUP_AUTHORIZATION_FAILED"}
    monkeypatch.setattr(world, "look", lambda: replace(look(), **hidden))
    tools = tools_of(world)
    planned = plan_run(tools, TO_39)
    assert (planned.possible, [each.rule for each in planned.against]) == (False, ["W10"])
    (configured,) = (each for each in bugs(planned.facts) if each.rule == "H05")
    assert configured.verdict is Verdict.INCONCLUSIVE
    with pytest.raises(Rejected, match="W10"):
        begin(tools, planned)
    assert world.asked == []


@pytest.mark.parametrize(("behind", "ends"), [((7,), Ended.WAITING), ((2,), Ended.DONE)])
def test_no_node_is_stopped_while_another_voter_is_behind(
    behind: tuple[int, ...], ends: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller of its own that has just been started again: with one more gone there is no majority. The
    node that is behind itself may be replaced."""
    world = two_of_43()
    look = world.look

    def seen() -> ClusterView:
        view = look()
        assert view.quorum is not None
        return replace(
            view, quorum=replace(view.quorum, behind=behind if world.releases[2] == "4.3.1" else ())
        )

    monkeypatch.setattr(world, "look", seen)
    tools = tools_of(world)
    run = begun(tools)
    if ends is Ended.DONE:
        assert go_on(tools, yes(patience_s=4.0), run).ended is ends
        return
    with pytest.raises(Transient, match="voter 7 of the metadata quorum is behind"):
        go_on(tools, yes(patience_s=4.0), run)
    assert [each for each in world.asked if each.startswith("replace")] == []


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
    tools = replace(tools_of(world), nodes=Portal(world, state))
    outcome = go_on(tools, yes(), begun(tools))
    assert (outcome.ended, "press DEPLOY in the portal" in outcome.detail) == (Ended.WAITING, True)


def test_what_was_seen_of_one_step_is_not_said_of_another() -> None:
    """An answer belongs to the question that was shown."""
    tools = replace(tools_of(two_of_43()), nodes=ManualReplacement())
    run = begun(tools)
    waits = go_on(tools, yes(patience_s=4.0), run)
    assert waits.step.endswith("await-snapshot __cluster_metadata")
    stays = go_on(tools, yes(seen=True, seen_of="10 replace 2", patience_s=4.0), run)
    assert stays.step == waits.step
    moves = go_on(tools, yes(seen=True, seen_of=waits.step, patience_s=4.0), run)
    assert RunAct.REPLACE.value in moves.step
