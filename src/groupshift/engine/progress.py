"""What one call of `groupshift.engine.run.advance` came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import Checked, Instruction, SparkJob, Step
from groupshift.engine.questions_and_approvers import Question
from groupshift.engine.run_end import Closing


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One transition was made at a step; ``work`` is what somebody else has to do for it now."""

    step: Step
    work: Instruction | SparkJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Look again later."""

    step: Step
    checked: Checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """Somebody has to answer: hand the answer to `groupshift.engine.gates.answer`."""

    step: Step
    question: Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """The next step is of a phase that this process does not do."""

    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The process ends at a step. ``waits``: for a person or longer than this process waits; else it failed
    or was declined. ``answers`` are for a terminal that shows what was met; ``closing`` where the run
    ended."""

    step: Step
    checked: Checked
    waits: bool
    answers: tuple[Choice, ...] = ()
    closing: Closing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The run is over."""

    closing: Closing


Progress: TypeAlias = Moved | Waits | Asks | Paused | Stopped | Ended
