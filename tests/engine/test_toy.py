"""The toy move, found by its entry point, driven by an engine that knows nothing of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from toy_move.move import ToyMove, ToyRequest
from toy_world import Killed, KillOnce, World, no, nobody, until, yes

from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.domain.reactions import Choice, Reaction
from groupshift.domain.run import Outcome, RunState, StepState
from groupshift.domain.verdict import Verdict
from groupshift.engine import registry
from groupshift.engine.approvers import Approvers
from groupshift.engine.begin import begin, request_differences, require_held
from groupshift.engine.closing import reject
from groupshift.engine.gates import answer
from groupshift.engine.move import Answer, Run
from groupshift.engine.progress import Asks, Ended, Moved, Paused, Stopped, Waits
from groupshift.engine.roll_back import begin_roll_back, rollback_of
from groupshift.engine.run import advance, drive
from groupshift.engine.status import report_of, status_of, statuses
from groupshift.engine.watch import watch
from groupshift.errors import Broken, Conflict, Fenced, Rejected, Transient, Void
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind, Runs
from groupshift_testing.runs import MemoryRuns

BURN = "16 burn/burn"
MOVED = {
    "colour": "green",
    "size": "2",
    "plugged": "yes",
    "started": "yes",
    "burned": "yes",
    "finish": "done",
    "lamp": "off",
    "scratch": "no",
    "owner": "ann",
    "items": "2",
}


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A world with each kind of journal."""
    runs: Runs = MemoryRuns() if request.param == "memory" else SqlRuns(f"sqlite:///{tmp_path / 'runs.db'}")
    yield World(folder=tmp_path, runs=runs)
    runs.close()


@pytest.fixture
def quick(tmp_path: Path) -> World:
    """A world with a journal in memory."""
    return World(folder=tmp_path)


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


BACK = {"colour": "red", "size": "0", "plugged": "no", "started": "no", "burned": "no", "lamp": "off"}


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


def test_a_person_is_waited_for_by_name_and_told_again(world: World) -> None:
    """The process ends; the same text comes again; once it was done the run goes on."""
    world.plugs = False
    run = world.begin().run
    for _ in range(2):
        stopped = world.drive(run)
        assert isinstance(stopped, Stopped)
        assert stopped.waits
        assert stopped.step.name == "people/ask_person"
    assert world.told.count("write yes into plugged") == 2
    world.target.write("plugged", "yes")
    assert isinstance(world.drive(run), Ended)
    assert world.end() == MOVED


def test_a_terminal_waits_for_a_person_as_for_anything_else(world: World) -> None:
    """As long as patience lasts."""
    world.plugs = False
    run = world.begin().run
    world.clock.on_sleep.append(lambda _s: world.target.write("plugged", "yes"))
    assert isinstance(world.drive(run, waits_for_people=True), Ended)


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
    """Somebody else burned it: the move's own observation closes the way back."""
    run = world.begin().run
    world.drive(run, decide=lambda q: None if "burn" in q.gate else yes(q))
    world.target.write("burned", "yes")
    with pytest.raises(Rejected, match="T09: burned is yes"):
        begin_roll_back(world.claim(run), "start")


def test_somebody_who_changes_the_target_sends_the_run_back(world: World) -> None:
    """To the count; what rests on it is done again, with the first former value kept."""
    run = world.begin().run
    added = []

    class Adds:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == "06 prepare/set size" and point is CrashPoint.AFTER_ACT and not added:
                added.append(world.target.add_item())

    assert isinstance(world.drive(run, Adds()), Ended)
    assert world.end() == {**MOVED, "size": "3", "items": "3"}
    assert world.kinds(run, "07 prepare/agree").count(EventKind.REDO) == 1
    redo = next(each for each in world.runs.events(run) if each.kind is EventKind.REDO)
    assert redo.body["to"] == "05 prepare/count"
    assert world.record_of(run, "prepare/set size").intent["former"] == "0"


