# ruff: noqa: ARG005 - a double has the parameters of the real one
"""Every task of a run that another one took over: nothing is done, journaled or asked; the run ends red."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.timezone import utcnow

from groupshift.application.run_engine import Ended
from groupshift.errors import GroupshiftError, Rejected
from groupshift.log.releases import Coordinator
from groupshift_airflow import downgrades, expansions
from support.dag_story import Story, Told, Try, telling
from support.simulated_downgrade import tools_of as downgrading
from support.simulated_downgrade import two_of_43
from support.simulated_expansion import committed
from support.simulated_expansion import tools_of as expanding

pytestmark = pytest.mark.timeout(600)

SAID = r"run roll_back/b took this migration over at .*look there"
MOVES = ("migrate_coordination", "migrate_protocol", "roll_back")
PARAMS = {
    "group": "orders",
    "driver": "process",
    "canary": 1,
    "canary_share": 0.0,
    "canary_watch_s": 0,
    "soak_s": 0,
    "until": "retire",
    "execute": True,
    "gate_expiry_s": 60,
    "migration": "orders-1",
    "to": "old_members",
}


class _Tries(Try):
    """A task on its first try."""

    try_number, max_tries = 1, 2


def _context() -> dict[str, Any]:
    return {"ti": _Tries(), "params": dict(PARAMS)}


def _given(task: Any) -> Any:
    """A task as Airflow renders it: with the ids of its run."""
    for name, value in {"migration": "orders-1", "token": "7"}.items():
        if hasattr(task, name):
            setattr(task, name, value)
    return task


def _tasks(dag: Any) -> list[Any]:
    """Those that have a claim: all but the ones that make the plan, and the leaf that does nothing."""
    return [
        _given(task)
        for task in dag.topological_sort()
        if task.task_id not in {"assess", "plan", "planned"} and hasattr(task, "migration")
    ]


@pytest.mark.parametrize("name", MOVES)
def test_u01_every_task_of_a_run_that_was_taken_over_is_skipped_and_its_last_one_red(
    name: str, dagbag: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshot, proof, judge, act, wait, soak, gates, rehearsal, keep, finalise, the way back: all."""
    parked: list[Any] = []
    monkeypatch.setattr(HITLOperator, "execute", lambda self, context: parked.append(self))
    scripted.lost_to = "roll_back/b"
    ends = {}
    for task in _tasks(dagbag.dags[name]):
        with pytest.raises((AirflowSkipException, AirflowFailException), match=SAID) as said:
            (task.poke if isinstance(task, BaseSensorOperator) else task.execute)(_context())
        ends[task.task_id] = said.type
    assert len(ends) > 10
    assert [task for task, end in ends.items() if end is AirflowFailException] == ["verdict"]
    assert (parked, scripted.calls) == ([], [])


@pytest.mark.parametrize("name", MOVES)
def test_u01_an_answer_at_a_gate_that_was_parked_before_is_refused_with_the_sentence(
    name: str, dagbag: Any, scripted: Any
) -> None:
    """Whatever is answered, also when nobody does in time; who answered reads it in the red task."""
    scripted.lost_to = "roll_back/b"
    for gate in [task for task in _tasks(dagbag.dags[name]) if isinstance(task, HITLOperator)]:
        for choice in [*gate.options, None]:
            context = _context()
            context["ti"].xcom_push("fingerprint", "print-1")
            event = {
                "chosen_options": [choice] if choice else gate.defaults,
                "params_input": {},
                "responded_at": utcnow(),
                "responded_by_user": {"id": "alice", "name": "alice"} if choice else None,
            }
            who = "alice" if choice else r"nobody \(expired\)"
            with pytest.raises(AirflowFailException, match=rf"the answer of {who} is not taken: {SAID}"):
                gate.execute_complete(context, event)
    assert scripted.calls == []


