"""One whole run without Airflow: the same use cases in the same order as the runbook in ``dags/``.

Every call is safe to repeat, so a run that was killed is continued by walking the same path again:
what was judged as passed is not measured twice, what was done is not done twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from groupshift.application.brief_text import without_answer
from groupshift.application.status import StageProgress
from groupshift.bootstrap import App
from groupshift.domain.evidence import Moment
from groupshift.domain.judgement import ActOutcome, ActState, Closing, GateBrief, Judgement, StageStatus
from groupshift.domain.plan import Answer, Choice, Gate, Phase, Stage, StageName, WayBack
from groupshift.domain.step import Soak
from groupshift.domain.verdict import Verdict
from groupshift.errors import Broken, Rejected, Transient, Void
from groupshift.ports.clock import Clock
from groupshift.ports.journal import StepState

_ASKED_AGAIN = 3
LOOK_S = 1.0
"""Pause between two looks at a stage that has not settled."""


class Listener(Protocol):
    """Is told what goes on, for people to watch."""

    def stage(self, stage: Stage) -> None:
        """This stage begins (or is continued)."""
        ...

    def doing(self, text: str) -> None:
        """What is being waited for now."""
        ...

    def acted(self, stage: Stage, outcome: ActOutcome) -> None:
        """The act of a stage was made."""
        ...

    def judged(self, stage: Stage, moment: Moment, judged: Judgement) -> None:
        """A moment of a stage was judged."""
        ...

    def ended(self, stage: Stage) -> None:
        """The stage is over."""
        ...


Decide = Callable[[GateBrief], Choice]
"""A person (or ``--yes``) at a gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The migration this run drives, its fencing token, and who answers its gates."""

    migration: str
    token: int
    who: str


class StageFailed(Exception):
    """A judgement that takes the run back (internal to the runner)."""


class Declined(Exception):
    """A person said no at a gate (internal to the runner)."""


class Stopped(Declined):
    """A person wants neither on nor back (internal to the runner)."""


@dataclass(slots=True)
class Runner:
    """Drives one migration forward or back. ``settle_s`` bounds the wait for a stage to settle."""

    app: App
    claimed: Claimed
    decide: Decide
    listener: Listener
    clock: Clock
    settle_s: int = 120
    altered: Broken | None = field(default=None)

    def __post_init__(self) -> None:
        """Whatever this run does or asks is of its claim. Raises `Fenced` where it is lost already."""
        self.app = self.app.under(self.claimed.migration, self.claimed.token)

    def forward(self) -> Closing:
        """From wherever the migration stands to its end; back again when a judgement fails.

        Raises `Broken`, after going back, when evidence was altered, `Fenced` as soon as another run took
        the migration over; what the use cases raise otherwise (run again to continue)."""
        migration, token = self.claimed.migration, self.claimed.token
        if self._phase() is Phase.ROLLING_BACK:
            return self._walk_back()
        stages = self.app.planned(migration).plan.stages
        try:
            if not any(self._begun(stage) for stage in stages):
                self._ask(Gate.PLAN)
            for stage in stages:
                if stage.name is not StageName.FINALISE:
                    self._pass(stage)
            self._last_gate()
        except StageFailed as failed:
            self.app.begin_roll_back(migration, WayBack.OLD_MEMBERS, token, because=str(failed))
            return self._walk_back()
        except Declined:
            pass
        return self.app.close(migration, token)

    def back(self, to: WayBack) -> Closing:
        """Take the migration back as far as ``to`` and prove it."""
        self.app.begin_roll_back(self.claimed.migration, to, self.claimed.token)
        return self._walk_back()

    def _phase(self) -> Phase:
        return self.app.status(self.claimed.migration)[0].phase

    def _walk_back(self) -> Closing:
        (status,) = self.app.status(self.claimed.migration)
        try:
            for progress in status.stages:
                if progress.stage.name.undoes and not progress.passed:
                    self._stage(progress.stage)
        except (StageFailed, Stopped):
            pass
        closing = self.app.close(self.claimed.migration, self.claimed.token)
        if self.altered is not None:
            raise Broken(f"{self.altered}; the run ended as {closing.phase}: {closing.reason}")
        return closing

    def _pass(self, stage: Stage) -> None:
        """One forward stage with the gate before it, unless it has passed already."""
        if self._progress(stage).passed:
            return
        if stage.gate is Gate.TOGGLE:
            if not self._begun(stage):
                self._rehearse(stage)
            if self._progress(stage).step in {None, StepState.INTENDED}:
                self._ask(stage.gate)
        self._stage(stage)

    def _rehearse(self, stage: Stage) -> None:
        self.listener.doing("rehearsing the way back")
        judged = self.app.rehearse(self.claimed.migration)
        self.listener.judged(stage, Moment.BEFORE, judged)
        self._react(stage, judged)

    def _ask(self, gate: Gate, stage: StageName | None = None) -> Choice:
        """Show the gate and journal the answer; `Declined` when it is no."""
        brief = self.app.brief(self.claimed.migration, gate, stage)
        choice = self.decide(brief)
        answer = Answer(choice=choice, who=self.claimed.who, fingerprint=brief.fingerprint)
        self.app.answer(self.claimed.migration, gate, answer)
        if choice is Choice.STOP:
            raise Stopped
        if choice is Choice.REJECT:
            raise Declined
        return choice

    def _stage(self, stage: Stage) -> None:
        """Measure, act, wait, measure."""
        self.listener.stage(stage)
        if not self._begun(stage):
            self._measure(stage, Moment.BEFORE)
        if not isinstance(stage.step, Soak):
            self.listener.acted(stage, self._told(stage, self._act(stage)))
        self._wait(stage)
        self._measure(stage, Moment.AFTER)
        self.listener.ended(stage)

    def _act(self, stage: Stage) -> ActOutcome:
        """The act; where its approval became void after it was intended, the gate is asked again."""
        for _ in range(_ASKED_AGAIN):
            try:
                return self.app.act(self.claimed.migration, stage.name, self.claimed.token)
            except Void:
                self._ask(stage.gate or Gate.PLAN)
        return self.app.act(self.claimed.migration, stage.name, self.claimed.token)

    def _told(self, stage: Stage, outcome: ActOutcome) -> ActOutcome:
        """What a person has to do, with how long this process waits for it."""
        if outcome.state is not ActState.PENDING:
            return outcome
        until = without_answer(self._limit_s(stage))
        return replace(outcome, instruction=f"{outcome.instruction}\n\n{until}")

    def _limit_s(self, stage: Stage) -> int:
        """How long a stage may take to settle."""
        watch_s = self.app.planned(self.claimed.migration).plan.canary.watch_s
        watched_s = watch_s if stage.name is StageName.CANARY else 0
        return self.settle_s + watched_s + (stage.step.seconds if isinstance(stage.step, Soak) else 0)

    def _wait(self, stage: Stage) -> None:
        """Until it has settled; a stage that does not in time is judged as it is."""
        soaking = isinstance(stage.step, Soak)
        deadline = self.clock.now_ms() + self._limit_s(stage) * 1000
        while self.clock.now_ms() < deadline:
            status = self._look(stage, soaking=soaking)
            self.listener.doing(status.detail)
            if status.settled:
                return
            self.clock.sleep(LOOK_S)

    def _look(self, stage: Stage, *, soaking: bool) -> StageStatus:
        try:
            if soaking:
                return self.app.soak(self.claimed.migration)
            return self.app.watch(self.claimed.migration, stage.name)
        except Transient as silent:
            return StageStatus(settled=False, detail=str(silent))

    def _measure(self, stage: Stage, moment: Moment) -> None:
        """Snapshot, proof and judgement; a measurement that failed is made once more."""
        if self._progress(stage).verdict(moment) is Verdict.PASS:
            return
        judged = self._measured(stage, moment)
        if judged.verdict is Verdict.ERROR:
            judged = self._measured(stage, moment)
        if stage.name.undoes and moment is Moment.BEFORE:
            return  # what is met on the way back is written down; the act asks its own preconditions
        self._react(stage, judged)

    def _measured(self, stage: Stage, moment: Moment) -> Judgement:
        migration, name = self.claimed.migration, stage.name
        self.listener.doing(f"snapshot {moment} {name}")
        self.app.snapshot(migration, name, moment)
        try:
            request = self.app.proof(migration, name, moment)
        except Broken as altered:
            self.altered = altered
        else:
            self.listener.doing(f"proving {moment} {name} in Spark")
            self._prove_quietly(request_of=lambda: self.app.prove(request))
        self.listener.doing(f"judging {moment} {name}")
        judged = self.app.judge(migration, name, moment)
        self.listener.judged(stage, moment, judged)
        return judged

    def _prove_quietly(self, *, request_of: Callable[[], None]) -> None:
        """A job that failed leaves no verdict: the judge then says error, and why is in its log."""
        try:
            request_of()
        except Transient as failed:
            self.listener.doing(str(failed))

    def _react(self, stage: Stage, judged: Judgement) -> None:
        """Pass goes on, fail goes back, the rest asks a person; on the way back everything else asks."""
        if judged.verdict is Verdict.PASS:
            return
        why = f"stage {stage.name}: {'; '.join(judged.reasons)}"
        decided = Verdict.ERROR if stage.name.undoes else Verdict.FAIL
        if judged.verdict is decided:  # a rollback that was not measured has no other answer
            raise StageFailed(why)
        try:
            self._ask(Gate.REVIEW, stage.name)
        except Stopped:
            raise
        except Declined as declined:
            raise StageFailed(f"{why}; {self.claimed.who} did not accept that") from declined

    def _last_gate(self) -> None:
        """Finalise or keep; only asked where there is something to finalise."""
        migration, token = self.claimed.migration, self.claimed.token
        if self._phase() in {Phase.MOVED, Phase.FINALISED}:
            return
        if not self.app.has_stage(migration, StageName.FINALISE):
            self.app.keep(migration, token)
        elif self._ask(Gate.FINALISE) is Choice.FINALISE:
            self.app.finalise(migration, token)
        else:
            self.app.keep(migration, token)

    def _begun(self, stage: Stage) -> bool:
        return self._progress(stage).step is not None

    def _progress(self, stage: Stage) -> StageProgress:
        (status,) = self.app.status(self.claimed.migration)
        return next(each for each in status.stages if each.stage.name is stage.name)


def claim(app: App, migration: str, run: str, who: str) -> Claimed:
    """Claim the migration for this process. Raises `Rejected` when it can no longer be driven."""
    demand_begun(app, migration)
    return Claimed(migration=migration, token=app.claim(migration, run), who=who)


def demand_begun(app: App, migration: str) -> None:
    """Raises `Rejected` for a migration that is a plan only, or is not in the journal."""
    (status,) = app.status(migration)
    if status.phase is Phase.PREVIEW:
        raise Rejected(f"migration {migration} is a plan only; plan again with --execute")
