# ruff: noqa: ARG002, ARG005 - a double has the parameters of the real one
"""Each gate and judge by itself: what it asks, what it journals, how it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.timezone import utcnow

from groupshift.domain.plan import Gate, Until
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Rejected, Transient
from groupshift_airflow import gates, operators


@dataclass
class _TaskInstance:
    """The part of a task instance that gates use."""

    try_number: int = 3
    max_tries: int = 2
    pushed: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        return self.pushed.get(key)


@dataclass
class _Run:
    dag_id: str = "migrate_coordination"
    run_id: str = "run-1"
    triggering_user_name: str = "alice"


PARAMS = {
    "group": "orders",
    "driver": "process",
    "canary": 1,
    "canary_share": 0.0,
    "canary_watch_s": 0,
    "soak_s": 0,
    "until": "toggle",
    "execute": True,
    "gate_expiry_s": 60,
}
IDS = {"migration": "orders-1", "token": "7", "kafka_conn_id": "k", "zookeeper_conn_id": "z"}


@pytest.fixture
def context(database: None) -> dict[str, Any]:
    """A context on the last try."""
    return {"ti": _TaskInstance(), "params": dict(PARAMS), "dag_run": _Run()}


@pytest.fixture
def asked(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> list[HITLOperator]:
    """The gates that parked instead of parking."""
    parked: list[HITLOperator] = []
    monkeypatch.setattr(HITLOperator, "execute", lambda self, context: parked.append(self))
    return parked


@pytest.fixture
def answer(context: dict[str, Any]) -> Callable[[Any, str | None], Any]:
    """Resume a parked gate with an answer of alice, or of nobody."""

    def give(gate: Any, choice: str | None) -> Any:
        context["ti"].pushed["fingerprint"] = "print-1"
        event = {
            "chosen_options": [choice] if choice else gate.defaults,
            "params_input": {},
            "responded_at": utcnow(),
            "responded_by_user": {"id": "alice", "name": "alice"} if choice else None,
        }
        return gate.execute_complete(context, event)

    return give


def _approval(gate: Gate = Gate.PLAN) -> gates.Approval:
    return gates.Approval(task_id="gate", gate=gate, **IDS)


def _judge(stage: str = "canary") -> gates.Judge:
    return gates.Judge(task_id="judge", stage=stage, moment="after", **IDS)


def test_an_approval_shows_the_brief_and_expires_as_the_form_says(context: Any, asked: Any) -> None:
    """Subject and Markdown come from the App, the time to answer from the trigger form."""
    _approval().execute(context)
    (gate,) = asked
    assert (gate.subject, gate.body, gate.options) == ("plan?", "| a | b |", ["Approve", "Reject"])
    assert gate.response_timeout.total_seconds() == 60
    assert context["ti"].pushed == {"fingerprint": "print-1"}


def test_an_approval_is_journaled_with_who_gave_it(scripted: Any, answer: Any) -> None:
    """By name."""
    answer(_approval(), "Approve")
    assert scripted.calls == ["answer plan approve alice"]


def test_a_try_after_the_answer_asks_again_only_where_the_answer_is_no_approval_that_holds(
    context: Any, scripted: Any, asked: Any, answer: Any
) -> None:
    """Airflow may take a try for failed whose answer is journaled; a first try always asks."""
    answer(_approval(), "Approve")
    assert _approval().execute(context) is None
    assert asked == []
    _approval(Gate.TOGGLE).execute(context)
    scripted.changed = True
    _approval().execute(context)
    scripted.changed, context["ti"].try_number = False, 1
    _approval().execute(context)
    assert [each.gate for each in asked] == [Gate.TOGGLE, Gate.PLAN, Gate.PLAN]


@pytest.mark.parametrize(("choice", "who"), [("Reject", "alice"), (None, "nobody (expired)")])
def test_a_gate_without_approval_fails_its_task(
    scripted: Any, answer: Any, choice: str | None, who: str
) -> None:
    """Nothing behind a failed task runs; rejected and expired are both journaled."""
    with pytest.raises(AirflowFailException, match="the plan was not approved by"):
        answer(_approval(), choice)
    assert scripted.calls == [f"answer plan reject {who}"]


def test_an_approval_is_void_when_the_group_changed(scripted: Any, answer: Any) -> None:
    """The App reads the group again when the answer arrives."""
    scripted.changed = True
    with pytest.raises(Conflict, match="approval void"):
        answer(_approval(), "Approve")


def test_the_toggles_gate_opens_only_when_a_toggle_is_planned(
    context: Any, scripted: Any, asked: Any
) -> None:
    """Skipped otherwise, and with it the toggle."""
    scripted.until = Until.ROLL
    with pytest.raises(AirflowSkipException):
        _approval(Gate.TOGGLE).execute(context)
    assert asked == []


def test_a_group_that_is_not_ready_is_refused_with_its_sentence(context: Any, scripted: Any) -> None:
    """The plan raises what the App says; the retry table fails it at once."""
    scripted.refuse = "group orders has no members; start them first"
    with pytest.raises(Rejected, match="has no members"):
        operators.Plan(task_id="plan", **IDS).execute(context)
    assert scripted.calls == []


def test_a_plan_is_asked_for_by_the_person_who_triggered(context: Any, scripted: Any) -> None:
    """And is found again by the run, so that a repeated task makes no second one."""
    assert operators.Plan(task_id="plan", **IDS).execute(context) == "orders-1"
    assert scripted.calls == [
        "plan orders toggle True migrate_coordination/run-1",
        "claim orders-1 migrate_coordination/run-1",
    ]
    assert operators.move_request(context).actor == "alice"


def test_an_inconclusive_judgement_offers_all_three_ways(context: Any, scripted: Any, asked: Any) -> None:
    """On, back, or stop."""
    scripted.verdicts = {"canary/after": Verdict.INCONCLUSIVE}
    _judge().execute(context)
    assert asked[0].options == ["Go on", "Roll back", "Stop here"]


def test_what_could_not_be_measured_cannot_be_waved_through(context: Any, scripted: Any, asked: Any) -> None:
    """After the last try a person decides between back and stop."""
    scripted.verdicts = {"canary/after": Verdict.ERROR}
    _judge().execute(context)
    assert asked[0].options == ["Roll back", "Stop here"]


def test_an_error_is_measured_again_first(context: Any, scripted: Any, asked: Any) -> None:
    """Before the last try it is a failure that is tried again."""
    scripted.verdicts = {"canary/after": Verdict.ERROR}
    context["ti"].try_number = 1
    with pytest.raises(Transient, match="could not measure"):
        _judge().execute(context)
    assert asked == []


def test_a_failed_judgement_begins_the_way_back_without_asking(
    context: Any, scripted: Any, asked: Any
) -> None:
    """The decision is in the journal before the task fails."""
    scripted.calls = ["act canary"]
    scripted.verdicts = {"canary/after": Verdict.FAIL}
    with pytest.raises(AirflowFailException, match="the rule says fail; rolling back: undo_members"):
        _judge().execute(context)
    assert scripted.calls[-1] == "begin_roll_back old_members"
    assert scripted.because == "canary: V01: the rule says fail"
    assert asked == []


def test_a_failure_before_anything_was_changed_says_so(context: Any, scripted: Any) -> None:
    """There is nothing to take back."""
    scripted.verdicts = {"canary/after": Verdict.FAIL}
    with pytest.raises(AirflowFailException, match="nothing was changed"):
        _judge().execute(context)


def test_a_failed_proof_of_the_way_back_begins_no_other_one(context: Any, scripted: Any) -> None:
    """A person has to look."""
    scripted.calls = ["act canary"]
    scripted.verdicts = {"undo_members/after": Verdict.FAIL}
    with pytest.raises(AirflowFailException, match="a person has to look"):
        _judge("undo_members").execute(context)
    assert "begin_roll_back old_members" not in scripted.calls


def test_a_person_can_choose_the_way_back(scripted: Any, answer: Any) -> None:
    """Journaled as not accepted, then begun."""
    scripted.calls = ["act canary"]
    with pytest.raises(AirflowFailException, match="alice chose to roll back"):
        answer(_judge(), "Roll back")
    assert scripted.calls[1:] == ["answer review reject alice", "begin_roll_back old_members"]


def test_a_person_can_go_on(scripted: Any, answer: Any) -> None:
    """Journaled as accepted."""
    answer(_judge(), "Go on")
    assert scripted.calls == ["answer review approve alice"]


def test_the_manual_driver_shows_its_instruction(context: Any, scripted: Any, asked: Any) -> None:
    """The act parks while a person deploys."""
    scripted.instruction = "Deploy the new build on **m1**."
    gates.Act(task_id="act", stage="canary", **IDS).execute(context)
    assert asked[0].body.startswith(scripted.instruction)
    assert asked[0].options == ["Deployed", "Stop here"]
    assert all(f"**{option}**" in asked[0].body for option in asked[0].options)


def test_a_person_can_stop_before_deploying(answer: Any, scripted: Any) -> None:
    """The act fails; the judge behind it asks what to do."""
    with pytest.raises(AirflowFailException, match="alice stopped before deploying"):
        answer(gates.Act(task_id="act", stage="canary", **IDS), "Stop here")


def test_the_last_gate_is_skipped_when_nothing_can_be_finalised(
    context: Any, scripted: Any, asked: Any
) -> None:
    """A run until canary or roll ends without the question."""
    scripted.until = Until.ROLL
    with pytest.raises(AirflowSkipException):
        gates.LastGate(task_id="last", finalise="finalise", keep="keep", **IDS).execute(context)
    assert asked == []


def test_s11_who_asks_in_airflow_has_the_name_of_who_answers() -> None:
    """A user's name that looks like an account's is not taken for one: neither of who answers nor of who
    asked."""
    from groupshift.application.approval import identity
    from groupshift_airflow.operators import move_request

    spoofed = "eve (uid 0, alice)"
    run = _Run(triggering_user_name=spoofed)
    actor = move_request({"params": PARAMS, "dag_run": run}).actor  # type: ignore[typeddict-item]
    assert actor == gates.person({"id": "1", "name": spoofed})
    assert identity(actor) not in {"alice", "eve"}


def test_u17_the_log_of_a_task_does_not_say_pass_of_what_was_not_asked(context: Any) -> None:
    """Each finding is a line of it."""
    from types import SimpleNamespace

    from groupshift.domain.verdict import Finding

    lines: list[str] = []
    log = SimpleNamespace(info=lambda *said: lines.append(said[0] % said[1:]))
    found = [Finding(rule="C1", verdict=Verdict.PASS, reason="no owner to look at", asked=False)]
    found += [Finding(rule="C2", verdict=Verdict.PASS, reason="equal")]
    show: Any = operators.UseCase.show
    show(SimpleNamespace(log=log), tuple(found))
    assert [line.split(" C")[0].strip() for line in lines] == ["not asked", "pass"]
