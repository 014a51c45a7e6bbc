"""How runs of small moves turn round and end, and what somebody accepted of them."""

from __future__ import annotations

import pytest
from small_world import DO, UNDO, Act, Nothing, Small, SmallRun, chooses, said

from groupshift.domain.reactions_to_verdicts import Choice, OnFail
from groupshift.domain.run import (
    PASSED,
    Checked,
    OnDifference,
    Outcome,
    RunState,
    Step,
    make_rollback,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.begin import begin, claim
from groupshift.engine.gates import answer_of, differences
from groupshift.engine.move import RunOptions
from groupshift.engine.progress import Ended, Stopped
from groupshift.engine.roll_back import begin_roll_back
from groupshift.errors import Conflict
from groupshift.ports.runs import EventKind


def test_evidence_may_grow_and_never_change() -> None:
    """And an aspect that the run itself changes is not compared."""
    then = {"evidence": {"a": "1"}, "members": {"m": "x"}, "mode": {"n": "z"}}
    assert differences(then, {"evidence": {"a": "1", "b": "2"}, "members": {"m": "x"}}) == ()
    assert differences(then, {"evidence": {"a": "3"}}) == ("evidence a: 1 is now 3",)
    assert differences(then, {"evidence": {}}) == ("evidence a: 1 is now absent",)
    assert differences(then, {"members": {"m": "x", "n": "y"}}) == ("members n: absent is now y",)


def test_a_rollback_may_have_a_gate_of_its_own() -> None:
    """It is an ordinary step of its plan; a no leaves the run open."""

    class Asks(Small):
        def roll_back_plan(self, run, begun, facts, to):
            gate = Step(phase="back", kind="approve", subject="back")
            undo = Step(phase="p", kind="undo", undoes="01 p/do")
            return make_rollback([gate, undo], len(run.rollbacks()) + 1)

    small = SmallRun(Asks(DO))
    small.drive()
    begin_roll_back(small.claim(), "start")
    assert isinstance(small.drive(decide=chooses(Choice.REJECT)), Stopped)
    assert (small.state, small.done) == (RunState.ROLLING_BACK, ["do"])
    assert answer_of(small.claim(), "back 1/01 back/approve back") is None
    assert isinstance(small.drive(decide=chooses(Choice.APPROVE)), Ended)
    assert small.done == ["do", "undo"]


def test_a_fence_of_the_move_is_raised_when_claimed_and_when_a_rollback_begins() -> None:
    """Never for a run that nobody approved."""
    raised = []

    class Fences(Small):
        def fence(self, run, when):
            raised.append((run.token, when))

    gate = Step(phase="ask", kind="approve", subject="plan")
    small = SmallRun(Fences(gate, DO))
    small.drive()
    assert raised == []
    small.drive(decide=chooses(Choice.APPROVE))
    begin_roll_back(small.claim(), "start")
    small.drive()
    assert [when for _, when in raised] == ["claimed", "rolling_back", "claimed"]
    assert raised == sorted(raised)


def test_no_fence_of_a_rollback_is_raised_while_another_open_run_is_in_the_way() -> None:
    """Its members and nodes would be fenced off."""
    raised = []

    class Fences(Small):
        def fence(self, run, when):
            raised.append(when)

    small = SmallRun(Fences(DO))
    small.drive()
    claimed = small.claim()
    raised.clear()
    options = RunOptions(who="bob", holder="other")
    small.clock.sleep(1)
    other = begin(small.move, small.tools(), small.done, Nothing(), options, execute=True).run
    with pytest.raises(Conflict, match=f"run {other} .* is in the way of one of group t"):
        begin_roll_back(claimed, "start")
    again = small.claim()
    with pytest.raises(Conflict, match=f"run {other} .* is in the way of one of group t"):
        begin_roll_back(again, "start")
    assert (raised, small.state) == ([], RunState.MOVED), "nor by the claim"


def test_a_run_that_was_turned_since_it_was_read_is_not_driven_on() -> None:
    """The state is read again right after the claim."""
    small = SmallRun(Small(DO, do=Act(said(Outcome.WAIT))))
    small.drive()
    read = small.runs.find(small.run)
    begin_roll_back(small.claim(), "start")
    other = RunOptions(who="ann", holder="other")
    with pytest.raises(Conflict, match="was running and is rolling_back"):
        claim(small.move, small.tools(), small.done, read, other, take_over=True)


def test_what_is_accepted_of_a_step_that_repeats_counts_until_something_else_is_shown() -> None:
    """Two such steps, and one word a process: without that no process would come past both."""
    steps = [
        Step(phase="p", kind=kind, undo=UNDO, repeat=True, on_difference=OnDifference.ASKED)
        for kind in ("do", "look")
    ]
    first = Act(said(Outcome.FAIL, "a"))
    small = SmallRun(Small(*steps, do=first, look=Act(said(Outcome.FAIL, "b"))))
    assert small.drive().step.kind == "do"
    assert small.drive(accept="01 p/do", who="bob").step.kind == "look"
    first.looks = [said(Outcome.FAIL, "c")]
    other = small.drive(accept="02 p/look")
    assert (other.step.kind, "c" in other.checked.detail) == ("do", True), "nobody accepted that"
    assert small.drive(accept="01 p/do", who="bob").step.kind == "look"
    ended = small.drive(accept="02 p/look")
    assert isinstance(ended, Ended)
    assert small.runs.steps(small.run)["01 p/do"].result["accepted_by"] == "bob"
    words = [each for each in small.runs.events(small.run) if each.kind is EventKind.ACCEPTED]
    assert [(each.step, each.body["who"]) for each in words] == [
        ("01 p/do", "bob"),
        ("01 p/do", "bob"),
        ("02 p/look", "ann"),
    ], "each word once"


class Asking(Act):
    """Acts by what somebody accepts, as `CheckCounts` of an expansion; ``accepted`` stays in its result."""

    def act(self, run, step, intent):
        """See `Handler`."""
        known = run.records[step.key].result.get("accepted", False)
        return {"accepted": known or run.accepted(step, ["more of it"], verdict=Verdict.FAIL)}

    def check(self, run, step, record):
        """See `Handler`."""
        if not record.result["accepted"]:
            return Checked(outcome=Outcome.PERSON, detail="more of it")
        return super().check(run, step, record)


def test_what_was_accepted_for_an_act_is_journaled_with_it() -> None:
    """The look behind it stops the process, and the next one passes: the end is red all the same."""
    small = SmallRun(Small(DO, do=Asking(said(Outcome.FAIL), PASSED)))
    small.move.on_fail = OnFail.STOP
    assert small.drive().checked.outcome is Outcome.PERSON
    assert small.drive(accept="01 p/do").checked.outcome is Outcome.FAIL
    ended = small.drive()
    assert isinstance(ended, Ended)
    assert ended.closing.verdict is Verdict.FAIL


def test_what_could_not_be_measured_and_was_accepted_is_red() -> None:
    """The worst of the findings is an error, the outcome a failure."""
    step = Step(phase="p", kind="do", undo=UNDO, on_difference=OnDifference.ASKED)
    findings = (Finding(rule="S1", verdict=Verdict.ERROR, reason="not read"),)
    small = SmallRun(Small(step, do=Act(Checked(outcome=Outcome.FAIL, findings=findings))))
    assert isinstance(small.drive(), Stopped)
    ended = small.drive(accept="01 p/do")
    assert ended.closing.verdict is Verdict.FAIL
    assert "only accepted" in ended.closing.reason
