"""A downgrade that acts, in a simulated cluster: what it does in which order, where it stops, and the way
back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_run import begin, go_on, plan_run, statuses, turn_back
from groupshift.application.downgrade_work import DowngradeTools
from groupshift.application.run_engine import Ended
from groupshift.application.run_work import RunTerms
from groupshift.domain.group_protocol import Kind
from groupshift.domain.step import RunAct, RunStep, Stand
from groupshift.domain.versions import Version
from groupshift.errors import Conflict, Rejected
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.releases import target_of
from groupshift.ports.journal import ClusterRun, RunState
from support.coordinator_story import commit
from support.coordinator_vectors import T
from support.simulated_downgrade import OWN, Group, Killed, World, again, one_of_39, tools_of, two_of_43, yes


def asked(to: str, now: str) -> DowngradeRequest:
    """From here to there."""
    return DowngradeRequest(target=target_of(to), said=Version.parse(now))


TO_39, TO_34 = asked("3.9.2", "4.3.1"), asked("3.4.0", "3.9.2")


def begun(tools: DowngradeTools, request: DowngradeRequest = TO_39) -> ClusterRun:
    """A run of the plan for this world."""
    return begin(tools, plan_run(tools, request))


def test_everything_is_prepared_before_the_first_node_and_compared_after_each() -> None:
    """The whole way from 4.3.1 to 3.9.2."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    assert go_on(tools, yes(), run).ended is Ended.DONE
    assert world.asked == ["convert left", "configure left", "lower group.version", "replace 2", "replace 1"]
    assert (set(world.releases.values()), world.features["group.version"]) == ({"3.9.2"}, 0)
    assert (world.compares, tools.runs.find(run.run).state) == (4, RunState.DONE)
    assert {each.stand for each in statuses(tools.runs, tools.runs.find(run.run))} == {Stand.DONE}


def test_the_topic_is_compacted_and_set_back_as_it_was() -> None:
    """With what stood there before; groupshift's own groups are gone."""
    world = one_of_39()
    tools, before = tools_of(world), dict(world.topic)
    questions: list[str] = []
    terms = yes(decide=lambda question: questions.append(question.step.subject) is None)
    assert go_on(tools, terms, begun(tools, TO_34)).ended is Ended.DONE
    assert questions == ["plan", "forward-only"]
    assert (world.topic, world.churns > 1, OWN in world.groups) == (before, True, False)
    assert world.releases == {1: "3.4.0"}


def test_a_group_with_members_waits_for_a_person_who_may_also_just_stop_them() -> None:
    """It is named; when its members are gone the run converts it itself."""
    world = two_of_43()
    world.groups["busy"] = Group(kind=Kind.CONSUMER, members=2)
    tools = tools_of(world)
    run = begun(tools)
    stopped = go_on(tools, yes(), run)
    assert (stopped.ended, stopped.step) == (Ended.WAITING, "03 convert busy")
    assert "group busy has members" in stopped.detail
    assert world.asked == []
    world.groups["busy"].members = 0
    assert go_on(tools, yes(), run).ended is Ended.DONE
    assert world.groups["busy"].kind is Kind.CLASSIC


def test_a_member_that_joins_between_plan_and_act_voids_the_approval() -> None:
    """Before the approval the run ends with nothing changed; after it the act refuses."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)

    def joins(_question: object) -> bool:
        world.groups["left"].members = 1
        return True

    with pytest.raises(Conflict, match=r"approval void.*group left: consumer, without members is now"):
        go_on(tools, yes(decide=joins), run)
    assert (world.asked, tools.runs.find(run.run).state) == ([], RunState.ENDED)
    world.groups["left"].members = 0
    later = begun(tools)
    with pytest.raises(Killed):
        go_on(again(tools, kill_at=10), yes(), later)
    world.groups["left"].members = 1
    with pytest.raises(Conflict, match="had no members when the plan was approved"):
        go_on(again(tools), yes(), later)
    assert world.asked == []


@pytest.mark.parametrize("members", [0, 2])
def test_a_consumer_group_that_comes_after_the_conversions_keeps_the_feature(members: int) -> None:
    """Nothing would serve it: the run stops before, and goes on when it is gone."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)

    def told(step: RunStep, _detail: str) -> None:
        if step.act is RunAct.LOWER:
            world.groups.setdefault("new", Group(kind=Kind.CONSUMER, members=members))

    with pytest.raises(Conflict, match=r"group new is of type consumer, and group\.version 0 serves none"):
        go_on(tools, yes(told=told), run)
    assert world.features["group.version"] == 1
    assert not [each for each in world.asked if each.startswith("lower")]
    del world.groups["new"]
    assert go_on(again(tools), yes(), run).ended is Ended.DONE


