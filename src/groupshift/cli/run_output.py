"""How runs are shown: plans, where a run stands, how it ended; for people and as data.

A function ``…_parts`` yields tables and lines for a person, a function ``…_data`` returns the same for a
program; `groupshift.cli.output_and_next_command.tell` prints one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.text import Text

from groupshift.cli.output_and_next_command import COLOUR, Shown, findings_table, plain, tell
from groupshift.cli.terminal import Table, joined, styled
from groupshift.domain.foreign_text_quoting import data_without_login
from groupshift.domain.run import APPROVE, IRREVERSIBLE, Findings, RunState, Step, findings_from
from groupshift.domain.verdict import Verdict, counted
from groupshift.engine.move import Run, undo_of
from groupshift.engine.progress import Ended, Progress, Stopped
from groupshift.engine.questions_and_approvers import Section, undo_words, utc, words_of
from groupshift.engine.status import RunStatus, status_of

_STATES = {
    RunState.MOVED.value: "green",
    RunState.FINALISED.value: "green",
    RunState.ROLLED_BACK.value: "cyan",
    RunState.REJECTED.value: "yellow",
}
"""The colours of states; an open run is blue."""


def steps_table(title: str, steps: Iterable[Step]) -> Table:
    """Return the steps of a plan, with the gates in their places."""
    table = Table(title, ("step", "what is done", "proof before the next", "rollback"))
    for each in steps:
        undo = each.kind != APPROVE and undo_words(each)
        table.add_row(each.key, words_of(each), each.proof or "-", undo or "-")
    return table


def findings_parts(findings: Findings, title: str, *, everything: bool = False) -> Iterator[Shown]:
    """Yield what did not pass (``everything``: all), and how many findings there are."""
    yield findings_table((e for e in findings if everything or e.verdict is not Verdict.PASS), title)
    yield counted(findings, "checks")


def list_table(runs: Iterable[RunStatus]) -> Table:
    """Return runs, one a row: who has each, and what it waits for."""
    columns = ("run", "move", "target", "state", "held by", "what it waits for, or how it ended")
    table = Table("runs", columns)
    for each in runs:
        holder = each.holder if each.driven else "-"
        table.add_row(each.run, each.move, each.target, _state(each), holder, waits_of(each) or "-")
    return table


def _state(status: RunStatus) -> Text:
    """The state of a run, in its colour."""
    return styled(status.state, _STATES.get(status.state, "blue"))


def waits_of(status: RunStatus) -> str:
    """Return what a run waits for and where that is answered, or how it ended; empty: nothing is known."""
    if status.driven:
        return f"gate {status.question} waits for an answer there" if status.question else "it is under way"
    if status.reason:
        return f"{status.verdict}: {status.reason}"
    return status.waits_for


def tell_status(status: RunStatus, *, as_json: bool, following: str = "") -> None:
    """Show one run, with the command that comes next (empty: its own).

    A person sees who has it, what it waits for, each step, and what of its last look did not pass."""
    tell(status_data(status), _status_parts(status), following or status.following, as_json=as_json)


def _status_parts(status: RunStatus) -> Iterator[Shown]:
    """Who has a run, what it waits for, each step, and what of its last look did not pass."""
    requested = f", asked for by {status.requester}" if status.requester else ""
    begun = f" (begun {utc(status.created_at_ms)}{requested})"
    yield joined("run ", styled(status.run, "bold"), f" of {status.target}: ", _state(status), begun)
    if status.driven:
        yield f"held by {status.holder} since {utc(status.held_since_ms)}: {waits_of(status)}"
    elif status.reason:
        verdict = Verdict(status.verdict)
        yield joined(styled(verdict, COLOUR[verdict]), f": {status.reason}")
    elif status.waits_for:
        yield f"it waits at step {status.waits_at}: {status.waits_for}"
        yield f"nobody has it; {status.holder} stopped by itself"
    table = Table("steps", ("step", "what is done", "now", "last look", "since"))
    for each in status.steps:
        since = utc(each.at_ms) if each.at_ms else "-"
        table.add_row(each.step.key, each.step.does or "-", each.now or "-", each.outcome or "-", since)
    yield table
    for each in status.steps:
        findings = findings_from(each.looked.get("findings", ()))
        bad = (finding for finding in findings if finding.verdict is not Verdict.PASS)
        yield findings_table(bad, f"step {each.step.key}")


def status_data(status: RunStatus) -> dict[str, Any]:
    """Return a run as data: what was journaled of its steps, without the keys of a store of evidence."""
    data = plain(status)
    data["steps"] = [
        {
            "key": each.step.key,
            "does": each.step.does,
            "state": each.record.state if each.record else "",
            "at_ms": each.at_ms,
            "token": each.record.token if each.record else 0,
            "left_out": each.record.left_out if each.record else "",
            "outcome": each.outcome,
            "findings": each.looked.get("findings", ()),
            "result": data_without_login(each.result),
        }
        for each in status.steps
    ]
    following = data.pop("following")
    return {**data, "driven": status.driven, "next": following}


def steps_data(steps: Iterable[Step]) -> list[dict[str, str]]:
    """Return steps as data: the key of each and its words, for where no more of them is of interest."""
    return [{"step": each.key, "does": words_of(each)} for each in steps]


def section_parts(sections: Iterable[Section]) -> Iterator[Shown]:
    """Yield the parts of a report: a table or a title, then its sentences."""
    for each in sections:
        rows = ([cell or "-" for cell in row] for row in each.rows)
        yield Table(each.title, each.head, rows) if each.head else styled(each.title, "bold")
        yield from each.sentences


def tell_progress(run: Run[Any], progress: Progress, *, as_json: bool) -> None:
    """Show where a process ended, and what to type next."""
    data = progress_data(run, progress)
    parts = _status_parts(status_of(run.tools.runs, run.name))
    if data["ended"]:
        verdict = styled(data["verdict"], COLOUR[data["verdict"]])
        said = f": {data['reason']} (run {data['run']})"
        parts = iter([joined(verdict, " ", styled(data["state"], "bold"), said)])
    elif isinstance(progress, Stopped):
        parts = _stopped_parts(data)
    tell(data, parts, data["next"], as_json=as_json)


def progress_data(run: Run[Any], progress: Progress) -> dict[str, Any]:
    """Return where a process ended as data: the run's status, whether it has ``ended``, where it ``stopped``
    and what a rollback would ``undo``, and the ``next`` command.

    What would be undone is told of a run that failed, as far as its journal tells; nothing once a step was
    begun that cannot be undone."""
    data: dict[str, Any] = {**status_data(status_of(run.tools.runs, run.name)), "ended": False}
    closing = progress.closing if isinstance(progress, Ended | Stopped) else None
    if closing is not None:
        end = {"run": closing.run, "state": closing.state, "verdict": closing.verdict}
        return {**data, **end, "reason": closing.reason, "next": closing.following, "ended": True}
    if not isinstance(progress, Stopped):
        return data
    checked, begun = progress.checked, run.begun
    detail = [checked.detail] if checked.detail else []
    said = [*(each for each in checked.sentences if each not in checked.detail), *detail]
    closed = any(each.undo is IRREVERSIBLE and each.key in begun for each in run.there.steps)
    reversible = not (progress.waits or run.going_back or closed)
    undo = [words_of(each) for each in undo_of(run.there, begun)] if reversible else []
    verb = "roll-back" if undo or checked.only_rollback_helps else "continue"
    return {
        **data,
        "stopped": {"step": progress.step.key, "waits": progress.waits, "said": said},
        "undo": undo,
        "next": f"groupshift {verb} {run.name} --execute",
    }


def _stopped_parts(data: dict[str, Any]) -> Iterator[Shown]:
    """Where a run stopped or waits, why, and what a rollback would undo."""
    stopped = data["stopped"]
    how = "waits" if stopped["waits"] else "stopped"
    yield joined("run ", styled(data["run"], "bold"), f" {how} at step {stopped['step']}, {data['state']}")
    yield from (f"  {said}" for said in stopped["said"])
    yield from (f"rollback {number}: {words}" for number, words in enumerate(data["undo"], 1))
