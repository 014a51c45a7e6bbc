"""What a run does after each look and answer: the DAGs of a move, over a simulated group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupshift.bootstrap import moves
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import RunState
from groupshift.engine.progress import Paused, Stopped
from groupshift.errors import Transient
from groupshift.ports.clock import CrashPoint
from groupshift_testing.evidence import MemoryEvidence
from support.coordination_runs import CoordinationProcesses, make_coordination
from support.simulated_dags import SimulatedDags, simulated_dags
from support.simulated_runs import At

pytestmark = pytest.mark.timeout(900)

OLD, AWARE, PLAIN = MemberKind.ZOOKEEPER, MemberKind.AWARE, MemberKind.PLAIN
CONF = {"canary_watch": 0, "soak": 3}
DAG = "migrate_coordination"
CANARY = f"canary/replace_members {CrashPoint.AFTER_READ_BACK.value}"


@pytest.fixture
def group() -> CoordinationProcesses:
    """Three old members, six partitions."""
    return make_coordination()


@pytest.fixture
def told(group: CoordinationProcesses, runnable: Any, monkeypatch: pytest.MonkeyPatch) -> SimulatedDags:
    """The DAGs over that group."""
    return simulated_dags(group, runnable.dags, monkeypatch)


def of(tasks: dict[str, str], *names: str) -> list[str]:
    """The states of these tasks."""
    return [str(tasks[each]) for each in names]


def test_a_full_run_walks_every_planned_phase_and_ends_green(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """Until toggle: canary, roll, rehearsal, toggle act once each, retire is skipped, soak follows. Each
    comparison is a Spark task of its own, before and after each act."""
    state, tasks = told.go(DAG, **CONF)
    assert (state, group.state(told.run), told.acts()) == (
        "success",
        RunState.MOVED,
        ["canary", "roll", "toggle"],
    )
    assert [task for task, _, _ in told.asked] == ["approve_plan", "approve_toggle"]
    assert [task for task, _ in told.jobs] == [
        f"{phase}.compare_{moment}"
        for phase in ("canary", "roll", "toggle", "soak")
        for moment in ("before", "after")
    ]
    assert len({output for _, output in told.jobs}) == 8
    assert of(tasks, "rehearse", "soak.wait", "soak.judge_after", "verdict", "planned") == ["success"] * 5
    skipped = ("retire.snapshot_before", "retire.act", "last_gate", "finalise.act", "keep", "going_back")
    assert of(tasks, *skipped, "undo_toggle.act", "undo_members.act") == ["skipped"] * 8
    events = [(each.kind.value, each.step) for each in group.runs.events(told.run)]
    rehearsed = next(at for at, (kind, step) in enumerate(events) if "rehearse" in step and kind == "checked")
    answered = [at for at, (kind, step) in enumerate(events) if kind == "gate_answered" and "toggle" in step]
    assert rehearsed < answered[0]


def test_without_execute_the_run_ends_green_after_the_plan(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """Plan only: no gate is opened, nothing is acted on, no soak."""
    state, tasks = told.go(DAG, **CONF, execute=False)
    assert (state, group.state(told.run), told.asked, told.acts()) == ("success", RunState.PREVIEW, [], [])
    assert of(tasks, "plan", "verdict", "approve_plan", "soak.snapshot_before", "undo_members.act") == [
        "success",
        "success",
        "skipped",
        "skipped",
        "skipped",
    ]


def test_a_run_until_canary_soaks_and_skips_what_was_not_asked_for(told: SimulatedDags) -> None:
    """Phases beyond ``until`` are skipped and the final part still runs."""
    state, tasks = told.go(DAG, **CONF, until="canary")
    assert (state, told.acts()) == ("success", ["canary"])
    assert of(tasks, "canary.judge_after", "soak.judge_after") == ["success"] * 2
    assert of(tasks, "roll.act", "rehearse", "approve_toggle", "toggle.act", "last_gate") == ["skipped"] * 5


@pytest.mark.parametrize(
    ("answer", "ends", "done", "mode"),
    [
        ("Keep", RunState.MOVED, ["success", "skipped", "skipped"], b"kafka"),
        (None, RunState.MOVED, ["success", "skipped", "skipped"], b"kafka"),
        ("Finalise", RunState.FINALISED, ["skipped", "success", "success"], None),
    ],
)
def test_a_group_that_came_some_way_goes_on_from_there_to_its_last_gate(
    told: SimulatedDags,
    group: CoordinationProcesses,
    answer: str | None,
    ends: RunState,
    done: list[str],
    mode: bytes | None,
) -> None:
    """All members are migration-aware already: phases that the plan lacks are skipped, the others are done.
    At the last gate nobody answering keeps the rollback open."""
    for place in group.world.places.values():
        place.kind = AWARE
    group.world.tick()
    told.answers["last_gate"] = answer
    state, tasks = told.go(DAG, **CONF, until="retire")
    assert (state, group.state(told.run), group.world.mode.data) == ("success", ends, mode)
    assert told.acts()[:2] == ["toggle", "retire"]
    assert of(tasks, "keep", "finalise.act", "finalise.wait") == done
    assert of(tasks, "canary.act", "roll.act", "rehearse", "soak.judge_after") == [
        "skipped",
        "skipped",
        "success",
        "success",
    ]
    assert told.asked[-1][2] == ("Finalise", "Keep")


@pytest.mark.parametrize("answer", ["Reject", None])
def test_a_plan_that_nobody_approves_changes_nothing_and_ends_red(
    told: SimulatedDags, group: CoordinationProcesses, answer: str | None
) -> None:
    """Expired is rejected by nobody: journaled, no act, no rollback, a red run."""
    told.answers["approve_plan"] = answer
    state, tasks = told.go(DAG, **CONF)
    assert (state, group.state(told.run), told.acts()) == ("failed", RunState.REJECTED, [])
    assert of(tasks, "approve_plan", "canary.snapshot_before", "going_back", "undo_members.act") == [
        "failed",
        "upstream_failed",
        "skipped",
        "skipped",
    ]
    closed = next(e for e in group.runs.events(told.run) if e.kind == "closed")
    assert f"declined by {'alice' if answer else 'nobody'}" in closed.body["reason"]


def test_a_rejected_toggle_stops_there_with_the_rollback_open(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """Members stay migration-aware in zookeeper mode; nothing is undone without being asked for. The DAG
    roll_back takes it back, phase by phase, and is green."""
    told.answers["approve_toggle"] = "Reject"
    state, tasks = told.go(DAG, **CONF)
    assert (state, group.state(told.run), told.acts()) == ("failed", RunState.MOVED, ["canary", "roll"])
    assert of(tasks, "approve_toggle", "toggle.act", "soak.wait", "going_back") == [
        "failed",
        "upstream_failed",
        "upstream_failed",
        "skipped",
    ]
    run = told.run
    state, tasks = told.go("roll_back", run=run, execute=False)
    assert told.said == {}
    assert (state, group.state(run), tasks["undo_members.act"]) == ("success", RunState.MOVED, "skipped")
    state, tasks = told.go("roll_back", run=run)
    assert (state, group.state(run), group.kinds()) == ("success", RunState.ROLLED_BACK, [OLD] * 3)
    assert of(tasks, "undo_toggle.act", "undo_fill.act", "undo_members.act", "undo_members.judge_after") == [
        "skipped",
        "skipped",
        "success",
        "success",
    ]


def test_a_run_goes_back_to_zookeeper_mode_and_then_further(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """`to` says how far: mode back, aware members stay; then the members, too."""
    told.go(DAG, **CONF)
    run = told.run
    state, tasks = told.go("roll_back", run=run, to="zookeeper_mode")
    assert (state, group.state(run), group.kinds()) == ("success", RunState.ROLLED_BACK, [AWARE] * 3)
    assert of(tasks, "undo_toggle.act", "undo_members.act") == ["success", "skipped"]
    state, tasks = told.go("roll_back", run=run, to="old_members")
    assert (state, group.kinds(), tasks["undo_members.act"]) == ("success", [OLD] * 3, "success")


def test_a_failed_judgement_goes_back_without_asking_and_ends_red(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """What was done is walked back phase by phase; later phases of the way there never start."""
    place = group.world.places["m3"]

    def held() -> None:
        place.running, place.held = False, True

    def there() -> None:
        place.running, place.held = True, False
        group.world.tick()

    point = f"undo_members/judge before {CrashPoint.AFTER_READ_BACK.value}"
    told.crash = At({CANARY: held, point: there})
    state, tasks = told.go(DAG, **CONF)
    assert (state, group.state(told.run)) == ("failed", RunState.ROLLED_BACK)
    assert group.kinds() == [OLD] * 3
    assert [task for task, end in tasks.items() if end == "failed"] == ["canary.judge_after", "verdict"]
    assert of(tasks, "going_back", "undo_members.act", "undo_members.judge_after") == ["success"] * 3
    assert of(tasks, "undo_retire.act", "undo_toggle.act") == ["skipped"] * 2
    assert of(tasks, "roll.act", "soak.snapshot_before", "keep") == ["upstream_failed"] * 3
    assert [task for task, _, _ in told.asked] == ["approve_plan"]


def test_a_failed_proof_of_the_rollback_stops_it(told: SimulatedDags, group: CoordinationProcesses) -> None:
    """The killed member is still missing: the run stays open, and a person has to look. Triggering
    `roll_back` goes on; it ends red, for the run went back by itself, as it does on the command line."""
    place = group.world.places["m3"]

    def held() -> None:
        place.running, place.held = False, True

    told.crash = At({CANARY: held})
    state, tasks = told.go(DAG, **CONF)
    assert (state, group.state(told.run)) == ("failed", RunState.ROLLING_BACK)
    failed = [task for task, end in tasks.items() if end == "failed"]
    assert failed[0] == "canary.judge_after"
    assert failed[-1] == "verdict"
    assert any(each.startswith("undo_members.") for each in failed)
    place.running, place.held = True, False
    group.world.tick()
    state, tasks = told.go("roll_back", run=told.run)
    assert (state, group.state(told.run)) == ("failed", RunState.ROLLED_BACK)
    assert [task for task, end in tasks.items() if end == "failed"] == ["verdict"]


@pytest.mark.parametrize(
    ("answer", "end", "state"),
    [
        ("Go on", "success", RunState.MOVED),
        ("Stop here", "failed", RunState.MOVED),
        ("Roll back", "failed", RunState.ROLLED_BACK),
        (None, "failed", RunState.MOVED),
    ],
)
def test_an_inconclusive_judgement_asks(
    told: SimulatedDags, group: CoordinationProcesses, answer: str | None, end: str, state: RunState
) -> None:
    """A person goes on and the run ends green; silence is no decision to act: neither on nor back."""
    group.clock.on_sleep.clear()
    group.world.idle.update(group.world.all_partitions())
    group.world.kafka.update(dict.fromkeys(group.world.all_partitions(), 90))
    told.answers["canary.judge_after"] = answer
    ended, tasks = told.go(DAG, **{**CONF, "canary_watch": 30}, until="roll")
    assert told.asked[1][2] == ("Go on", "Roll back", "Stop here")
    assert (ended, group.state(told.run)) == (end, state)
    assert ("roll" in told.acts()) is (answer == "Go on")
    assert tasks["roll.act"] == ("success" if answer == "Go on" else "upstream_failed")
    assert tasks["undo_members.judge_after"] == ("success" if answer == "Roll back" else "skipped")


def test_u11_a_refused_run_has_one_red_task_and_it_says_why(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """Nothing is looked for under the name of a run that was never made."""
    group.world.places.clear()
    group.world.tick()
    for dag, conf in ((DAG, CONF), ("roll_back", {"run": "nothing-1"})):
        state, tasks = told.go(dag, **conf)
        assert state == "failed"
        assert [task for task, end in tasks.items() if end == "failed"] == ["plan"], dag
        assert tasks["verdict"] == "skipped"
    assert group.runs.recent(1) == ()


def test_a_run_and_its_answers_bear_the_names_of_who_gave_them(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """Who triggered asked for it, who answered approved it. XCom carries the run's name."""
    told.go(DAG, **CONF, until="canary")
    record = group.runs.find(told.run)
    assert (record.requester, record.origin) == ("ann", f"{DAG}/run-1")
    answers = [each.body for each in group.runs.events(told.run) if each.kind == "gate_answered"]
    assert [(each["who"], each["choice"]) for each in answers] == [("alice", "approve")]
    assert told.kept["plan", "return_value"] == told.run


