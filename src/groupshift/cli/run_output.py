"""How runs are shown: plans, where a run stands, how it ended; for people and as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from groupshift.cli.output import COLOUR, findings_table, next_command, plain
from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.foreign_text import data_without_login
from groupshift.domain.run import APPROVE, IRREVERSIBLE, Checked, Findings, RunState, Step
from groupshift.domain.verdict import Verdict, counted
from groupshift.engine.closing import Closing
from groupshift.engine.move import Run, undo_of
from groupshift.engine.progress import Ended, Progress, Stopped
from groupshift.engine.questions import Section, undo_words, utc, words_of
from groupshift.engine.status import RunStatus, StepStatus, status_of

_MARKS = {"done": "done", "acted": "made, not read back", "intended": "begun", "reopened": "to be done again"}
_STATES = {
    RunState.MOVED.value: "green",
    RunState.FINALISED.value: "green",
    RunState.ROLLED_BACK.value: "cyan",
    RunState.REJECTED.value: "yellow",
}


def steps_table(title: str, steps: Iterable[Step]) -> Table:
    """Return the steps of a plan, with the gates in their places."""
    table = Table(title, ("step", "what is done", "proof before the next", "rollback"))
    for each in steps:
        back = "" if each.kind == APPROVE else undo_words(each)
        table.add_row(each.key, words_of(each), each.proof or "-", back or "-")
    return table


def show_findings(console: Console, findings: Findings, title: str, *, everything: bool = False) -> None:
    """Show what did not pass, and count the rest."""
    shown = [each for each in findings if everything or each.verdict is not Verdict.PASS]
    if shown:
        console.print(findings_table(shown, title))
    console.print(f"{counted(findings, 'checks')}")


def list_table(found: Iterable[RunStatus]) -> Table:
    """Return runs, one a row: who has each, and what it waits for."""
    table = Table("runs", ("run", "move", "target", "state", "held by", "what it waits for, or how it ended"))
    for each in found:
        state = styled(each.state, _STATES.get(each.state, "blue"))
        holder = each.holder if each.driven else "-"
        table.add_row(each.run, each.move, each.target, state, holder, waits_of(each) or "-")
    return table


def waits_of(status: RunStatus) -> str:
    """Return what a run waits for and where that is answered, or how it ended; empty: nothing is known."""
    if status.driven:
        return f"gate {status.question} waits for an answer there" if status.question else "it is under way"
    if status.reason:
        return f"{status.verdict}: {status.reason}"
    return status.waits_for


def show_status(console: Console, status: RunStatus, *, following: str = "") -> None:
    """Show one run: who has it, what it waits for, each step, and what of its last look did not pass."""
    state = styled(status.state, _STATES.get(status.state, "blue"))
    asked = f", asked for by {status.requester}" if status.requester else ""
    begun = f" (begun {utc(status.created_at_ms)}{asked})"
    console.line("run ", styled(status.run, "bold"), f" of {status.target}: ", state, begun)
    if status.driven:
        console.print(f"held by {status.holder} since {utc(status.held_since_ms)}: {waits_of(status)}")
    elif status.reason:
        verdict = Verdict(status.verdict)
        console.line(styled(verdict, COLOUR[verdict]), f": {status.reason}")
    elif status.waits_for:
        console.print(f"it waits at step {status.waits_at}: {status.waits_for}")
        console.print(f"nobody has it; {status.holder} stopped by itself")
    console.print(_progress_table(status.steps))
    for each in status.steps:
        bad = [finding for finding in each.findings if finding.verdict is not Verdict.PASS]
        if bad:
            console.print(findings_table(bad, f"step {each.key}"))
    next_command(console, following or status.following)


def _progress_table(steps: Sequence[StepStatus]) -> Table:
    table = Table("steps", ("step", "what is done", "now", "last look", "since"))
    for each in steps:
        now = f"left out: {each.left_out}" if each.left_out else _MARKS.get(each.state, each.state)
        since = utc(each.at_ms) if each.at_ms else "-"
        table.add_row(each.key, each.does or "-", now or "-", each.outcome or "-", since)
    return table


def status_data(status: RunStatus, *, following: str = "") -> dict[str, Any]:
    """Return a run as data: what was journaled of its steps, without the keys of a store of evidence."""
    data = plain(asdict(status))
    data.pop("following")
    for step in data["steps"]:
        step["result"] = data_without_login(step["result"])
    return {**data, "driven": status.driven, "next": following or status.following}


def show_sections(console: Console, sections: Iterable[Section]) -> None:
    """Show the parts of a report."""
    for each in sections:
        if each.head:
            table = Table(each.title, each.head)
            for row in each.rows:
                table.add_row(*(cell or "-" for cell in row))
            console.print(table)
        else:
            console.line(styled(each.title, "bold"))
        for sentence in each.sentences:
            console.print(sentence)


def closing_data(closing: Closing) -> dict[str, Any]:
    """Return how a run ended as data."""
    return {
        "run": closing.run,
        "state": closing.state.value,
        "verdict": closing.verdict.value,
        "reason": closing.reason,
        "next": closing.following,
    }


def progress_data(run: Run[Any], progress: Progress) -> dict[str, Any]:
    """Return where a process ended as data."""
    status = status_of(run.tools.runs, run.name)
    data = status_data(status)
    if isinstance(progress, Ended):
        return {**data, **closing_data(progress.closing), "ended": True}
    if not isinstance(progress, Stopped):
        return {**data, "ended": False}
    if progress.closing is not None:
        return {**data, **closing_data(progress.closing), "ended": True}
    undo = [words_of(each) for each in _undo(run, progress)]
    stopped = {"step": progress.step.key, "waits": progress.waits, "said": _said(progress.checked)}
    return {
        **data,
        "ended": False,
        "stopped": stopped,
        "undo": undo,
        "next": _following(status, progress, undo),
    }


def show_progress(console: Console, run: Run[Any], progress: Progress) -> None:
    """Show where a process ended, and what to type next."""
    status = status_of(run.tools.runs, run.name)
    if isinstance(progress, Ended):
        _show_closing(console, progress.closing)
        return
    if not isinstance(progress, Stopped):
        show_status(console, status)
        return
    if progress.closing is not None:
        _show_closing(console, progress.closing)
        return
    how = "waits" if progress.waits else "stopped"
    console.line("run ", styled(run.name, "bold"), f" {how} at step {progress.step.key}, {status.state}")
    for said in _said(progress.checked):
        console.print(f"  {said}")
    undo = _undo(run, progress)
    for number, each in enumerate(undo, 1):
        console.print(f"rollback {number}: {words_of(each)}")
    next_command(console, _following(status, progress, undo))


def _said(checked: Checked) -> list[str]:
    """What did not pass, and the detail; none of it twice."""
    detail = [checked.detail] if checked.detail else []
    return [*(each for each in checked.sentences if each not in checked.detail), *detail]


def _show_closing(console: Console, closing: Closing) -> None:
    verdict = styled(closing.verdict, COLOUR[closing.verdict])
    console.line(verdict, " ", styled(closing.state, "bold"), f": {closing.reason} (run {closing.run})")
    next_command(console, closing.following)


def _undo(run: Run[Any], stopped: Stopped) -> tuple[Step, ...]:
    """What a rollback would undo of a run that failed, as far as its journal tells; nothing once a step was
    begun that cannot be undone."""
    begun = run.begun
    closed = any(each.undo is IRREVERSIBLE and each.key in begun for each in run.there.steps)
    return () if stopped.waits or run.going_back or closed else undo_of(run.there, begun)


def _following(status: RunStatus, stopped: Stopped, undo: Sequence[object]) -> str:
    if undo or stopped.checked.only_rollback_helps:
        return f"groupshift roll-back {status.run} --execute"
    return f"groupshift continue {status.run} --execute"
