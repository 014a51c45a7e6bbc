"""Whatever happens in whatever order to a run of the toy: one holder acts, each act was journaled before, and
the end is that of an undisturbed run or of a full rollback."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from toy_move.target import Target, spark
from toy_world import Killed, World, yes

from groupshift.domain.run import RunState, SparkJob
from groupshift.engine.gates import answer
from groupshift.engine.move import Run
from groupshift.engine.progress import Asks, Ended, Moved, Stopped, Waits
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import advance
from groupshift.errors import Fenced, GroupshiftError, Rejected, Void
from groupshift.ports.clock import CrashPoint

FORWARD = {"colour": "green", "plugged": "yes", "started": "yes", "burned": "yes", "finish": "done"}
BACK = {"colour": "red", "size": "0", "plugged": "no", "started": "no", "burned": "no", "finish": "open"}
CLOSED = {RunState.FINALISED, RunState.ROLLED_BACK}


class _DiesAt:
    """Ends the process when it comes to this point, of whatever step."""

    def __init__(self, point: CrashPoint) -> None:
        self._point = point

    def reached(self, _step: str, point: CrashPoint) -> None:
        """See the port."""
        if point is self._point:
            raise Killed


class ToyMachine(RuleBasedStateMachine):
    """Processes come, die, are taken over, turn round, and the world changes."""

    kind: type[World] = World

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.world = self.kind(folder=Path(self._folder.name))
        self.run = self.world.begin().run
        self.acts = self.world.watch_acts(self.run)
        self.process: Run[Target] | None = None
        self.former: list[Run[Target]] = []
        self.holders = 0
        self.burned_at: int | None = None
        self.turned = False
        self.meddled = False
        """Somebody else plugged or unplugged: what is plugged in the end is theirs."""

    def _advance(self, times: int) -> None:
        """The process goes on; an error or a stop is its end."""
        for _ in range(times):
            if self.process is None:
                return
            try:
                self._once(self.process)
            except Killed:
                self.process = None
            except Fenced:
                raise
            except GroupshiftError:
                self.process = None

    def _once(self, process: Run[Target]) -> None:
        match advance(process):
            case Asks(question=question):
                given = yes(question)
                assert given is not None
                with suppress(Void):
                    answer(process, question.gate, given)
            case Moved(work=SparkJob() as job):
                spark(job)
            case Waits():
                self.world.clock.sleep(1)
            case Stopped() | Ended():
                self.process = None
            case _:
                pass

    @precondition(lambda self: self.process is None)
    @rule(point=st.sampled_from([None, *CrashPoint]))
    def comes(self, point: CrashPoint | None) -> None:
        """A process comes, which may be about to die; nobody else can while it holds the run."""
        held = self.world.runs.held(self.run)
        holder = held.holder if held else "p0"
        crash = _DiesAt(point) if point else None
        self.process = self.world.claim(self.run, crash, holder=holder)

    @precondition(lambda self: self.process is not None)
    @rule(times=st.integers(1, 8))
    def goes_on(self, times: int) -> None:
        """It makes some transitions."""
        self._advance(times)

    @precondition(lambda self: self.process is not None and self.world.state(self.run).is_open)
    @rule()
    def is_taken_over(self) -> None:
        """Another process takes the run over; without being told to it cannot."""
        self.holders += 1
        assert self.process is not None
        self.former.append(self.process)
        try:
            self.process = self.world.claim(self.run, holder=f"p{self.holders}")
        except Fenced:
            self.process = self.world.claim(self.run, holder=f"p{self.holders}", take_over=True)

    @precondition(lambda self: self.former)
    @rule(data=st.data())
    def former_wakes(self, data: st.DataObject) -> None:
        """A process that lost the run changes nothing, whatever it tries."""
        process = data.draw(st.sampled_from(self.former))
        before, events = list(self.acts), self.world.runs.events(self.run)
        for tries in (lambda: advance(process), lambda: begin_roll_back(process, "start")):
            try:
                tries()
            except Fenced:
                continue
            raise AssertionError("a process that lost the run went on")
        assert self.acts == before
        assert self.world.runs.events(self.run) == events

    @precondition(lambda self: self.process is not None)
    @rule(to=st.sampled_from(["start", "start", "prepared"]))
    def turns(self, to: str) -> None:
        """Somebody takes the run back: possible exactly as long as nothing was burned."""
        assert self.process is not None
        burned = self.world.target.values()["burned"] == "yes"
        try:
            begun = begin_roll_back(self.process, to)
        except Rejected:
            assert burned
            return
        assert not (begun and burned)
        self.turned = self.turned or begun

    @rule(what=st.sampled_from(["item", "lamp", "owner", "scratch", "plug", "unplug", "time"]))
    def world_changes(self, what: str) -> None:
        """Somebody else does something."""
        target = self.world.target
        values = target.values()
        match what:
            case "item":
                target.add_item()
            case "lamp":
                target.write("lamp", "on")
            case "owner":
                target.write("owner", f"{values['owner']}x"[-4:])
            case "scratch":
                target.write("scratch", "no" if values["scratch"] == "yes" else "yes")
            case "plug" | "unplug" if values["burned"] == "no":
                self.meddled = True
                target.write("plugged", "yes" if what == "plug" else "no")
            case _:
                self.world.clock.sleep(3)

    @invariant()
    def tokens_rise(self) -> None:
        """No former holder acted after a later one; nothing is undone once it was burned."""
        tokens = [token for _, token in self.acts]
        assert tokens == sorted(tokens)
        names = [what for what, _ in self.acts]
        if "burned yes" in names:
            assert names[names.index("burned yes") + 1 :] in ([], ["finish done"])
            assert not self.world.state(self.run).goes_back

    def teardown(self) -> None:
        """Left alone, it ends as it should."""
        try:
            self._left_alone()
        finally:
            self._folder.cleanup()

    def _left_alone(self) -> None:
        self.world.target.write("scratch", "no")
        for _ in range(12):
            if self.world.state(self.run) in CLOSED:
                break
            with suppress(GroupshiftError):
                self.world.drive(self.run, holder="last", take_over=True)
        state, end = self.world.state(self.run), self.world.end()
        assert state in CLOSED, state
        if state is RunState.FINALISED:
            counted = self.world.record_of(self.run, "prepare/count").result["count"]
            assert end == {**end, **FORWARD, **self._theirs(end), "size": str(counted)}
            return
        if self._kept_what_was_prepared():
            begin_roll_back(self.world.claim(self.run, holder="last"), "start")
            self.world.drive(self.run, holder="last")
            end = self.world.end()
        assert end == {**end, **BACK, **self._theirs(end)}

    def _theirs(self, end: dict[str, str]) -> dict[str, str]:
        return {"plugged": end["plugged"]} if self.meddled else {}

    def _kept_what_was_prepared(self) -> bool:
        reader = Run.reader(self.world.move, self.world.tools(), self.world.target, self.run)
        return reader.rollbacks()[-1].body["to"] == "prepared"


TestToyMachine = ToyMachine.TestCase
TestToyMachine.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
