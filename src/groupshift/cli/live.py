"""Live progress of a run in the terminal, and the questions at its gates."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rich.status import Status

from groupshift.application.brief_text import step_text
from groupshift.cli.output import verdict_text
from groupshift.cli.terminal import Changes, Console, choose, joined, styled
from groupshift.domain.evidence import Moment
from groupshift.domain.judgement import ActOutcome, ActState, GateBrief, Judgement
from groupshift.domain.plan import Choice, Gate, Stage
from groupshift.domain.verdict import counted
from groupshift.errors import Rejected


@dataclass(slots=True)
class LiveListener:
    """`groupshift.cli.runner.Listener`: one line a thing done, a spinner for what is waited for."""

    console: Console
    _status: Status = field(init=False)
    _began: float = field(init=False, default=0.0)
    _changes: Changes = field(init=False, default_factory=Changes)

    def __post_init__(self) -> None:
        self._status = self.console.status("starting")

    def stop(self) -> None:
        """Stop the spinner."""
        self._status.stop()

    def stage(self, stage: Stage) -> None:
        """A heading."""
        self._began = time.monotonic()
        self.console.line(styled(stage.name, "bold"), f"  {step_text(stage.step)}")
        self._status.start()

    def doing(self, text: str) -> None:
        """The spinner; without a terminal a line when it changes (a countdown does not), or each 30 s."""
        self._status.update(joined(f"  {text}"))
        if not self.console.is_terminal and self._changes.worth(text, time.monotonic()):
            self.console.line(styled(f"  {text}", "dim"))

    def acted(self, stage: Stage, outcome: ActOutcome) -> None:
        """What was done, or what a person has to do."""
        self.console.print(f"  act {stage.name}: {outcome.state}, {outcome.detail}")
        if outcome.state is ActState.PENDING:
            self.console.markdown(outcome.instruction)

    def judged(self, stage: Stage, moment: Moment, judged: Judgement) -> None:
        """The verdict, and why it is not pass."""
        said = verdict_text(judged.verdict)
        self.console.line(f"  {moment} {stage.name}: ", said, f" ({counted(judged.findings, 'checks')})")
        for reason in judged.reasons:
            self.console.print(f"    {reason}")

    def ended(self, stage: Stage) -> None:
        """How long it took."""
        self._status.stop()
        self.console.line(styled(f"  {stage.name} took {time.monotonic() - self._began:.1f} s", "dim"))


@dataclass(frozen=True, slots=True)
class Prompted:
    """Asks at every gate; without a terminal nobody can answer, which is the answer 'waiting'."""

    listener: LiveListener

    def __call__(self, brief: GateBrief) -> Choice:
        """Show the brief and ask. Raises `Waiting` when nobody can be asked."""
        console = self.listener.console
        self.listener.stop()
        console.heading(brief.subject)
        console.markdown(brief.body)
        if not console.is_terminal:
            raise Waiting(f"gate {brief.gate} waits for a person: answer it in a terminal, or use --yes")
        by_word = {option.label.lower(): option for option in brief.options}
        default = next(word for word, option in by_word.items() if option.default)
        return by_word[choose(console, brief.subject, [*by_word], default)].choice


@dataclass(frozen=True, slots=True)
class Agreed:
    """``--yes``: approves plan and toggle; never a doubt (gate ``review``); keeps, unless told otherwise."""

    finalise: bool = False

    def __call__(self, brief: GateBrief) -> Choice:
        """The answer."""
        if brief.gate is Gate.FINALISE:
            return Choice.FINALISE if self.finalise else Choice.KEEP
        return Choice.REJECT if brief.gate is Gate.REVIEW else Choice.APPROVE


class Waiting(Rejected):
    """A person has to answer and none is there; exit code 6."""

    exit_code = 6
