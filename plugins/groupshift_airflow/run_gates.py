"""What a person is asked in a run: the question as Markdown, and the answers as buttons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupshift.domain.foreign_text_quoting import code, markdown, visible
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.engine.questions_and_approvers import BUTTONS, checks_text, default_of, question_text, utc
from groupshift_airflow.links import run_page

if TYPE_CHECKING:
    from groupshift.domain.run import Findings
    from groupshift.engine.questions_and_approvers import Question

DONE = "Done"
LOOK_AGAIN = "Look again"
ACCEPT = "Accept"
OPTIONAL: Mapping[Choice, str] = {Choice.APPROVE: "Finalise", Choice.REJECT: "Keep"}
"""The buttons at the gate of what is optional: a no leaves that out, and the rollback stays open."""
CHOICES: Mapping[str, Choice] = {
    label: choice for labels in (BUTTONS, OPTIONAL) for choice, label in labels.items()
}
ALL = (*CHOICES, DONE, LOOK_AGAIN, ACCEPT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One question as Airflow asks it. ``default`` is the answer that counts when nobody gives one; ``step``
    is the step's key, ``fingerprint`` what was shown there (empty: work of a person)."""

    subject: str
    body: str
    options: tuple[str, ...]
    default: str
    step: str
    fingerprint: str = ""


def gate_of(question: Question, until_ms: int) -> Gate:
    """Return an approval or a review as Airflow asks it; ``until_ms`` is when it expires (epoch ms).

    Silence is the answer that changes nothing."""
    labels = {**BUTTONS, **OPTIONAL} if question.optional else BUTTONS
    asks = "Approve" if Choice.APPROVE in question.answers else "Decide"
    text = question_text(question, until_ms=until_ms, buttons=labels)
    return Gate(
        subject=f"{asks}: {visible(question.gate)} of {visible(question.run)}",
        body=f"{text}\n\n[Run]({run_page(question.run)})",
        options=tuple(labels[each] for each in question.answers),
        default=labels[default_of(question)],
        step=question.gate,
        fingerprint=question.fingerprint,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a person has to do: ``instruction`` and ``detail`` of a step. ``acceptable``: it is about what was
    found, and somebody may accept exactly that; ``undoable``: the run may be rolled back from here."""

    run: str
    step: str
    instruction: str
    detail: str
    findings: Findings = ()
    acceptable: bool = False
    undoable: bool = False


def gate_of_work(work: Work, until_ms: int) -> Gate:
    """Return the question whether a person did what only a person can do; it expires at ``until_ms`` (epoch
    ms), and silence stops the run there, open."""
    stop, back = BUTTONS[Choice.STOP], [BUTTONS[Choice.ROLL_BACK]] if work.undoable else []
    yes = [LOOK_AGAIN, ACCEPT] if work.acceptable else [DONE]
    parts = [
        f"**Run** {code(work.run)} · **step** {code(work.step)}",
        *([markdown(work.instruction)] if work.instruction else []),
        *([markdown(work.detail)] if work.detail else []),
        *([checks_text(work.findings)] if work.findings else []),
        f"After *{yes[0]}* the run looks whether it was done.",
        *([f"*{ACCEPT}* lets the run go on over exactly this; it ends red."] if work.acceptable else []),
        f"Without an answer until {utc(until_ms)} it is *{stop}*. [Run]({run_page(work.run)})",
    ]
    return Gate(
        subject=f"By hand: {visible(work.step)} of {visible(work.run)}",
        body="\n\n".join(parts),
        options=(*yes, *back, stop),
        default=stop,
        step=work.step,
    )
