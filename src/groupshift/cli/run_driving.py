"""Drive a run from a terminal or in a pipe: gates, instructions, what goes on, and how it ends.

Everything that tells of progress goes to standard error; standard output has the end only, as a table or as
JSON. Without a terminal nobody is asked: the process ends at a gate and the run waits, open."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from typer import Option

from groupshift.adapters.system import signalled, signals_wait
from groupshift.cli.options import Execute, option, run_name, who
from groupshift.cli.output_and_next_command import next_command
from groupshift.cli.run_output import tell_progress
from groupshift.cli.run_place import Found, JournalSession
from groupshift.cli.terminal import Changes, Console, choose, joined, styled
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import RunState, Step, findings_from
from groupshift.domain.verdict import Verdict
from groupshift.engine.begin import claim
from groupshift.engine.move import Run, RunOptions
from groupshift.engine.progress import Ended, Progress, Stopped
from groupshift.engine.questions_and_approvers import (
    BUTTONS,
    Answer,
    Question,
    default_of,
    question_text,
    utc,
)
from groupshift.engine.roll_back import begin_finalise
from groupshift.engine.run import drive, give_up, leave
from groupshift.engine.run_end import Closing
from groupshift.errors import Broken, Fenced, GroupshiftError
from groupshift.ports.runs import EventKind, RunRecord

WAITS = 6
"""Exit code: somebody has to act or answer."""
INTERRUPTED = 130
"""Exit code: Ctrl-C, or a signal that asks the process to end."""
_LOOKS_ITSELF = (
    "  No answer is needed: the run goes on by itself when it sees that. After {:.0f} s this process ends "
    "and the run waits, open."
)
_LOOK_S = 1.0
"""Seconds between two looks at a step that waits."""
Turn = Callable[[Run[Any]], object]
"""What becomes of a claimed run before it is driven; it returns the `Closing` where that ends the run."""
_ALTERED = "J02"
"""The rule that fails for a snapshot that is not the one that was taken."""


Patience = Annotated[float, Option(help="Seconds that one step may take; 0: its own.", min=0)]
Yes = Annotated[bool, Option("--yes", help="Approve gates; never a doubt, nothing optional.")]
TakeOver = Annotated[bool, Option("--take-over", help="Take it over from a process that has it.")]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How this process drives, as the options of a verb. ``yes`` approves gates, but no doubt and nothing
    optional; ``accept`` is the step whose findings are accepted."""

    take_over: TakeOver = False
    accept: Annotated[str, option("--accept", "Accept what this step showed.", metavar="STEP")] = ""
    patience: Patience = 0
    execute: Execute = False
    yes: Yes = False


class Teller:
    """Says what goes on, each change once: a heading a step, a spinner for what is waited for. Without a
    terminal a line when something changes (a countdown does not), or each 30 s."""

    def __init__(self, console: Console, patience_s: Callable[[Step], float]) -> None:
        """``patience_s`` tells how long this process looks whether a person made a step, in seconds."""
        self.console, self._patience_s = console, patience_s
        self._status, self._step, self._changes = console.status("starting"), "", Changes()

    def close(self) -> None:
        """Stop the spinner, also of a terminal that is gone."""
        with suppress(OSError):
            self._status.stop()

    def tell(self, step: Step, text: str) -> None:
        """Say what a step does or waits for."""
        self._heading(step)
        if text == "begins":
            return
        self._status.update(joined(f"  {text}"))
        if not self.console.is_terminal and self._changes.worth(text, time.monotonic()):
            for line in text.splitlines():
                self.console.line(styled(f"  {line}", "dim"))

    def instruct(self, step: Step, text: str) -> None:
        """Say what a person has to do, and how long this process looks whether it was done."""
        self._heading(step)
        self._status.stop()
        for line in text.splitlines():
            self.console.print(f"  {line}")
        self.console.print(_LOOKS_ITSELF.format(self._patience_s(step)))
        self._status.start()

    def _heading(self, step: Step) -> None:
        """Say which step goes on, once."""
        if step.key != self._step:
            self._step = step.key
            self.console.line(styled(step.key, "bold"), f"  {step.does}")
            self._status.start()


def _decided(teller: Teller, terms: Terms, then: Turn | None, question: Question) -> Answer | None:
    """Answer a question: by ``--yes``, which never accepts a doubt, or as the person at the terminal does;
    None where nobody is there. The question is shown in either case."""
    console, choice = teller.console, None
    teller.close()
    console.heading(f"{question.does or question.gate}: run {question.run}")
    console.markdown(question_text(question))
    if terms.yes and Choice.APPROVE in question.answers:
        optional = question.optional and then is not begin_finalise
        said = "left out: finalise it with groupshift finalise" if optional else "approved"
        console.print(f"--yes: {said}")
        choice = Choice.REJECT if optional else Choice.APPROVE
    elif answerable(console):
        words = {BUTTONS[each].lower(): each for each in question.answers}
        prompt = f"{question.does or question.gate} (plan {question.plan_hash[:12]})?"
        with suppress(EOFError):
            choice = words[choose(console, prompt, [*words], BUTTONS[default_of(question)].lower())]
    return Answer(choice=choice, who=who(), fingerprint=question.fingerprint) if choice else None


