"""The toy move, found by its entry point, driven by an engine that knows nothing of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from toy_move.move import ToyMove, ToyRequest
from toy_world import BACK, MOVED, Killed, KillOnce, World, no, nobody, yes

from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine import installed_moves
from groupshift.engine.begin import require_held
from groupshift.engine.gates import answer
from groupshift.engine.move import Run
from groupshift.engine.progress import Ended
from groupshift.engine.questions_and_approvers import Answer
from groupshift.engine.roll_back import begin_roll_back, rollback_of
from groupshift.engine.run import advance, drive, upcoming
from groupshift.engine.status import report_of, status_of
from groupshift.errors import Fenced, Rejected
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind, Runs

BURN = "16 burn/burn"


def test_the_toy_is_found_by_its_entry_point_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution brings it; no line of the product names it."""
    assert "toy" not in installed_moves.moves()
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "installed"))
    assert isinstance(installed_moves.move_named("toy"), ToyMove)
    with pytest.raises(Rejected, match=r"'none' is not installed; there are: .*\btoy\b"):
        installed_moves.move_named("none")
    root = Path(__file__).parents[2]
    listed = subprocess.run(
        ["git", "grep", "-ilwE", "toy|toy_move", "--", "src", "plugins", "dags"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.stdout == ""


def test_the_next_step_is_known_before_it_is_done(quick: World) -> None:
    """A task of Airflow asks whether it is its turn; that changes nothing."""
    run = quick.claim(quick.begin().run)
    before = quick.kinds(run.name)
    step = upcoming(run)
    assert step is not None
    assert step.key == "01 ask/approve plan"
    assert quick.kinds(run.name) == before
    drive(run)
    assert upcoming(run) is None


def test_a_run_there_does_every_step_and_says_so(world: World) -> None:
    """Planned, approved, moved to the end, and shown as data."""
    run = world.begin().run
    acts = world.watch_acts(run)
    assert world.state(run) is RunState.PLANNED
    ended = world.drive(run)
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.FINALISED, Verdict.PASS)
    assert ended.closing.reason == "the toy is green"
    assert world.end() == MOVED
    assert [what.split()[0] for what, _ in acts] == ["colour", "size", "started", "burned", "finish"]
    status = status_of(world.runs, run)
    assert {each.now for each in status.steps} == {"done"}
    assert json.loads(json.dumps(asdict(status), default=str))["state"] == "finalised"
    titles = [each.title for each in report_of(Run.reader(world.move, world.tools(), world.target, run))]
    assert titles == ["What became of it", "Steps", "Decisions", "Colour"]
    again = world.drive(run)
    assert isinstance(again, Ended)
    assert again.closing == ended.closing


def test_killed_at_each_crash_point_it_comes_to_the_same_end(world: World) -> None:
    """Four points an act; each act is made once; nobody acts without a journaled intent."""
    run = world.begin().run
    acts = world.watch_acts(run)
    kills = KillOnce()
    ended = world.drive_killed(run, kills)
    assert isinstance(ended, Ended)
    assert ended.closing.state is RunState.FINALISED
    assert world.end() == MOVED
    assert len(acts) == len({what for what, _ in acts}) == 5
    for step in Run.reader(world.move, world.tools(), world.target, run).there.steps:
        assert {point for key, point in kills.killed if key == step.key} == set(CrashPoint), step.key


def test_a_rollback_that_is_killed_at_each_point_comes_to_the_same_end(world: World) -> None:
    """There and back, each process killed at the next point."""
    run = world.begin().run
    world.drive_killed(run, KillOnce(), decide=lambda q: None if "burn" in q.gate else yes(q))
    world.target.write("lamp", "on")
    assert begin_roll_back(world.claim(run), "start")
    ended = world.drive_killed(run, KillOnce())
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.PASS)
    assert world.end() == {**world.end(), **BACK}


