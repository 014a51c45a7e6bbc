"""The toy move, found by its entry point, driven by an engine that knows nothing of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from toy_move.move import ToyMove
from toy_world import BACK, BURN, MOVED, Killed, KillOnce, World, no, nobody, until, yes

from groupshift.domain.reactions import Choice
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine import registry
from groupshift.engine.approvers import Approvers
from groupshift.engine.begin import require_held
from groupshift.engine.gates import answer
from groupshift.engine.move import Answer, Run
from groupshift.engine.progress import Asks, Ended, Stopped, Waits
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import advance, drive
from groupshift.engine.status import report_of, status_of
from groupshift.errors import Conflict, Fenced, Rejected, Void
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind, Runs


def test_the_toy_is_found_by_its_entry_point_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution brings it; no line of the product names it."""
    assert "toy" not in registry.moves()
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "installed"))
    assert isinstance(registry.move_named("toy"), ToyMove)
    with pytest.raises(Rejected, match="'none' is not installed; there are: toy"):
        registry.move_named("none")
    root = Path(__file__).parents[2]
    listed = subprocess.run(
        ["git", "grep", "-ilwE", "toy|toy_move", "--", "src", "plugins", "dags"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.stdout == ""


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
    assert {each.state for each in status.steps} == {"done"}
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


def test_an_approval_becomes_void_when_the_target_changes_while_somebody_thinks(world: World) -> None:
    """The answer is void, what changed is named, and the gate is asked again in place."""
    run = world.begin().run
    asked = []

    def slowly(question):
        asked.append(question)
        if len(asked) == 1:
            world.target.write("owner", "eve")
        return yes(question)

    ended = world.drive(run, decide=slowly)
    assert isinstance(ended, Ended)
    assert asked[1].changes == ("owner name: ann is now eve",)
    assert asked[0].fingerprint != asked[1].fingerprint
    assert [each.gate for each in asked] == ["01 ask/approve plan"] * 2 + ["15 go/approve burn"]


def test_an_approval_becomes_void_between_the_answer_and_the_act(world: World) -> None:
    """Patience first, then the gate again; it stays void although the change is taken back."""
    run = world.begin().run
    claimed = world.claim(run)
    until(claimed, advance, [Asks])
    question = advance(claimed)
    assert isinstance(question, Asks)
    answer(claimed, question.question.gate, yes(question.question))
    while world.record_of(run, "prepare/snapshot before") is None:
        advance(claimed)
    advance(claimed)
    world.target.write("owner", "eve")
    waits = advance(claimed)
    assert isinstance(waits, Waits)
    assert "owner name: ann is now eve" in waits.checked.detail
    assert world.target.values()["colour"] == "red"
    again = until(claimed, advance, [Asks])
    assert isinstance(again, Asks)
    assert again.question.gate == "01 ask/approve plan"
    world.target.write("owner", "ann")
    assert isinstance(advance(claimed), Asks)
    with pytest.raises(Void, match="owner name: eve is now ann"):
        answer(claimed, again.question.gate, yes(again.question))
    assert isinstance(drive(claimed), Ended)
    assert world.kinds(run).count(EventKind.VOIDED) == 2


def test_evidence_that_was_altered_makes_an_approval_void(world: World) -> None:
    """An approval rests on the snapshots that were there."""
    run = world.begin().run
    world.drive(run, decide=lambda q: None if "burn" in q.gate else yes(q))
    claimed = world.claim(run)
    asks = until(claimed, advance, [Asks])
    assert isinstance(asks, Asks)
    folder = Path(world.record_of(run, "prepare/snapshot before").result["folder"])
    (folder / "values.json").write_text("{}")
    with pytest.raises(Void, match="evidence 03 prepare/snapshot before"):
        answer(claimed, asks.question.gate, yes(asks.question))


def test_a_void_approval_ends_the_run_where_the_move_says_so(world: World) -> None:
    """Nothing was changed; the target is free for another plan."""
    world.move.void_ends = True
    run = world.begin().run

    def change(question):
        world.target.write("owner", "eve")
        return yes(question)

    ended = world.drive(run, decide=change)
    assert isinstance(ended, Ended)
    assert ended.closing.state is RunState.REJECTED
    assert "owner name: ann is now eve" in ended.closing.reason
    assert world.begin().run != run


def test_a_no_to_the_plan_changes_nothing_and_frees_the_target(world: World) -> None:
    """A no is always taken."""
    run = world.begin().run
    stopped = world.drive(run, decide=no)
    assert isinstance(stopped, Stopped)
    assert stopped.closing is not None
    assert (stopped.closing.state, stopped.closing.verdict) == (RunState.REJECTED, Verdict.FAIL)
    assert world.end()["colour"] == "red"
    assert world.begin().run != run


@pytest.mark.parametrize("frees", [True, False])
def test_a_no_to_a_later_gate_stops_there(quick: World, *, frees: bool) -> None:
    """With the rollback open; whether the target is free is the move's."""
    quick.move.stop_frees = frees
    run = quick.begin().run
    stopped = quick.drive(run, decide=lambda q: no(q) if "burn" in q.gate else yes(q))
    assert isinstance(stopped, Stopped)
    assert quick.state(run) is (RunState.MOVED if frees else RunState.RUNNING)
    assert quick.end()["burned"] == "no"
    if frees:
        assert stopped.closing is not None
        assert stopped.closing.verdict is Verdict.INCONCLUSIVE
    else:
        ended = quick.drive(run)
        assert isinstance(ended, Ended), "the next process asks again"
    assert begin_roll_back(quick.claim(run), "start") if frees else True


def test_nobody_there_leaves_the_run_open_and_an_answer_may_come_later(world: World) -> None:
    """A process that stopped by itself holds the run no longer; an old no is not remembered."""
    run = world.begin().run
    stopped = world.drive(run, decide=nobody)
    assert isinstance(stopped, Stopped)
    assert stopped.waits
    status = status_of(world.runs, run)
    assert (status.stopped, status.question) == (True, "01 ask/approve plan")
    assert status.waits_for == "gate 01 ask/approve plan waits for an answer"
    gate = world.claim(run, holder="airflow", anew=False)
    shown = [e for e in gate.events("01 ask/approve plan") if e.kind is EventKind.GATE_SHOWN][-1]
    given = Answer(choice=Choice.APPROVE, who="bob", fingerprint=shown.body["fingerprint"])
    answer(gate, "01 ask/approve plan", given)
    answer(gate, "01 ask/approve plan", given)
    ended = world.drive(run, holder="airflow", decide=lambda q: None if "plan" in q.gate else yes(q))
    assert isinstance(ended, Ended)
    assert world.kinds(run, "01 ask/approve plan").count(EventKind.GATE_SHOWN) == 1
    assert world.kinds(run, "01 ask/approve plan").count(EventKind.GATE_ANSWERED) == 1


def test_answers_that_cannot_be_used_are_refused(world: World) -> None:
    """Wrong gate, wrong choice, nobody, never shown, too old, not by who asked."""
    world.approvers = Approvers(names=("bob", "ann"), four_eyes=True)
    run = world.begin().run
    claimed = world.claim(run)
    asks = until(claimed, advance, [Asks])
    assert isinstance(asks, Asks)
    gate, shown = asks.question.gate, asks.question.fingerprint

    def give(choice: Choice = Choice.APPROVE, who: str = "bob", fingerprint: str = shown) -> None:
        answer(claimed, gate, Answer(choice=choice, who=who, fingerprint=fingerprint))

    with pytest.raises(Rejected, match="does not fit gate"):
        give(Choice.GO_ON)
    with pytest.raises(Rejected, match="names nobody"):
        give(who="")
    with pytest.raises(Rejected, match=r"approval\.four_eyes"):
        give(who="ann")
    with pytest.raises(Rejected, match="let one of them answer"):
        give(who="carol")
    with pytest.raises(Conflict, match="never showed that"):
        give(fingerprint="0" * 64)
    with pytest.raises(Conflict, match="has no gate"):
        answer(claimed, "99 x", Answer(choice=Choice.APPROVE, who="bob", fingerprint=shown))
    world.clock.sleep(world.move.gate_expiry_s + 10)
    with pytest.raises(Conflict, match="longer than"):
        give()
    give(Choice.REJECT, who="carol")
    stopped = drive(claimed)
    assert isinstance(stopped, Stopped)
