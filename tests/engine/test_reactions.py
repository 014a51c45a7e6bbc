"""The two reaction tables, cell by cell."""

from __future__ import annotations

from itertools import product

import pytest

from groupshift.domain.reactions_to_verdicts import (
    BACK,
    FORWARD,
    Choice,
    OnFail,
    Reaction,
    Situation,
    back,
    forward,
)
from groupshift.domain.run import Outcome, RunState, WhenLate

R, S = RunState.RUNNING, RunState.APPROVED
GO_ON, ROLL_BACK, STOP = Choice.GO_ON, Choice.ROLL_BACK, Choice.STOP
FORWARD_CELLS = [
    (Outcome.PASS, {}, R, (Reaction.NEXT, (), None)),
    (Outcome.WAIT, {}, R, (Reaction.POLL, (), None)),
    (Outcome.WAIT, {"late": WhenLate.JUDGE}, R, (Reaction.NEXT, (), None)),
    (Outcome.WAIT, {"late": WhenLate.PARK}, R, (Reaction.PARK, (), None)),
    (Outcome.WAIT, {"late": WhenLate.END}, S, (Reaction.STOP, (), RunState.REJECTED)),
    (Outcome.WAIT, {"late": WhenLate.END}, R, (Reaction.PARK, (), None)),
    (Outcome.PERSON, {}, R, (Reaction.PARK, (), None)),
    (Outcome.DECLINED, {}, S, (Reaction.STOP, (), RunState.REJECTED)),
    (Outcome.DECLINED, {}, R, (Reaction.STOP, (), None)),
    (Outcome.DECLINED, {"stop_frees": True}, R, (Reaction.STOP, (), RunState.MOVED)),
    (Outcome.INCONCLUSIVE, {}, R, (Reaction.ASK, (GO_ON, ROLL_BACK, STOP), None)),
    (Outcome.INCONCLUSIVE, {}, S, (Reaction.ASK, (GO_ON, STOP), None)),
    (Outcome.ERROR, {}, R, (Reaction.RETRY, (), None)),
    (Outcome.ERROR, {"retried": True}, R, (Reaction.ASK, (ROLL_BACK, STOP), None)),
    (Outcome.ERROR, {"retried": True}, S, (Reaction.ASK, (STOP,), None)),
    (Outcome.FAIL, {}, R, (Reaction.ROLL_BACK, (), None)),
    (Outcome.FAIL, {}, S, (Reaction.STOP, (), RunState.REJECTED)),
    (Outcome.FAIL, {"on_fail": OnFail.STOP}, R, (Reaction.STOP, (), None)),
    (Outcome.FAIL, {"on_fail": OnFail.STOP}, S, (Reaction.STOP, (), None)),
]
BACK_CELLS = [
    (Outcome.PASS, {}, (Reaction.NEXT, ())),
    (Outcome.WAIT, {}, (Reaction.POLL, ())),
    (Outcome.WAIT, {"late": WhenLate.JUDGE}, (Reaction.NEXT, ())),
    (Outcome.WAIT, {"late": WhenLate.END}, (Reaction.PARK, ())),
    (Outcome.PERSON, {}, (Reaction.PARK, ())),
    (Outcome.DECLINED, {"stop_frees": True}, (Reaction.STOP, ())),
    (Outcome.INCONCLUSIVE, {}, (Reaction.ASK, (GO_ON, STOP))),
    (Outcome.ERROR, {}, (Reaction.RETRY, ())),
    (Outcome.ERROR, {"retried": True}, (Reaction.STOP, ())),
    (Outcome.FAIL, {}, (Reaction.STOP, (STOP,))),
    (Outcome.FAIL, {"on_fail": OnFail.STOP}, (Reaction.STOP, (STOP,))),
]


@pytest.mark.parametrize(("outcome", "more", "state", "wanted"), FORWARD_CELLS)
def test_what_a_run_does_on_its_way_there(outcome, more, state, wanted) -> None:
    """Reaction, answers, and the state in which it ends."""
    found = forward(Situation(outcome=outcome, state=state, **more))
    assert (found.reaction, found.answers, found.ends) == wanted


@pytest.mark.parametrize(("outcome", "more", "wanted"), BACK_CELLS)
def test_what_a_run_does_that_rolls_back(outcome, more, wanted) -> None:
    """It never ends the run."""
    found = back(Situation(outcome=outcome, state=RunState.ROLLING_BACK, **more))
    assert (found.reaction, found.answers, found.ends) == (*wanted, None)


def test_every_outcome_has_its_row_and_no_answer_waves_an_error_through() -> None:
    """Whatever else is so; nothing rolls back a rollback, or what changed nothing."""
    assert set(FORWARD) == set(BACK) == set(Outcome)
    flags = product(Outcome, RunState, [False, True], [None, *WhenLate], OnFail, [False, True])
    for outcome, state, retried, late, on_fail, frees in flags:
        met = Situation(
            outcome=outcome, state=state, retried=retried, late=late, on_fail=on_fail, stop_frees=frees
        )
        there, home = forward(met), back(met)
        assert home.reaction is not Reaction.ROLL_BACK
        assert ROLL_BACK not in home.answers
        assert home.ends is None
        if met.unchanged:
            assert there.reaction is not Reaction.ROLL_BACK
            assert ROLL_BACK not in there.answers
        if outcome in {Outcome.ERROR, Outcome.FAIL}:
            assert GO_ON not in (*there.answers, *home.answers)
            assert Reaction.NEXT not in {there.reaction, home.reaction}
