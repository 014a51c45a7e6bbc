"""What a person is asked in a run: the question as Markdown, and the answers as buttons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from groupshift.domain.foreign_text import code, markdown, visible
from groupshift.domain.reactions import Choice
from groupshift.domain.verdict import Verdict
from groupshift_airflow.links import run_page

if TYPE_CHECKING:
    from groupshift.domain.run import Findings
    from groupshift.engine.questions import Question, Section

DONE = "Done"
LOOK_AGAIN = "Look again"
ACCEPT = "Accept"
LABELS: Mapping[Choice, str] = {
    Choice.APPROVE: "Approve",
    Choice.REJECT: "Reject",
    Choice.GO_ON: "Go on",
    Choice.ROLL_BACK: "Roll back",
    Choice.STOP: "Stop here",
}
"""Each answer of the engine as Airflow's button shows it."""
OPTIONAL: Mapping[Choice, str] = {Choice.APPROVE: "Finalise", Choice.REJECT: "Keep"}
"""The same at the gate of what is optional: a no leaves that out, and the rollback stays open."""
CHOICES: Mapping[str, Choice] = {
    label: choice for labels in (LABELS, OPTIONAL) for choice, label in labels.items()
}
ALL = (*CHOICES, DONE, LOOK_AGAIN, ACCEPT)
_CHANGES_NOTHING = (Choice.REJECT, Choice.STOP)
_SHOWN = 50


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
    """Return an approval or a review."""
    labels = {**LABELS, **OPTIONAL} if question.optional else LABELS
    options = tuple(labels[each] for each in question.answers)
    quiet = next(labels[each] for each in _CHANGES_NOTHING if each in question.answers)
    parts = [
        f"**Run** {code(question.run)} · **step** {code(question.gate)} · plan `{question.plan_hash[:12]}`",
        *([markdown(question.does)] if question.does else []),
        *(f"Asked again, because of this: {markdown(each)}" for each in question.changes),
        *([markdown(question.detail)] if question.detail else []),
        *_findings(question.findings),
        *([f"{markdown(question.pause)}"] if question.pause else []),
        *(_listed("What happens after a yes", [each.does or each.name for each in question.ahead])),
        *(part for each in question.shown for part in _section(each)),
        _ends(question.run, quiet, until_ms),
    ]
    asks = "Approve" if Choice.APPROVE in question.answers else "Decide"
    return Gate(
        subject=f"{asks}: {visible(question.gate)} of {visible(question.run)}",
        body="\n\n".join(parts),
        options=options,
        default=quiet,
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
    """Return the question whether a person did what only a person can do."""
    stop, back = LABELS[Choice.STOP], [LABELS[Choice.ROLL_BACK]] if work.undoable else []
    yes = [LOOK_AGAIN, ACCEPT] if work.acceptable else [DONE]
    parts = [
        f"**Run** {code(work.run)} · **step** {code(work.step)}",
        *([markdown(work.instruction)] if work.instruction else []),
        *([markdown(work.detail)] if work.detail else []),
        *_findings(work.findings),
        f"After *{yes[0]}* the run looks whether it was done.",
        *([f"*{ACCEPT}* lets the run go on over exactly this; it ends red."] if work.acceptable else []),
        _ends(work.run, stop, until_ms),
    ]
    return Gate(
        subject=f"By hand: {visible(work.step)} of {visible(work.run)}",
        body="\n\n".join(parts),
        options=(*yes, *back, stop),
        default=stop,
        step=work.step,
    )


def _ends(run: str, default: str, until_ms: int) -> str:
    until = f"{datetime.fromtimestamp(until_ms / 1000, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"Without an answer until {until} it is *{default}*. [Run]({run_page(run)})"


def _findings(findings: Findings) -> list[str]:
    asked = [each for each in findings if each.asked]
    bad = [each for each in findings if each.verdict is not Verdict.PASS]
    passed = sum(each.verdict is Verdict.PASS for each in asked)
    said = f"{len(asked)} rules asked, {passed} passed"
    return _listed(said, [each.with_remedy for each in bad]) or ([f"**{said}**"] if findings else [])


def _listed(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return [f"**{title}**\n\n" + "\n".join(f"- {markdown(each)}" for each in [*lines[:_SHOWN], *more])]


def _section(section: Section) -> list[str]:
    head = [" | ".join(section.head), " | ".join("---" for _ in section.head)] if section.head else []
    rows = [" | ".join(markdown(cell) for cell in row) for row in section.rows]
    table = ["\n".join(f"| {each} |" for each in [*head, *rows])] if head else []
    return [f"**{markdown(section.title)}**", *map(markdown, section.sentences), *table]