class _Dies:
    """A journal whose writer dies before or after its n-th write."""

    def __init__(self, runs: Runs, at: int, *, after: bool) -> None:
        self._runs, self._left, self._after = runs, at, after

    def __getattr__(self, name: str) -> object:
        return getattr(self._runs, name)

    def append(self, entry: object) -> None:
        """Write, and die at one write."""
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        self._runs.append(entry)
        if self._left == 0:
            raise Killed


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_killed_at_each_write_of_the_journal_it_comes_to_the_same_end(
    tmp_path: Path, *, after: bool, back: bool
) -> None:
    """Finer than crash points: the first process dies at its n-th write, for each n."""
    writes, ends = 0, []
    for at in range(1, 200):
        folder = tmp_path / str(at)
        folder.mkdir()
        world = World(folder=folder)
        run = world.begin().run
        if back:
            world.drive(run, decide=lambda q: None if "burn" in q.gate else yes(q))
        whole, died = world.runs, False
        world.runs = _Dies(whole, at, after=after)  # type: ignore[assignment]
        try:
            claimed = world.claim(run)
            if back:
                begin_roll_back(claimed, "start")
            drive(claimed)
        except Killed:
            died = True
        world.runs = whole
        if back:
            begin_roll_back(world.claim(run), "start") if world.state(run).is_open else None
        ends.append(world.drive(run))
        wanted = {**world.end(), **BACK} if back else MOVED
        assert world.end() == wanted, at
        assert len(world.target.acts()) == len(set(world.target.acts())), at
        if not died:
            writes = at
            break
    assert writes > 30 - 15 * back
    assert all(isinstance(each, Ended) for each in ends)


STEPS = 18


@pytest.mark.parametrize("number", range(STEPS))
def test_it_is_rolled_back_from_each_step(quick: World, number: int) -> None:
    """Stopped in each step; what was begun is undone, last first; after the burning there is no rollback."""
    run = quick.begin().run
    quick.target.write("lamp", "on")
    keys = [each.key for each in Run.reader(quick.move, quick.tools(), quick.target, run).plan.steps]
    assert len(keys) == STEPS

    class Stop:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == keys[number] and point is CrashPoint.AFTER_ACT:
                raise Killed

    with pytest.raises(Killed):
        quick.drive(run, Stop())
    claimed = quick.claim(run)
    if number >= keys.index(BURN):
        with pytest.raises(Rejected, match="which cannot be undone"):
            begin_roll_back(claimed, "start")
        quick.drive(run)
        assert quick.state(run) is RunState.FINALISED
        return
    begun = begin_roll_back(claimed, "start")
    assert begun is (quick.state(run) is not RunState.PLANNED and number >= 3)
    if begun:
        ended = quick.drive(run)
        assert isinstance(ended, Ended)
        assert ended.closing.state is RunState.ROLLED_BACK
        assert quick.end() == {**quick.end(), **BACK, "finish": "open"}
        undone = [what for what, _ in quick.target.acts() if what.endswith((" red", " 0", " no"))]
        assert undone == [w for w in ("started no", "size 0", "colour red") if w in undone]


@pytest.mark.parametrize("number", range(STEPS))
def test_it_is_taken_over_at_each_step(quick: World, number: int) -> None:
    """The former holder is fenced wherever it was: it changes nothing more and asks nothing."""
    run = quick.begin().run
    quick.watch_acts(run)
    former = quick.claim(run, holder="former")
    keys = [each.key for each in former.plan.steps]

    class TakeOver:
        taken: Run[object] | None = None

        def reached(self, step: str, point: CrashPoint) -> None:
            if step == keys[number] and point is CrashPoint.AFTER_JOURNAL and self.taken is None:
                with pytest.raises(Fenced, match="--take-over"):
                    quick.claim(run, holder="other")
                self.taken = quick.claim(run, holder="other", take_over=True)  # type: ignore[assignment]

    crash = TakeOver()
    former.tools = quick.tools(crash)
    with pytest.raises(Fenced, match="void"):
        drive(former)
    before = quick.target.acts()
    with pytest.raises(Fenced, match="run other took this run over"):
        advance(former)
    with pytest.raises(Fenced):
        answer(former, keys[0], Answer(choice=Choice.APPROVE, who="x", fingerprint=""))
    with pytest.raises(Fenced):
        require_held(quick.runs, run, "former")
    assert quick.target.acts() == before
    assert crash.taken is not None
    ended = drive(crash.taken)
    assert isinstance(ended, Ended)
    assert quick.end() == MOVED
    assert len(quick.target.acts()) == 5