@pytest.mark.parametrize(("feature", "kind"), [("share.version", "share"), ("streams.version", "streams")])
def test_a_group_of_another_new_type_keeps_its_feature_too(feature: str, kind: str) -> None:
    """A share or streams group that comes before its own feature is lowered."""
    world = two_of_43()
    world.features[feature] = 1
    tools = tools_of(world)
    run = begun(tools)

    def told(step: RunStep, _detail: str) -> None:
        if step.act is RunAct.LOWER and step.subject == feature:
            world.groups.setdefault("new", Group(kind=Kind(kind), members=1))

    with pytest.raises(Conflict, match=rf"group new is of type {kind}, and {feature} 0 serves none"):
        go_on(tools, yes(told=told), run)
    assert world.features[feature] == 1
    del world.groups["new"]
    assert go_on(again(tools), yes(), run).ended is Ended.DONE


def test_a_no_changes_nothing_and_frees_the_cluster() -> None:
    """Of the plan; a no to what is forward only leaves the run where it is."""
    world = one_of_39()
    tools = tools_of(world)
    run = begun(tools, TO_34)
    assert go_on(tools, yes(decide=lambda _asked: False), run).ended is Ended.DECLINED
    assert (world.asked, tools.runs.open_of("cluster")) == ([], None)
    later = begun(tools, TO_34)
    half = yes(decide=lambda question: question.step.subject == "plan")
    assert go_on(tools, half, later).ended is Ended.DECLINED
    assert (world.asked, tools.runs.open_of("cluster") is None) == (["convert left"], False)
    nobody = go_on(tools, yes(decide=lambda _asked: None), later)
    assert (nobody.ended, nobody.detail.startswith("an approval waits")) == (Ended.WAITING, True)
    assert go_on(tools, yes(), later).ended is Ended.DONE


def lossy() -> tuple[World, DowngradeTools, ClusterRun]:
    """A cluster whose first node loses a group, stopped there."""
    world = two_of_43()
    world.lose = {"simple"}
    tools = tools_of(world)
    return world, tools, begun(tools)


def test_a_difference_stops_before_the_next_node_and_names_the_way_back() -> None:
    """The second node is not touched."""
    world, tools, run = lossy()
    stopped = go_on(tools, yes(), run)
    assert (stopped.ended, stopped.step.split()[1:]) == (Ended.FAILED, ["compare", "C2"])
    assert "group simple: lost" in stopped.detail
    assert world.releases == {1: "4.3.1", 2: "3.9.2"}
    assert stopped.undo[0] == "stop node 2 cleanly, start 4.3.1 over the same folder"
    assert "upgrade group.version to 1" in stopped.undo
    assert go_on(tools, yes(), run).ended is Ended.FAILED
    assert world.releases[1] == "4.3.1"


def test_the_way_back_undoes_what_was_done_last_first() -> None:
    """Nodes, the feature, the configurations; conversions stay. Then the cluster is free."""
    world, tools, run = lossy()
    kept = dict(world.groups)
    go_on(tools, yes(), run)
    world.groups, world.lose = kept, set()
    turned = turn_back(tools, yes(), run)
    assert go_on(tools, yes(), turned).ended is Ended.TAKEN_BACK
    assert world.asked[-3:] == ["replace 2", "raise group.version", "configure left"]
    assert world.releases == {1: "4.3.1", 2: "4.3.1"}
    assert world.group_configs == {"left": {"consumer.session.timeout.ms": "50000"}}
    assert tools.runs.open_of("cluster") is None
    with pytest.raises(Rejected, match="there is nothing to take back"):
        turn_back(tools, yes(), tools.runs.find(run.run))


def test_a_node_that_dies_is_told_with_its_own_words() -> None:
    """And nothing after it is done."""
    world = two_of_43()
    world.dies = {2}
    tools = tools_of(world)
    stopped = go_on(tools, yes(), begun(tools))
    assert (stopped.ended, "Tried to apply FeatureLevelRecord" in stopped.detail) == (Ended.FAILED, True)
    assert world.releases == {1: "4.3.1", 2: "4.3.1"}


@pytest.mark.parametrize(
    ("checkpoint", "ended"), [(None, Ended.WAITING), (99, Ended.WAITING), (100, Ended.DONE)]
)
def test_no_node_is_touched_before_the_metadata_snapshot(checkpoint: int | None, ended: Ended) -> None:
    """Where the driver cannot see it, somebody has to say that it is there; where it can, nobody may."""
    world = two_of_43()
    world.checkpoint = checkpoint
    tools = tools_of(world)
    run = begun(tools)
    found = go_on(tools, yes(), run)
    assert (found.ended, "replace 2" in world.asked) == (ended, ended is Ended.DONE)
    if ended is Ended.WAITING:
        assert "up to offset 100" in found.detail
        later = go_on(tools, yes(seen=True), run)
        assert (later.ended is Ended.DONE) == (checkpoint is None)