def test_a_task_that_is_tried_again_asks_for_no_approval_that_holds(told: SimulatedDags) -> None:
    """The cluster did not answer at the first step behind the gate: its next try claims anew, and goes on."""

    def silent() -> None:
        raise Transient("the group did not answer")

    told.crash = At({f"canary/snapshot before canary {CrashPoint.BEFORE_JOURNAL.value}": silent})
    state, _ = told.go(DAG, **CONF, until="canary")
    assert (state, told.said["canary.snapshot_before"]) == ("success", "the group did not answer")
    assert [task for task, _, _ in told.asked] == ["approve_plan"]


@pytest.mark.parametrize(("answer", "state"), [("Roll back", RunState.ROLLED_BACK), (None, RunState.RUNNING)])
def test_what_could_not_be_measured_is_measured_once_more_and_cannot_be_waved_through(
    told: SimulatedDags, group: CoordinationProcesses, answer: str | None, state: RunState
) -> None:
    """No job leaves a verdict: after the second time a person chooses between back and stop."""
    fails = iter([True, True])
    told.fails = lambda job: "canary-compare-after" in job.output and next(fails, False)
    told.answers["canary.judge_after"] = answer
    ended, tasks = told.go(DAG, **CONF, until="canary")
    assert told.asked[1][2] == ("Roll back", "Stop here")
    assert (ended, tasks["canary.judge_after"]) == ("failed", "failed")
    assert group.state(told.run) in {state, RunState.MOVED}