def answerable(console: Console) -> bool:
    """Return True where a person can be asked."""
    return console.is_terminal and sys.stdin.isatty()


def go_on(
    begun: Found, ports: Any, terms: Terms, *, as_json: bool, then: Turn | None = None, back: bool = False
) -> int:
    """Claim a run and drive it as far as it goes; show where it stands; return the exit code.

    ``then`` is called with the claim before the run is driven: it turns it round (``back``), or opens it
    again (`begin_finalise`, after which what is optional is approved, too).

    Ctrl-C, or a signal that asks the process to end, leaves the run to the next process and says where it
    stands (U14). The command to type next is printed in every case.

    Raises:
        GroupshiftError: whatever the engine raises; the run is given up before.
    """
    at, move, record = begun.at, begun.move, begun.record
    console = Console(stderr=True)
    take_over = terms.take_over or _taken_over(at, record, console)
    teller = Teller(console, lambda step: terms.patience or step.patience_s or move.patience_s)
    options = RunOptions(
        who=who(),
        holder=run_name("run"),
        accept=terms.accept,
        patience_s=terms.patience,
        every_s=_LOOK_S,
        waits_for_people=True,
        direction="back" if back else "",
        tell=teller.tell,
        instruct=teller.instruct,
        submit=at.submit,
        decide=partial(_decided, teller, terms, then),
    )
    run: Run[Any] | None = None
    # whatever asks the process to end is as Ctrl-C: a run that was claimed is left in order; nohup is obeyed
    ends = (each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN)
    with signalled(signal.default_int_handler, *ends):
        try:
            with closing(teller):
                with signals_wait():
                    run = claim(move, at.tools, ports, record, options, take_over=take_over)
                console.line("run ", styled(run.name, "bold"), f" of {record.target}")
                turned = then(run) if then else None
                progress: Progress = Ended(closing=turned) if isinstance(turned, Closing) else drive(run)
        except (KeyboardInterrupt, RuntimeError) as why:  # a second signal cuts off a lock of Python itself
            if run is None or KeyboardInterrupt not in {type(why), type(why.__context__)}:
                raise
            return _interrupted(run, console)
        except GroupshiftError as why:
            if run is not None:
                give_up(run, str(why))
                next_command(console, f"groupshift status {run.name}")
            raise
    tell_progress(run, progress, as_json=as_json)
    return _code(run, progress)


def _taken_over(at: JournalSession, record: RunRecord, console: Console) -> bool:
    """Return True where a person says that the run is taken over from a process that has it (U2), False
    where none has it. Raises `Fenced` where nobody says so."""
    held = at.runs.held(record.run)
    if held is None or held.stopped or not record.state.is_open:
        return False
    has = f"{held.holder} has run {record.run} since {utc(held.at_ms)}"
    if answerable(console):
        console.print(f"{has}. Where you take it over, that process does nothing more.")
        if choose(console, "take it over", ["take over", "leave"], "leave") == "take over":
            return True
    raise Fenced(
        f"{has}: look there, or at groupshift status {record.run}; where that process is gone: "
        f"groupshift continue {record.run} --take-over --execute"
    )


def _interrupted(run: Run[Any], console: Console) -> int:
    """Leave the run to the next process, and say where it stands (U14)."""
    with suppress(GroupshiftError), signals_wait():
        leave(run, f"interrupted by {run.options.who}")
    state = run.tools.runs.find(run.name).state
    console.line(
        styled("interrupted", "yellow"),
        f": run {run.name} of {run.record.target} is {state.value}. Every step is written down before it is "
        "made, so nothing is lost: the next process looks first how the last one stands.",
    )
    if state.is_open and state is not RunState.ROLLING_BACK:
        console.print(f"to take it back: groupshift roll-back {run.name}")
    next_command(console, f"groupshift continue {run.name} --execute")
    return INTERRUPTED


def _code(run: Run[Any], progress: Progress) -> int:
    """The exit code: 0 where what was asked for was reached and nothing was only accepted, 6 where somebody
    is waited for, 5 where a snapshot was altered after it was taken, whatever else failed; else 1."""
    closing = progress.closing if isinstance(progress, Ended | Stopped) else None
    if closing is not None and closing.verdict is Verdict.PASS:
        return 0
    if closing is None and isinstance(progress, Stopped) and progress.waits:
        return WAITS
    judged = [e for e in run.events() if e.kind in {EventKind.CHECKED, EventKind.JUDGED}]
    findings = [each for event in judged for each in findings_from(event.body.get("findings", ()))]
    altered = any(each.rule == _ALTERED and each.verdict is Verdict.FAIL for each in findings)
    return Broken.exit_code if altered else 1
