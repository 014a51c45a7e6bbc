"""A run that another process took over: its Airflow run does, asks and undoes nothing more.

Of each move by its DAG over a simulated group; on real servers: `test_real_refusals` and
`tests/matrix/test_airflow_taken_over.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from groupshift.domain.run import Findings, RunState
from groupshift.engine.run import drive
from groupshift.errors import Fenced, Transient
from groupshift.moves.coordination.move import CoordinationMove
from groupshift_airflow import plan_and_verdict_tasks
from support.coordination_runs import CoordinationProcesses, make_coordination
from support.memory_runs import MemoryRuns
from support.simulated_dags import SimulatedDags, simulated_dags

pytestmark = pytest.mark.timeout(600)

DAG = "migrate_coordination"
CONF = {"canary_watch": 0, "soak": 3}
SAID = "run cli-over took run coordination-orders-app-"


@pytest.fixture
def group() -> CoordinationProcesses:
    """Three old members, six partitions."""
    return make_coordination()


@pytest.fixture
def told(group: CoordinationProcesses, runnable: Any, monkeypatch: pytest.MonkeyPatch) -> SimulatedDags:
    """The DAGs over that group."""
    return simulated_dags(group, runnable.dags, monkeypatch)


def take(told: SimulatedDags) -> None:
    """Somebody claims the run on the command line."""
    now = told.bench.clock.now_ms()
    told.bench.runs.claim(told.run, "cli-over", now, anew=True, take_over=True)


@pytest.mark.parametrize(
    "at", ["approve_plan", "canary.snapshot_before", "canary.wait", "roll.act", "soak.judge_before"]
)
def test_u01_a_run_that_is_taken_over_walks_nothing_more(
    told: SimulatedDags, group: CoordinationProcesses, at: str
) -> None:
    """From that task on, through all trigger rules: no second rollback beside the other one's. Each task is
    skipped with the sentence that says who has the run, and the last one is red with it."""
    left: list[int] = []

    def before(task: str) -> None:
        if task == at and not left:
            take(told)
            left.append(len(group.runs.events(told.run)))

    told.before = before
    state, tasks = told.go(DAG, **CONF)
    assert state == "failed"
    assert [task for task, end in tasks.items() if end == "failed"] == ["verdict"]
    assert (tasks[at], tasks["going_back"], tasks["undo_members.snapshot_before"]) == ("skipped",) * 3
    assert SAID in told.said[at]
    assert "cli-over has it" in told.said["verdict"]
    assert len(group.runs.events(told.run)) == left[0], "nothing of this run reached the journal"


@pytest.mark.parametrize("choice", ["Approve", "Reject", None])
def test_u01_an_answer_at_a_gate_that_was_parked_before_is_refused_with_the_sentence(
    told: SimulatedDags, group: CoordinationProcesses, choice: str | None
) -> None:
    """Whatever is answered, also when nobody does in time; who answered reads it in the red task."""
    told.answers["approve_plan"] = choice
    told.parked = lambda _task: take(told)
    state, tasks = told.go(DAG, **CONF)
    who = "alice" if choice else "nobody (expired)"
    assert (state, tasks["approve_plan"]) == ("failed", "failed")
    assert told.said["approve_plan"].startswith(f"the answer of {who} is not taken: {SAID}")
    assert (group.state(told.run), told.acts()) == (RunState.PLANNED, [])
    assert not [each for each in group.runs.events(told.run) if each.kind == "gate_answered"]


@pytest.mark.parametrize("choice", ["Approve", None])
def test_u01_a_run_that_another_process_took_and_closed_stays_that_ones(
    told: SimulatedDags, group: CoordinationProcesses, choice: str | None
) -> None:
    """`roll_back` takes the run over while its gate is parked, and ends it. The gate is answered only then:
    the answer is not taken, the claim stays where it is, and the Airflow run is red, not green."""
    told.answers["approve_toggle"] = choice

    def over(task: str) -> None:
        if task == "approve_toggle":
            group.roll_back(told.run, holder="cli-over", take_over=True)

    told.parked = over
    state, tasks = told.go(DAG, **CONF)
    assert group.state(told.run) is RunState.ROLLED_BACK
    assert (state, tasks["approve_toggle"], tasks["verdict"]) == ("failed", "failed", "failed")
    assert "is not taken" in told.said["approve_toggle"]
    assert "brought it to its end, rolled_back" in told.said["approve_toggle"]
    assert "not by this Airflow run" in told.said["verdict"]
    claim = group.runs.held(told.run)
    assert claim is not None
    assert claim.holder == "cli-over"


def test_u01_a_run_that_another_process_took_and_closed_between_two_tasks_is_skipped(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """Nothing was answered, so nothing is lost; the last task is red, for the run went back elsewhere."""

    def before(task: str) -> None:
        if task == "roll.act" and group.state(told.run).is_open:
            group.roll_back(told.run, holder="cli-over", take_over=True)

    told.before = before
    state, tasks = told.go(DAG, **CONF)
    assert (state, tasks["roll.act"], tasks["verdict"]) == ("failed", "skipped", "failed")
    claim = group.runs.held(told.run)
    assert claim is not None
    assert claim.holder == "cli-over"


def test_u01_a_run_that_somebody_holds_is_not_gone_on_with_unasked(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """Neither by another run of its DAG nor by `roll_back`; both take it over when they are told to."""
    name = group.begin(canary_watch=0)
    claimed = group.claim(name, holder="cli-bob")
    for dag, conf in ((DAG, CONF), ("roll_back", {"run": name})):
        state, tasks = told.go(dag, **conf)
        assert (state, tasks["plan"]) == ("failed", "failed")
        assert "cli-bob" in told.said["plan"]
    claimed.refresh()  # it has the run still
    state, tasks = told.go(DAG, **CONF, take_over=True)
    assert (state, told.run, group.state(name)) == ("success", name, RunState.MOVED)
    with pytest.raises(Fenced):
        claimed.refresh()


def test_u01_a_rollback_that_is_refused_leaves_the_run_to_whoever_has_it(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """Asked for a point that the move does not name, over a run that somebody drives: that one is not ended
    for it."""
    claimed = group.claim(group.begin(canary_watch=0), holder="cli-bob")
    drive(claimed)
    state, tasks = told.go("roll_back", run=claimed.name, to="nowhere", take_over=True)
    assert (state, tasks["plan"]) == ("failed", "failed")
    assert "does not go back to 'nowhere'" in told.said["plan"]
    held = group.runs.held(claimed.name)
    assert held is not None
    assert held.holder == "cli-bob"


def test_u01_a_rollback_that_fails_to_begin_is_given_up(
    told: SimulatedDags, group: CoordinationProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was claimed, and the group did not answer then: whoever tries again need not take it over."""
    name = group.begin(canary_watch=0)
    plan = group.decide
    group.drive(name, decide=lambda asked: plan(asked) if "plan" in asked.gate else None)
    looks = iter([look_back := CoordinationMove.look_back])

    def silent(_self: CoordinationMove, ports: Any, request: Any) -> Any:
        if next(looks, None) is None:
            raise Transient("the group did not answer")
        return look_back(ports, request)

    monkeypatch.setattr(CoordinationMove, "look_back", silent)
    state, _ = told.go("roll_back", run=name)
    assert (state, told.said["plan"]) == ("failed", "the group did not answer")
    held = group.runs.held(told.run)
    assert held is not None
    assert (held.holder.partition("/")[0], held.stopped) == ("roll_back", True)