def test_u01_a_task_that_claims_is_red_when_its_run_lost_the_claim_before(
    scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try again after another run took over takes nothing back, and no later task could tell it."""
    from groupshift.errors import Fenced
    from groupshift_airflow import operators

    def refuse(*_: Any) -> int:
        raise Fenced("run roll_back/b took this migration over at 12:00: look there")

    monkeypatch.setattr(scripted, "claim", refuse)
    task = operators.Plan(task_id="plan", token="None", kafka_conn_id="k", zookeeper_conn_id="z")
    run = type("Run", (), {"dag_id": "migrate_coordination", "run_id": "a", "triggering_user_name": "ann"})
    with pytest.raises(AirflowFailException, match=SAID):
        task.execute({**_context(), "dag_run": run})


@pytest.mark.parametrize("at", ["snapshot canary before", "act roll", "judge soak before"])
def test_u01_a_run_that_is_taken_over_walks_nothing_more(at: str, run: Any, scripted: Any) -> None:
    """From the next task on, through all trigger rules: no second way back beside the other one's."""
    noted = scripted._note

    def note(*words: object) -> None:
        noted(*words)
        if scripted.calls[-1] == at:
            scripted.lost_to = "roll_back/b"

    scripted._note = note
    state, tasks = run("migrate_coordination", {"group": "orders", "execute": True, "soak_s": 0})
    assert (state, scripted.calls[-1]) == ("failed", at)
    assert [task for task, end in tasks.items() if end == "failed"] == ["verdict"]
    assert tasks["going_back"] == tasks["undo_members.snapshot_before"] == "skipped"


def _waited(run: Any, scripted: Any, refuse: str) -> tuple[str, dict[str, str]]:
    scripted.refuse = refuse
    return run("migrate_coordination", {"group": "nobody", "execute": True, "soak_s": 0})


def test_u11_a_refused_run_has_one_red_task_and_it_says_why(run: Any, scripted: Any) -> None:
    """An unknown group: nothing is looked for under the id of a migration that was never made."""
    state, tasks = _waited(run, scripted, "group 'nobody' does not exist; name one that does")
    assert state == "failed"
    assert [task for task, end in tasks.items() if end == "failed"] == ["plan"]
    assert (tasks["going_back"], tasks["verdict"]) == ("skipped", "skipped")


def test_u11_a_refused_plan_keeps_its_reason_for_the_tab_of_its_run(scripted: Any) -> None:
    """There is no migration whose page could show it."""
    from groupshift_airflow import operators

    scripted.refuse = "group 'nobody' does not exist; name one that does"
    run = type("Run", (), {"dag_id": "migrate_coordination", "run_id": "a", "triggering_user_name": "ann"})
    context = {**_context(), "dag_run": run}
    task = operators.Plan(task_id="plan", token="None", kafka_conn_id="k", zookeeper_conn_id="z")
    with pytest.raises(Rejected):
        task.execute(context)
    assert context["ti"].kept == {"refused": scripted.refuse}


def test_u11_the_tab_of_a_refused_run_says_why(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that it has made nothing yet."""
    from groupshift_airflow.web import run_pages

    monkeypatch.setattr(run_pages, "_pushed", lambda *_: "group 'nobody' does not exist")
    said = run_pages.refusal("migrate_coordination", "a")
    assert said == "This run was refused, and nothing was changed: group 'nobody' does not exist"


@pytest.mark.parametrize("name", ["migrate_protocol", "roll_back", "downgrade_coordinator"])
def test_u11_a_refused_run_of_another_dag_has_one_red_task(
    name: str, run: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that could not make or find what the run is about."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise GroupshiftError("there is no such thing")

    monkeypatch.setattr(scripted, "plan", refuse)
    monkeypatch.setattr(type(scripted), "status", refuse, raising=False)
    monkeypatch.setattr(downgrades, "opened", refuse)
    conf: dict[str, Any] = {"execute": True}
    if name == "migrate_protocol":
        conf |= {"group": "orders", "to": "consumer"}
    if name == "roll_back":
        conf |= {"migration": "orders-9"}
    if name == "downgrade_coordinator":
        conf |= {"to": "3.9.2", "from": "4.3.1"}
    state, tasks = run(name, conf)
    assert state == "failed"
    assert [task for task, end in tasks.items() if end == "failed"] == ["plan"]


DOWNGRADE = {
    "to": "3.9.2",
    "from": "4.3.1",
    "coordinator": "default",
    "live": False,
    "brokers_only": False,
    "execute": True,
    "gate_expiry_s": 60,
}
EXPANSION = {"to": 8, "drain_s": 5, "execute": True, "gate_expiry_s": 60}


def _story(dag: str, dagbag: Any, patch: pytest.MonkeyPatch) -> Story:
    if dag == "downgrade_coordinator":
        told = Told(dag=dag, module=downgrades, params=DOWNGRADE)
        return telling(told, downgrading, dagbag, patch)(two_of_43())
    told = Told(dag=dag, module=expansions, params=EXPANSION)
    return telling(told, expanding, dagbag, patch)(committed(Coordinator.NEW))


RUNS = ("downgrade_coordinator", "expand_offsets_topic")


@pytest.mark.parametrize("name", RUNS)
def test_u01_every_task_of_a_cluster_run_that_was_taken_over_is_skipped(
    name: str, database: None, dagbag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process drives it now: it is not claimed back, nobody is asked, the last task is red."""
    told = _story(name, dagbag, monkeypatch)
    told.execute("plan")
    told.tools.runs.claim(told.run, "cli-run-bob", 1_700_000_000_000)
    steps, claim = dict(told.tools.runs.steps(told.run)), told.tools.runs.held(told.run)
    for task in [each.task_id for each in told.tasks if each.task_id not in {"plan", "planned", "verdict"}]:
        with pytest.raises(AirflowSkipException, match=r"run cli-run-bob took this run over at 2023-11-14"):
            told.execute(task)
    with pytest.raises(AirflowFailException, match=r"run cli-run-bob took this run over at .*look there"):
        told.execute("verdict")
    assert (told.parked, told.world.asked) == ([], [])
    assert (told.tools.runs.steps(told.run), told.tools.runs.held(told.run)) == (steps, claim)


@pytest.mark.parametrize("name", RUNS)
def test_u01_an_answer_at_a_gate_of_a_cluster_run_that_was_taken_over_is_refused(
    name: str, database: None, dagbag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person that approves reads who drives it now; nothing is approved."""
    told = _story(name, dagbag, monkeypatch)
    told.execute("plan")
    if name == "expand_offsets_topic":
        told.execute("drain")
        told.execute("snapshot")
    told.execute("approve_plan")
    told.tools.runs.claim(told.run, "cli-run-bob", 1_700_000_000_000)
    steps = dict(told.tools.runs.steps(told.run))
    with pytest.raises(AirflowFailException, match=r"the answer of alice is not taken: run cli-run-bob took"):
        told.answer("approve_plan", "Approve")
    assert (told.tools.runs.steps(told.run), told.world.asked) == (steps, [])


def test_u01_a_run_that_only_stopped_elsewhere_is_gone_on_with(
    database: None, dagbag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody looked at it on the command line, and it waits: nobody has it, a gate here may be answered."""
    from groupshift.application.downgrade_run import go_on
    from support.simulated_downgrade import yes

    told = _story("downgrade_coordinator", dagbag, monkeypatch)
    told.execute("plan")
    told.execute("approve_plan")
    run = told.tools.runs.find(told.run)
    assert go_on(told.tools, yes(decide=lambda _: None), run).ended is Ended.WAITING
    told.answer("approve_plan", "Approve")
    told.execute("convert")
    assert told.world.asked == ["convert left"]
