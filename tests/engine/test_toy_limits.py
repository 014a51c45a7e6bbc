"""The toy move where something fails, is refused, or is over."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_move.move import ToyMove, ToyRequest
from toy_world import BACK, MOVED, Killed, World, yes

from groupshift.domain.reactions_to_verdicts import Choice, Reaction
from groupshift.domain.run import Json, Outcome, RunState, StepState
from groupshift.domain.verdict import Verdict
from groupshift.engine.begin import begin, request_differences
from groupshift.engine.move import Sealing
from groupshift.engine.progress import Ended, Stopped
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import drive
from groupshift.engine.run_end import reject
from groupshift.engine.status import statuses
from groupshift.engine.watch import watch
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind


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
    """Journaled, written, journaled with the end: a process that dies while it writes is followed by one that
    seals."""
    run = world.begin().run
    sealed: list[str] = []

    def prepared(_name: str, closing: Json) -> Sealing:
        return Sealing(body={"digest": "ab"}, write=lambda: sealed.append(closing["state"]))

    def dies(_name: str, _closing: Json) -> Sealing:
        def write() -> None:
            raise Killed

        return Sealing(body={"digest": "cd"}, write=write)

    with pytest.raises(Killed):
        world.drive(run, seal=dies)
    assert world.state(run) is RunState.RUNNING
    assert world.runs.events(run)[-1].kind is EventKind.SEALING
    assert world.runs.events(run)[-1].body == {"digest": "cd"}, "what is to be sealed is journaled before"
    world.drive(run, seal=prepared)
    assert sealed == [RunState.FINALISED.value]
    assert world.kinds(run)[-3:] == [EventKind.SEALING, EventKind.SEALED, EventKind.CLOSED]


def test_a_proof_that_was_changed_after_it_was_journaled_fails(world: World) -> None:
    """The judge holds each file against what was journaled of it; the run goes back."""
    run = world.begin().run

    class Meddles:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == "11 prove/judge" and point is CrashPoint.AFTER_ACT:
                job = world.record_of(run, "prove/compare").result["spark_job"]
                file = Path(job["output"]) / "verdict.json"
                file.write_text(file.read_text() + " ")

    world.drive(run, Meddles())
    assert world.state(run) is RunState.ROLLED_BACK
    assert [rule for rule, verdict in judged(world, run) if verdict == "fail"] == ["J04"]


def test_a_snapshot_that_was_replaced_fails_although_it_fits_its_files(world: World) -> None:
    """Its manifest is not the one that was journaled when it was taken."""
    run = world.begin().run

    class Replaces:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == "11 prove/judge" and point is CrashPoint.AFTER_ACT:
                folder = Path(world.record_of(run, "prepare/snapshot before").result["folder"])
                for file in folder.iterdir():
                    file.write_text(file.read_text() + " ")

    world.drive(run, Replaces())
    assert [rule for rule, verdict in judged(world, run) if verdict == "fail"] == ["J03"]


def judged(world: World, run: str) -> list[tuple[str, str]]:
    """Rule and verdict of each finding of the last judge on the way there."""
    events = [
        each for each in world.runs.events(run) if each.kind is EventKind.JUDGED and "back" not in each.step
    ]
    return [(each["rule"], each["verdict"]) for each in events[-1].body["findings"]]


def test_a_run_that_is_over_is_watched(world: World) -> None:
    """What it came to is in the history of the closed run."""
    run = world.begin().run
    with pytest.raises(Rejected, match="only a run of toy that is over"):
        watch(world.move, world.tools(), world.target, run)
    world.drive(run)
    assert watch(world.move, world.tools(), world.target, run).outcome is Outcome.PASS
    world.target.write("colour", "blue")
    assert watch(world.move, world.tools(), world.target, run).outcome is Outcome.FAIL
    assert world.kinds(run)[-2:] == [EventKind.JUDGED, EventKind.JUDGED]
    assert [each.run for each in statuses(world.runs)] == [run]


def test_the_soak_keeps_a_failure_and_its_looks(world: World) -> None:
    """A failure in it stays one; after the point of no return there is only a stop."""
    run = world.begin().run
    failed = []
    usual = world.options().tell

    def spoil(step, text) -> None:
        usual(step, text)
        if text.startswith("soaks for") and not failed:
            failed.append(world.target.write("burned", "half"))

    stopped = world.drive(run, tell=spoil)
    assert isinstance(stopped, Stopped)
    assert "there is no rollback any more" in stopped.checked.detail
    world.target.write("burned", "yes")
    again = world.drive(run)
    assert isinstance(again, Stopped), "the failure stays one"
    assert world.kinds(run).count(EventKind.NOTED) == 2