def test_s12_the_keys_of_the_store_of_evidence_stay_out_of_xcom(
    told: SimulatedDags, group: CoordinationProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may read XCom is not whoever may read the evidence; the job that is submitted has them."""
    root = "s3://reader:hush@bucket"
    monkeypatch.setattr(MemoryEvidence, "path", lambda _self, run, *parts: "/".join((root, run, *parts)))
    state, _ = told.go(DAG, **CONF, until="canary")
    pushed = {task: value for (task, key), value in told.kept.items() if key == "spark_job"}
    assert (state, len(pushed)) == ("success", len(told.jobs))
    assert "***@bucket" in str(pushed)
    assert "hush" not in str(told.kept)
    assert all("hush" in output for _, output in told.jobs)


def test_a_gate_waits_no_longer_than_the_settings_let_a_yes_count(
    told: SimulatedDags, group: CoordinationProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A yes that came later would be refused as too old."""
    monkeypatch.setattr(moves, "tools_of", lambda *_: replace(group.tools(), gate_expiry_s=60))
    waited: list[float] = []
    told.parked = lambda task: waited.append(told.dags[DAG].get_task(task).response_timeout.total_seconds())
    told.go(DAG, **CONF, until="canary")
    told.go(DAG, **CONF, until="canary", gate_expiry_s=30)
    assert waited == [60, 30]


def test_a_rollback_of_which_something_was_only_accepted_ends_red(
    told: SimulatedDags, group: CoordinationProcesses
) -> None:
    """A member stays down when the mode goes back: somebody accepts that on the command line, and the DAG
    goes on to the end. Everything is undone, and the last task is red all the same."""
    told.go(DAG, **CONF)
    run, place = told.run, group.world.places["m3"]

    def held() -> None:
        place.running, place.held = False, True

    told.crash = At({f"undo_toggle/compare after {CrashPoint.AFTER_READ_BACK.value}": held})
    state, tasks = told.go("roll_back", run=run)
    assert (state, group.state(run)) == ("failed", RunState.ROLLING_BACK)
    assert tasks["undo_toggle.judge_after"] == "failed"
    judge = next(key for key in group.runs.steps(run) if key.endswith("undo_toggle/judge after"))
    assert isinstance(group.drive(run), Stopped), "what a person sees first"
    assert isinstance(group.drive(run, accept=judge, phases=frozenset({"undo_toggle"})), Paused)
    place.running, place.held = True, False
    state, tasks = told.go("roll_back", run=run)
    assert (state, group.state(run), group.kinds()) == ("failed", RunState.ROLLED_BACK, [OLD] * 3)
    assert [task for task, end in tasks.items() if end == "failed"] == ["verdict"]
