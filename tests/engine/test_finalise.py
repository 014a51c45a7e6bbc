"""Optional steps at the end of a run: left out at first, and made later."""

from __future__ import annotations

from typing import Any

import pytest
from toy_move.move import ToyMove
from toy_world import World, no, yes

from groupshift.domain.run import IRREVERSIBLE, RunState, Step, make_plan
from groupshift.engine.progress import Ended, Stopped
from groupshift.engine.roll_back import begin_finalise, begin_roll_back, left_out
from groupshift.engine.run import drive
from groupshift.errors import Conflict, Rejected

UNSET = Step(phase="prepare", kind="unset", args={"name": "colour"})


class Burning(ToyMove):
    """Sets the colour; at the end somebody is asked whether the toy is burned."""

    def plan(self, request, facts):
        """See `Move`."""
        colour = {"name": "colour", "value": request.colour}
        burn = {"name": "burned", "value": "yes"}
        last = Step(
            phase="end", kind="burn", args=burn, undo=IRREVERSIBLE, optional=True, gate="end/approve end"
        )
        return make_plan(
            (
                Step(phase="ask", kind="approve", subject="plan"),
                Step(phase="prepare", kind="set", subject="colour", args=colour, undo=UNSET),
                Step(phase="end", kind="approve", subject="end", optional=True),
                last,
            )
        )


def keeps(question: Any) -> Any:
    """Approve the plan and nothing optional."""
    return no(question) if question.optional else yes(question)


def test_what_was_left_out_at_the_end_is_finalised_later(world: World) -> None:
    """Its gate is asked again: the answer of then does not count any more."""
    world.move = Burning()
    run = world.begin().run
    ended = world.drive(run, decide=keeps)
    assert isinstance(ended, Ended)
    assert (ended.closing.state, world.target.values()["burned"]) == (RunState.MOVED, "no")
    claimed = world.claim(run)
    assert [each.name for each in left_out(claimed)] == ["end/approve end", "end/burn"]
    assert begin_finalise(claimed)
    assert world.state(run) is RunState.RUNNING
    assert not begin_finalise(claimed), "it is under way"
    again = world.drive(run, decide=lambda _question: None)
    assert isinstance(again, Stopped)
    assert again.step.name == "end/approve end"
    kept = world.drive(run, decide=keeps)
    assert isinstance(kept, Ended)
    assert kept.closing.state is RunState.MOVED, "declined once more, it is as it was"
    claimed = world.claim(run)
    begin_finalise(claimed)
    ended = drive(claimed)
    assert isinstance(ended, Ended)
    assert (ended.closing.state, world.target.values()["burned"]) == (RunState.FINALISED, "yes")
    with pytest.raises(Rejected, match="is finalised already"):
        begin_finalise(world.claim(run))


def test_a_finalise_that_waits_at_its_gate_closes_no_rollback(world: World) -> None:
    """Nothing was made that cannot be undone: it was only opened again."""
    world.move = Burning()
    run = world.begin().run
    world.drive(run, decide=keeps)
    assert begin_finalise(world.claim(run))
    assert isinstance(world.drive(run, decide=lambda _question: None), Stopped)
    assert begin_roll_back(world.claim(run), "start")
    ended = world.drive(run)
    assert isinstance(ended, Ended)
    assert (ended.closing.state, world.target.values()["colour"]) == (RunState.ROLLED_BACK, "red")


def test_only_the_last_run_that_moved_is_finalised(world: World) -> None:
    """Not one that has nothing optional, was taken back, or was followed by another one."""
    run = world.begin().run
    world.drive(run)
    with pytest.raises(Rejected, match="is finalised already"):
        begin_finalise(world.claim(run))
    world.target.write("burned", "no")
    world.target.write("colour", "red")
    world.move = Burning()
    first = world.begin().run
    world.drive(first, decide=keeps)
    world.target.write("colour", "red")
    second = world.begin().run
    with pytest.raises(Conflict, match=f"run {second} of"):
        begin_finalise(world.claim(first))
    world.drive(second, decide=keeps)
    with pytest.raises(Rejected, match=f"was followed by {second}"):
        begin_finalise(world.claim(first))
    back = world.claim(second)
    assert begin_roll_back(back, "start")
    with pytest.raises(Rejected, match="rolling_back and cannot be finalised"):
        begin_finalise(back)


def test_a_run_without_optional_steps_has_nothing_to_finalise(world: World) -> None:
    """It says so, whatever it is at."""
    run = world.begin().run
    with pytest.raises(Rejected, match="has nothing to finalise"):
        begin_finalise(world.claim(run))