def test_the_go_is_asked_again_by_each_process_until_a_node_was_touched() -> None:
    """A group converted to consumer meanwhile is found before the first node."""
    world = two_of_43()
    world.checkpoint = None
    tools = tools_of(world)
    run = begun(tools)
    go_on(tools, yes(), run)
    world.groups["late"] = Group(kind=Kind.CONSUMER, members=1)
    stopped = go_on(tools, yes(seen=True), run)
    assert (stopped.ended, stopped.step.split()[1]) == (Ended.FAILED, "prove")
    assert "W07: 1 group of type consumer ('late') with members" in stopped.detail
    assert set(world.releases.values()) == {"4.3.1"}


def test_a_second_process_voids_the_first() -> None:
    """Its next word in the journal is refused."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)

    def other(_question: object) -> bool:
        tools.runs.claim(run.run, "other", 1)
        return True

    with pytest.raises(Conflict, match="void"):
        go_on(tools, yes(decide=other), run)
    assert world.asked == []


def test_what_no_step_answers_is_refused_before_anything() -> None:
    """Share groups, a way that does not exist, and a release that nobody said."""
    world = two_of_43()
    world.groups["shared"] = Group(kind=Kind.SHARE)
    tools = tools_of(world)
    planned = plan_run(tools, TO_39)
    assert planned.against[0].rule == "W06"
    with pytest.raises(Rejected, match="may not begin, nothing was changed: W06"):
        begin(tools, planned)
    changed = plan_run(tools_of(replace(two_of_43(), features={"metadata.version": 30})), TO_39)
    assert (changed.possible, changed.plan.steps) == (False, ())
    with pytest.raises(Rejected, match="--from"):
        plan_run(tools, replace(TO_39, said=None))
    assert world.asked == []


def test_the_flip_of_a_coordinator_is_seen_by_the_coordinator() -> None:
    """3.9.2 NEW to OLD: within a line only that tells that a node was replaced."""
    world = replace(one_of_39(), features={"metadata.version": 21})
    tools = tools_of(world)
    assert go_on(tools, yes(), begun(tools, asked("3.9.2", "3.9.2"))).ended is Ended.DONE
    assert world.coordinators == {1: Coordinator.OLD}


def test_terms_tell_what_goes_on() -> None:
    """Step by step, for somebody who watches."""
    told: list[str] = []
    tools = tools_of(two_of_43())
    terms: RunTerms = yes(told=lambda step, detail: told.append(f"{step.act}: {detail}"))
    go_on(tools, terms, begun(tools))
    assert "replace: begins" in told


def test_a_process_may_do_some_kinds_of_steps_and_pause_before_the_first_other() -> None:
    """So that each part of a run is a task of its own."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    parts = [
        ({RunAct.APPROVE}, "02 snapshot A"),
        ({RunAct.SNAPSHOT, RunAct.CONVERT_EMPTY, RunAct.COMPARE}, "05 delete-configs left"),
        ({RunAct.REPLACE}, "05 delete-configs left"),
    ]
    for acts, before in parts:
        paused = go_on(tools, yes(acts=frozenset(acts)), run)
        assert (paused.ended, paused.step) == (Ended.PAUSED, before)
    assert world.asked == ["convert left"]
    assert go_on(tools, yes(), run).ended is Ended.DONE


def test_a_commit_between_two_snapshots_stops_the_run_although_all_offsets_are_equal() -> None:
    """Before the first node is touched; with --live it is none of the run's business."""
    for live, stops in ((False, "C0"), (True, "")):
        world = two_of_43()
        tools = tools_of(world)
        run = begin(tools, plan_run(tools, TO_39, live=live))
        with pytest.raises(Killed):
            go_on(again(tools, kill_at=17), yes(), run)
        assert "B" in [each.step.subject for each in statuses(tools.runs, run) if each.stand is Stand.DONE]
        world.later.append(commit("simple", offset=7, at=T + 1))
        found = go_on(again(tools), yes(), run)
        assert found.ended is (Ended.FAILED if stops else Ended.DONE)
        assert found.step.endswith(stops)
        assert ("commit of group 'simple'" in found.detail) is bool(stops)


def test_a_snapshot_of_an_older_groupshift_has_no_hashes_to_compare_with() -> None:
    """The run does not go on as if they were equal."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    with pytest.raises(Killed):
        go_on(again(tools, kill_at=9), yes(), run)
    ((key, record),) = ((k, v) for k, v in tools.runs.steps(run.run).items() if k.endswith("snapshot A"))
    result = {name: value for name, value in record.result.items() if not name.startswith("commits")}
    token = tools.runs.claim(run.run, "older", 1)
    tools.runs.put(run.run, replace(record, result=result, token=token))
    found = go_on(again(tools), yes(), run)
    assert (key, found.ended) == ("02 snapshot A", Ended.FAILED)
    assert "has no hashes of records" in found.detail


def test_consumers_may_commit_anew_while_they_are_converted() -> None:
    """Between A and B: a client commits when it is restarted; offsets are compared all the same."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    with pytest.raises(Killed):
        go_on(again(tools, kill_at=9), yes(), run)
    world.later.append(commit("simple", offset=7, at=T + 1))
    assert go_on(again(tools), yes(), run).ended is Ended.DONE
