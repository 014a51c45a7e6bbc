"""What somebody is asked, who may say yes, and what people read at a gate or in a review.

The Markdown is the same in a terminal and on a page. It says what happens after each answer, how long reading
pauses, what did not pass, and what all of it rests on. What strangers named (groups, clients, hosts) is no
markup in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from groupshift.domain.foreign_text_quoting import code, shown, visible
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import Findings, Json, RunState, Step
from groupshift.domain.verdict import Finding, Verdict, counted
from groupshift.errors import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a report or of a gate: sentences, or rows below their heads."""

    title: str
    sentences: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a look found, as ``assess`` shows it beside its findings: for people, and as data."""

    sections: tuple[Section, ...] = ()
    data: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody is asked at a gate or in a review: ``gate`` is the step's key and ``does`` its words,
    ``fingerprint`` names what was shown (an answer has to name it), ``changes`` made an earlier answer void.

    ``ahead`` are the steps that a yes lets happen, ``later`` says what is asked next (empty: nothing).
    ``findings`` are of this look, else those of the plan; ``judged`` are of the last judgement. ``state`` is
    the run's, and ``optional`` and ``frees`` say what a no does: the steps are left out, or the run
    ends and its target is free."""

    run: str
    gate: str
    answers: tuple[Choice, ...]
    fingerprint: str
    plan_hash: str
    ahead: tuple[Step, ...] = ()
    changes: tuple[str, ...] = ()
    findings: Findings = ()
    detail: str = ""
    pause: str = ""
    shown: tuple[Section, ...] = ()
    does: str = ""
    later: str = ""
    judged: Findings = ()
    state: RunState = RunState.RUNNING
    optional: bool = False
    frees: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What somebody answers, who it is, and what was shown to them."""

    choice: Choice
    who: str
    fingerprint: str


_ACCOUNT = re.compile(r"(?P<claimed>.*) \(uid [0-9]+(?:, (?P<account>.*))?\)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvers:
    """``names`` are accounts or users of Airflow, empty for anybody; with ``four_eyes`` it is never the one
    who asked for the run."""

    names: tuple[str, ...] = ()
    four_eyes: bool = False

    def require(self, who: str, *, requester: str, gate: str) -> None:
        """Raise `Rejected` unless ``who`` may say yes at this gate. Anybody may say no."""
        person = account_of(who)
        if self.names and person not in self.names:
            raise Rejected(
                f"gate {gate}: {who} may not approve, nothing was changed; the setting approval.approvers "
                f"names {', '.join(self.names)}: let one of them answer"
            )
        if self.four_eyes and person == account_of(requester):
            raise Rejected(
                f"gate {gate}: {who} asked for this run and may not approve it (setting approval.four_eyes), "
                "nothing was changed: let another person answer, by running the same command"
            )


def account_of(who: str) -> str:
    """Return the account or user that ``who`` is, whatever name it claims."""
    match = _ACCOUNT.fullmatch(who)
    return (match["account"] or match["claimed"]) if match else who


BUTTONS = {**{each: each.value.capitalize() for each in Choice}, Choice.STOP: "Stop here"}
"""The word of each answer."""
DEFAULTS = (Choice.REJECT, Choice.STOP)
"""What no answer, or Enter alone, counts as: it changes nothing."""


def default_of(question: Question) -> Choice:
    """Return the answer that changes nothing."""
    return next(each for each in DEFAULTS if each in question.answers)


SHOWN = 50
"""How many findings, steps or changes a question lists: it is kept by Airflow and shown in a browser."""


def question_text(
    question: Question, *, until_ms: int | None = None, buttons: Mapping[Choice, str] = BUTTONS
) -> str:
    """Return the text of a question. ``until_ms``: an answer counts until then (epoch ms); None: the question
    waits, as in a terminal. ``buttons`` are the words of the answers there."""
    name = visible(question.run)
    where = f"**Run** {code(question.run)} · **step** {shown(question.gate)}"
    parts = [f"{where} · plan `{question.plan_hash[:12]}`"]
    if question.changes:
        lines = _listed([f"- {shown(each)}" for each in question.changes], "- ")
        parts.append(f"### Asked again\n\nAn earlier approval is void, because this changed:\n\n{lines}")
    if Choice.APPROVE in question.answers:
        parts.append(f"### If you approve: {shown(question.does)}" if question.does else "### If you approve")
        ahead = [f"{number}. {shown(words_of(each))}" for number, each in enumerate(question.ahead, 1)]
        parts.append(_listed(ahead) or "No step waits for this.")
        if question.pause:
            parts.append(f"**Pause**: {shown(question.pause)}")
        again = f"Then you are asked again: {shown(question.later)}."
        parts.append(again if question.later else "Then the run ends.")
    else:
        said = shown(question.detail) if question.detail else "The checks below say why."
        parts.append(f"### In doubt: {shown(question.does or question.gate)}")
        parts.append(f"This step did not pass. {said}")
    usual = buttons[default_of(question)]
    answers = [f"- **{buttons[each]}**: {does}" for each, does in answer_texts(question)]
    if until_ms is None:
        answers.append(f"- no answer: nothing is changed, and the run waits. Enter alone is **{usual}**")
    else:
        answers.append(f"- no answer until {utc(until_ms)}: as **{usual}**")
    parts += ["### Your answer", "\n".join(answers)]
    if question.findings:
        parts.append(f"### Checks\n\n{checks_text(question.findings)}")
    if question.judged and question.judged != question.findings:
        parts.append(f"### Last judgement\n\n{checks_text(question.judged)}")
    parts += [section_text(each) for each in question.shown]
    if any(each.does or each.proof for each in question.ahead):
        steps = ((each.key, words_of(each), each.proof, undo_words(each)) for each in question.ahead)
        rows = [tuple(shown(text) if text else "-" for text in each) for each in steps]
        head = ("step", "what is done", "proof before the next", "rollback")
        parts.append(f"### Steps\n\n{_table(head, rows)}")
    parts.append(f"`groupshift status {name}` tells where it stands, `groupshift report {name}` every check.")
    return "\n\n".join(parts)


def _listed(lines: Sequence[str], mark: str = "") -> str:
    """Return lines in one text, no more than somebody reads."""
    more = [f"{mark}and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n".join([*lines[:SHOWN], *more])


def words_of(step: Step) -> str:
    """Return what a step does, its name where nobody said it."""
    return step.does or step.name


def answer_texts(question: Question) -> tuple[tuple[Choice, str], ...]:
    """Return each answer with what it does."""
    back = f"`groupshift roll-back {visible(question.run)} --execute`"
    begun = question.state not in {RunState.PLANNED, RunState.APPROVED}
    stays = f"the run stays open, and {back} takes it back"
    if question.state.goes_back:
        stays = "the run stays open in its rollback"
    if question.optional:
        no = "these steps are left out and the run ends well; the rollback stays open."
    elif not begun:
        no = "nothing was changed; the run ends, and another one may begin."
    elif question.frees and not question.state.goes_back:
        no = f"nothing more is changed; the run ends here, its target is free, and {back} takes it back."
    else:
        no = f"nothing more is changed; {stays}."
    many = "1 step" if len(question.ahead) == 1 else f"{len(question.ahead)} steps"
    texts = {
        Choice.APPROVE: f"the run goes on with the {many} above; each is read back before the next one.",
        Choice.REJECT: no,
        Choice.GO_ON: "what was met is accepted as it is, in your name, and the run goes on.",
        Choice.ROLL_BACK: "what the run did is undone, last step first, and proven.",
        Choice.STOP: no,
    }
    return tuple((each, texts[each]) for each in question.answers)


def utc(at_ms: int) -> str:
    """Return a moment (epoch ms) to the second."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def checks_text(findings: Findings) -> str:
    """Return ``55 of 55 checks passed``, with what did not pass in a table. What was not asked is no pass."""
    bad = [each for each in findings if each.applies and each.verdict is not Verdict.PASS]
    said = f"{counted(findings, 'checks')}."
    return f"{said}\n\n{findings_table(bad)}" if bad else said