def test_what_repeats_is_done_by_each_process_until_the_point_of_no_return(world: World) -> None:
    """Three processes, three looks; after the burning none."""
    run = world.begin().run
    hold = lambda q: None if "burn" in q.gate else yes(q)  # noqa: E731
    for _ in range(3):
        world.drive(run, decide=hold)
    assert world.kinds(run, "13 go/ready").count(EventKind.INTENDED) == 3
    same = world.claim(run, anew=False)
    same.options = world.options(decide=hold)
    drive(same)
    assert world.kinds(run, "13 go/ready").count(EventKind.INTENDED) == 3

    class Stop:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == BURN and point is CrashPoint.AFTER_ACT:
                raise Killed

    with pytest.raises(Killed):
        world.drive(run, Stop())
    looks = world.kinds(run, "13 go/ready").count(EventKind.INTENDED)
    world.drive(run)
    assert world.kinds(run, "13 go/ready").count(EventKind.INTENDED) == looks == 4
    assert world.end() == MOVED


def test_an_irreversible_act_that_was_only_written_down_closes_nothing(world: World) -> None:
    """Killed before it was made: it is asked anew, and the rollback is open."""
    run = world.begin().run

    class Stop:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == BURN and point is CrashPoint.AFTER_JOURNAL:
                raise Killed

    with pytest.raises(Killed):
        world.drive(run, Stop())
    before = world.kinds(run, "13 go/ready").count(EventKind.INTENDED)
    world.drive(run, decide=nobody, phases=frozenset({"go"}))
    assert world.kinds(run, "13 go/ready").count(EventKind.INTENDED) == before + 1
    assert begin_roll_back(world.claim(run), "start")
    world.drive(run)
    assert world.end() == {**world.end(), **BACK}


def test_the_rollback_is_closed_by_what_is_observed(world: World) -> None:
    """Somebody else burned it: the move's own observation closes the rollback."""
    run = world.begin().run
    world.drive(run, decide=lambda q: None if "burn" in q.gate else yes(q))
    world.target.write("burned", "yes")
    with pytest.raises(Rejected, match="T09: burned is yes"):
        begin_roll_back(world.claim(run), "start")


def test_a_run_that_was_taken_back_may_be_taken_further_back(world: World) -> None:
    """What is undone is not undone again; the same rollback begins once."""
    run = world.begin().run
    world.drive(run, decide=lambda q: None if "burn" in q.gate else yes(q))
    world.target.write("lamp", "on")
    claimed = world.claim(run)
    plan = rollback_of(claimed, "prepared")
    assert plan is not None
    assert [each.name for each in plan.steps] == ["back/set lamp", "settle/unset"]
    assert begin_roll_back(claimed, "prepared")
    assert begin_roll_back(claimed, "prepared")
    drive(claimed)
    assert world.end()["colour"] == "green"
    world.target.write("lamp", "on")
    with pytest.raises(Rejected, match="does not go back to 'moon'"):
        begin_roll_back(world.claim(run), "moon")
    begin_roll_back(world.claim(run), "start")
    world.drive(run)
    assert world.end() == {**world.end(), **BACK}
    begun = [each.body for each in world.runs.events(run) if each.kind is EventKind.ROLLBACK_BEGUN]
    assert [(each["number"], each["to"]) for each in begun] == [(1, "prepared"), (2, "start")]
    assert [what for what, _ in world.target.acts()].count("started no") == 1
    assert [what for what, _ in world.target.acts()].count("lamp off") == 2


def test_a_later_run_of_the_target_forbids_the_rollback_of_an_earlier_one(world: World) -> None:
    """It is named."""
    first = world.begin().run
    world.drive(first, decide=lambda q: no(q) if "burn" in q.gate else yes(q))
    later = world.begin(request=ToyRequest(colour="blue")).run
    world.drive(later, decide=lambda q: no(q) if "burn" in q.gate else yes(q))
    with pytest.raises(Rejected, match=later):
        begin_roll_back(world.claim(first), "start")