def test_a_difference_is_accepted_exactly_as_it_was_shown(world: World) -> None:
    """By the key of its step, after an earlier claim showed it, by an approver; the run never ends green."""
    run = world.begin().run
    world.target.write("scratch", "yes")
    early = world.drive(run, accept="14 go/clean")
    assert isinstance(early, Stopped)
    assert early.waits, "nobody has shown it yet"
    assert "--accept '14 go/clean'" in early.checked.detail
    other = world.drive(run, accept="13 go/ready")
    assert isinstance(other, Stopped)
    world.approvers = Approvers(names=("bob",))
    with pytest.raises(Rejected, match="may not approve"):
        world.drive(run, accept="14 go/clean")
    ended = world.drive(run, accept="14 go/clean", who="bob")
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.FINALISED, Verdict.FAIL)
    assert "only accepted" in ended.closing.reason
    assert world.record_of(run, "go/clean").result["accepted_by"] == "bob"


def test_a_job_that_left_nothing_is_submitted_once_more_and_then_asked_about(world: World) -> None:
    """An error is measured again; then somebody decides: go on is not among the answers."""
    run = world.begin().run
    submitted = []
    asked = []

    def decide(question):
        asked.append(question)
        return yes(question) if "approve" in question.gate else None

    stopped = world.drive(run, submit=submitted.append, decide=decide)
    assert isinstance(stopped, Stopped)
    assert len(submitted) == 2
    assert submitted[0].output != submitted[1].output, "each attempt has a folder of its own"
    assert asked[-1].answers == (Choice.ROLL_BACK, Choice.STOP)
    assert isinstance(world.drive(run), Ended)


def test_a_job_whose_submitter_died_counts_when_it_names_exactly_these_inputs(world: World) -> None:
    """The next process submits no other one."""
    run = world.begin().run

    def dies(job):
        world.options().submit(job)
        raise Killed

    with pytest.raises(Killed):
        world.drive(run, submit=dies)
    jobs = []
    world.drive(run, submit=jobs.append)
    assert jobs == []
    assert world.end() == MOVED


def test_a_caller_that_submits_jobs_itself_gets_the_job_as_data(world: World) -> None:
    """As an Airflow task does: the job is handed out, and the next task looks."""
    run = world.begin().run
    handed = world.drive(run, submit=None)
    assert isinstance(handed, Moved)
    assert handed.work is not None
    world.options().submit(handed.work)
    assert isinstance(world.drive(run), Ended)


def test_a_failure_rolls_back_and_the_run_ends_red(world: World) -> None:
    """Without asking, with the reason."""
    run = world.begin().run

    class Spoils:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == "12 settle/start" and point is CrashPoint.AFTER_ACT:
                world.target.write("colour", "blue")

    ended = world.drive(run, Spoils())
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL)
    assert "T02: what was prepared is gone" in ended.closing.reason
    assert world.end() == {**world.end(), **BACK}


def test_where_a_failure_stops_the_run_stays_open(world: World) -> None:
    """A move of a cluster: nothing is undone unasked."""
    world.move.on_fail = type(world.move.on_fail).STOP
    run = world.begin().run

    class Spoils:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == "12 settle/start" and point is CrashPoint.AFTER_ACT:
                world.target.write("colour", "blue")

    stopped = world.drive(run, Spoils())
    assert isinstance(stopped, Stopped)
    assert not stopped.waits
    assert world.state(run) is RunState.RUNNING
    world.target.write("colour", "green")
    assert isinstance(world.drive(run), Ended), "what failed is asked again"


def test_a_failure_before_anything_was_changed_ends_the_run(world: World) -> None:
    """There is nothing to take back."""
    run = world.begin().run
    world.move.handlers = {**world.move.handlers, "rehearse": world.move.handlers["clean"]}
    world.target.write("scratch", "yes")
    stopped = world.drive(run)
    assert isinstance(stopped, Stopped)
    assert world.state(run) is RunState.REJECTED


def test_a_failure_in_a_rollback_stops_and_stays_open(world: World) -> None:
    """What was met is named; it may be gone on with."""
    run = world.begin().run
    world.drive(run, decide=lambda q: None if "burn" in q.gate else yes(q))
    begin_roll_back(world.claim(run), "start")

    class Spoils:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == "back 04 prepare/set colour" and point is CrashPoint.AFTER_ACT:
                world.target.write("colour", "blue")

    stopped = world.drive(run, Spoils())
    assert isinstance(stopped, Stopped)
    assert (stopped.answers, stopped.waits) == ((Choice.STOP,), False)
    assert "colour is blue" in stopped.checked.sentences[0]
    assert world.state(run) is RunState.ROLLING_BACK
    assert isinstance(world.drive(run), Ended)
    assert world.end() == {**world.end(), **BACK}


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