def findings_table(findings: Iterable[Finding]) -> str:
    """Return findings as a Markdown table."""
    rows = [
        (
            each.verdict.value if each.verdict is Verdict.PASS else f"**{each.verdict.value.upper()}**",
            *(shown(text) if text else "-" for text in (each.rule, each.reason, each.hint)),
        )
        for each in findings
    ]
    return _table(("verdict", "rule", "reason", "hint"), rows)


def section_text(section: Section) -> str:
    """Return a section as Markdown."""
    parts = [f"### {shown(section.title)}", *(shown(each) for each in section.sentences)]
    if section.head:
        cells = [tuple(shown(each) if each else "-" for each in row) for row in section.rows]
        parts.append(_table(tuple(map(shown, section.head)), cells))
    return "\n\n".join(parts)


def undo_words(step: Step) -> str:
    """Return how a step is undone, in words; empty where nothing has to be."""
    if isinstance(step.undo, Step):
        return step.undo.does or step.undo.kind
    return step.undo.value if step.undo.value != "nothing" else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(each)} |" for each in (head, ["---"] * len(head), *rows[:SHOWN])]
    if len(rows) > SHOWN:
        left = [f"and {len(rows) - SHOWN} more", *[""] * (len(head) - 1)]
        lines.append(f"| {' | '.join(left)} |")
    return "\n".join(lines)