def test_roll_back_goes_as_far_back_as_the_run_itself_would(
    told: SimulatedDags, group: CoordinationProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only set the mode, such as a wave of a scan, goes back by the mode: members are not its own."""
    told.answers["approve_toggle"] = "Approve"
    told.go(DAG, **CONF)
    monkeypatch.setattr(CoordinationMove, "falls_back_to", lambda *_: "zookeeper_mode")
    state, _ = told.go("roll_back", run=told.run)
    begun = [each.body["to"] for each in group.runs.events(told.run) if each.kind == "rollback_begun"]
    assert (state, begun) == ("success", ["zookeeper_mode"])


def test_u01_a_run_that_only_stopped_elsewhere_is_gone_on_with(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """Somebody looked at it on the command line, and it waits: nobody has it, and it needs no take-over."""
    name = group.begin(canary_watch=0)
    group.drive(name, holder="cli-bob", decide=lambda _question: None)
    state, _ = told.go(DAG, **CONF)
    assert (state, told.run, group.state(name)) == ("success", name, RunState.MOVED)


def test_u01_the_last_task_gives_a_run_up_although_the_cluster_does_not_answer(
    told: SimulatedDags, group: CoordinationProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why it is open is in the journal, and whoever goes on later need not take it over."""

    def silent(*_: Any) -> Any:
        raise Transient("the cluster did not answer")

    def before(task: str) -> None:
        if task == "roll.act":
            monkeypatch.setattr(CoordinationMove, "target", silent)

    told.before = before
    state, _ = told.go(DAG, **CONF)
    held = group.runs.held(told.run)
    assert held is not None
    assert (state, group.state(told.run), held.stopped) == ("failed", RunState.RUNNING, True)
    assert f"run {told.run} is running at step " in told.said["verdict"]


def test_an_open_run_that_was_begun_for_something_else_is_named(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """What differs, and how to go on."""
    name = group.begin(canary_watch=0)
    state, _ = told.go(DAG, **CONF, until="retire")
    assert state == "failed"
    assert f"run {name} of group {group.world.group} is open" in told.said["plan"]
    assert "groupshift roll-back" in told.said["plan"]


def test_u11_a_refused_plan_keeps_its_reason_for_the_tab_of_its_run(
    told: SimulatedDags, group: CoordinationProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no run whose page could show it."""
    said: list[Findings] = []
    monkeypatch.setattr(plan_and_verdict_tasks.PlanRun, "say", lambda _task, findings: said.append(findings))
    group.world.places.clear()
    group.world.tick()
    told.go(DAG, **CONF)
    assert told.kept["plan", "refused"] == told.said["plan"]
    shown = [each for findings in said for each in findings]
    assert {"fail", "pass"} <= {each.verdict.value for each in shown}, "its log has all rules, not only three"


def test_u11_the_tab_of_a_refused_run_says_why(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that it has made nothing yet."""
    from groupshift_airflow.web import run_pages

    shown: dict[str, str] = {}
    monkeypatch.setattr(run_pages, "_journal", lambda: nullcontext(MemoryRuns()))
    monkeypatch.setattr(run_pages, "_pushed", lambda *_: "group 'nobody' does not exist")
    monkeypatch.setattr(run_pages, "rendered", lambda _request, _page, **words: shown.update(words))
    run_pages.of_run(Request({"type": "http"}), "migrate_coordination", "a")
    assert shown == {
        "sentence": "This run was refused, and nothing was changed: group 'nobody' does not exist"
    }


def test_s12_who_may_read_scans_may_read_the_run_of_a_wave(
    database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no DAG of the name that its origin begins with."""
    from groupshift_airflow.web import run_pages

    asked: list[str] = []
    manager = SimpleNamespace(is_authorized_dag=lambda **about: asked.append(about["details"].id) or True)
    monkeypatch.setattr(run_pages, "get_auth_manager", lambda: manager)
    for origin in ("scan-3-1700000000000-1/orders-app", "migrate_coordination/a"):
        assert run_pages._may_read(None, SimpleNamespace(origin=origin))
    assert asked == ["scan_fleet", "migrate_coordination"]