def test_a_patience_that_is_over_parks_judges_or_ends_as_the_step_says(quick: World) -> None:
    """Parked: the next process acts anew."""
    run = quick.begin().run
    quick.target.on_act = lambda _what, _token: None
    quick.move.handlers = {**quick.move.handlers, "ready": _NeverThere()}
    stopped = quick.drive(run, patience_s=7)
    assert isinstance(stopped, Stopped)
    assert (stopped.waits, stopped.step.name) == (True, "go/ready")
    assert quick.record_of(run, "go/ready").state is StepState.INTENDED
    assert Reaction.PARK == "park"


class _NeverThere(ToyMove.handlers["ready"].__class__):  # type: ignore[name-defined,misc]
    """Never settles: what it looks at does not answer."""

    def check(self, run, step, record):
        """Raise `Transient`."""
        raise Transient("nobody answers")


class _Refuses(ToyMove.handlers["ready"].__class__):  # type: ignore[name-defined,misc]
    """May not act."""

    def allowed(self, run, step):
        """Fail."""
        return ToyMove.handlers["clean"].check(run, step, None)


def test_a_step_that_is_not_allowed_is_waited_for_and_then_refused(world: World) -> None:
    """Nothing was changed by it; what is wrong is in the sentence."""
    run = world.begin().run
    world.move.handlers = {**world.move.handlers, "ready": _Refuses()}
    world.target.write("scratch", "yes")
    before = world.clock.now_ms()
    with pytest.raises(Rejected, match="was not started, nothing was changed by it: T03: there is a scratch"):
        world.drive(run)
    assert world.clock.now_ms() - before >= 30_000
    world.target.write("scratch", "no")
    assert isinstance(world.drive(run), Ended)


def test_a_member_that_restarts_is_no_failure(world: World) -> None:
    """What heals while patience lasts heals."""
    run = world.begin().run
    world.move.handlers = {**world.move.handlers, "ready": _Refuses()}
    world.target.write("scratch", "yes")
    world.clock.on_sleep.append(lambda _s: world.target.write("scratch", "no"))
    assert isinstance(world.drive(run), Ended)


def test_a_process_does_some_phases_and_pauses_before_the_first_other(world: World) -> None:
    """As an Airflow task does its part."""
    run = world.begin().run
    paused = world.drive(run, phases=frozenset({"ask", "prepare"}))
    assert isinstance(paused, Paused)
    assert paused.step.phase == "people"
    assert isinstance(world.drive(run), Ended)


def test_runs_of_a_cluster_and_of_its_groups_exclude_each_other(world: World) -> None:
    """Whichever is open is named; another cluster's is no matter; a preview is in nobody's way."""
    run = world.begin().run

    class OfCluster(ToyMove):
        name = "toys"
        scope = "cluster"

        def target(self, ports, request):
            return type(super().target(ports, request))(kind="cluster", name=request.cluster)

    def begins(cluster: str, *, execute: bool = True) -> str:
        request, options = ToyRequest(cluster=cluster), world.options()
        move = OfCluster()
        return begin(move, world.tools(), world.target, request, options, execute=execute).run

    with pytest.raises(Conflict, match=f"run {run} of group toy is planned"):
        begins("c")
    begins("c", execute=False)
    with pytest.raises(Conflict, match=run):
        world.begin()
    other = begins("d")
    with pytest.raises(Conflict, match=f"run {other} of cluster d"):
        world.begin(request=ToyRequest(cluster="d"))
    reject(world.claim(run), "not wanted")
    assert begins("c")


def test_a_run_is_begun_once_for_an_origin_and_never_for_what_is_not_ready(world: World) -> None:
    """A task that is repeated makes no second run."""
    first = world.begin(origin="dag/1")
    assert world.begin(origin="dag/1") == first
    assert request_differences(first, ToyRequest(colour="blue")) == (
        "colour: the run has 'green', asked for is 'blue'",
    )
    reject(world.claim(first.run), "")
    world.target.write("burned", "yes")
    with pytest.raises(Rejected, match="T00: burned is yes"):
        world.begin()
    world.move.heals = frozenset({"T00"})
    world.clock.on_sleep.append(lambda _s: world.target.write("burned", "no"))
    healed = world.begin(options={"patience_s": 30})
    reject(world.claim(healed.run), "")
    world.target.write("colour", "green")
    with pytest.raises(Rejected, match="nothing to do"):
        world.begin()


def test_a_run_is_driven_on_its_own_target_and_in_its_own_direction(world: World) -> None:
    """Another target is refused; one that cannot tell may only go back; a turned run goes not forward."""
    run = world.begin().run
    world.drive(run, decide=lambda q: None if "burn" in q.gate else yes(q))
    world.target.asleep = True
    with pytest.raises(Transient):
        world.claim(run)
    world.target.asleep = False
    begin_roll_back(world.claim(run), "start")
    with pytest.raises(Conflict, match="is being rolled back"):
        world.drive(run, direction="forward")
    world.target.asleep = True
    claimed = world.claim(run)
    world.target.asleep = False
    assert isinstance(drive(claimed), Ended)

    class Elsewhere(ToyMove):
        def target(self, ports, request):
            return type(super().target(ports, request))(kind="group", name="toy", within="other")

    again = world.begin().run
    world.move = Elsewhere()
    with pytest.raises(Rejected, match="what answers is group toy in 'other'"):
        world.claim(again)


def test_evidence_is_sealed_before_the_run_is_closed(world: World) -> None:
    """Seal, digest, state: a process that dies at the seal is followed by one that seals."""
    run = world.begin().run

    def dies(name: str, state: RunState) -> dict[str, str]:
        raise Killed

    with pytest.raises(Killed):
        world.drive(run, seal=dies)
    assert world.state(run) is RunState.RUNNING
    assert world.kinds(run)[-1] is EventKind.SEALING, "what is to be sealed is journaled before"
    sealed: list[RunState] = []
    world.drive(run, seal=lambda _n, state: sealed.append(state) or {"sha256": "ab"})
    assert sealed == [RunState.FINALISED]
    assert world.kinds(run)[-2:] == [EventKind.SEALED, EventKind.CLOSED]


def test_proofs_that_were_changed_after_they_were_journaled_are_broken(world: World) -> None:
    """The judge holds each file against what was journaled of it."""
    run = world.begin().run

    class Meddles:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == "11 prove/judge" and point is CrashPoint.AFTER_ACT:
                job = world.record_of(run, "prove/compare").result["spark_job"]
                file = Path(job["output"]) / "verdict.json"
                file.write_text(file.read_text() + " ")

    with pytest.raises(Broken, match="changed since"):
        world.drive(run, Meddles())


def test_a_run_that_is_over_is_watched(world: World) -> None:
    """The latest one without a name; what it came to is in the history of the closed run."""
    with pytest.raises(Rejected, match="no run of toy is over"):
        watch(world.move, world.tools(), world.target)
    run = world.begin().run
    with pytest.raises(Rejected, match="only a run of toy that is over"):
        watch(world.move, world.tools(), world.target, run)
    world.drive(run)
    assert watch(world.move, world.tools(), world.target).outcome is Outcome.PASS
    world.target.write("colour", "blue")
    assert watch(world.move, world.tools(), world.target, run).outcome is Outcome.FAIL
    assert world.kinds(run)[-2:] == [EventKind.JUDGED, EventKind.JUDGED]
    assert [each.run for each in statuses(world.runs)] == [run]


def test_the_soak_keeps_a_failure_and_its_looks(world: World) -> None:
    """A failure in it stays one; after the point of no return there is only a stop."""
    run = world.begin().run
    failed = []

    class Spoils:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step.endswith("soak/soak") and point is CrashPoint.AFTER_READ_BACK and not failed:
                failed.append(world.target.write("burned", "half"))

    stopped = world.drive(run, Spoils())
    assert isinstance(stopped, Stopped)
    assert "there is no rollback any more" in stopped.checked.detail
    world.target.write("burned", "yes")
    again = world.drive(run)
    assert isinstance(again, Stopped), "the failure stays one"
    assert world.kinds(run).count(EventKind.NOTED) == 2
