"""The page of one run, of any move: its headline, the move's own parts, what every run has in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from groupshift.domain.run import Json, RunState, Step
from groupshift.engine import questions
from groupshift.engine.move import Move, Run, Tools
from groupshift.ports.clock import Clock
from groupshift.ports.runs import Event, EventKind, RunRecord, Runs
from groupshift.report.history import (
    History,
    event_text,
    headline_of,
    history_of,
    run_data,
    wrong_words,
)
from groupshift.report.kept import Kept
from groupshift.report.page import (
    Alarm,
    Details,
    Page,
    Part,
    Section,
    Table,
    moment_utc,
    section,
    table,
)
from groupshift.report.page import (
    render as render_page,
)
from groupshift.report.runs import run_page

P = TypeVar("P")
_QUIET = frozenset({EventKind.NOTED, EventKind.SEALING, EventKind.WAITS, EventKind.SHOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """What a move brings to the page of its run. ``sentence`` says what became of it, ``now`` what to do
    (words, command or empty). ``first`` stand before the comparisons and the steps, ``own`` after them;
    ``compares`` is False for a move whose own parts show its comparisons. ``wrong`` says what it means that a
    step is not as it has to be."""

    title: str
    sentence: str
    now: Sequence[tuple[str, str]]
    first: Sequence[Section] = ()
    own: Sequence[Section] = ()
    compares: bool = True
    wrong: Callable[[Step], str] = wrong_words


@runtime_checkable
class HasPage(Protocol):
    """A move that has parts of its own; one without them has its `Move.report`."""

    def page(self, run: Run[Any], history: History, kept: Kept | None) -> PageParts:
        """Return them, from the journal and what is kept (None: nothing is)."""
        ...


def document_of(run: Run[P], kept: Kept | None) -> str:
    """Return the HTML document of a run, which needs nothing besides itself. Raises as `history_of`."""
    history = history_of(run)
    parts = _parts(run, history, kept)
    data = run_data(history, kept.shown if kept else (), parts.wrong)
    page = run_page(
        parts.title, headline_of(history, parts.sentence, parts.now), data, parts.first, parts.own
    )
    found = [each for each in page.sections if each is not None]
    if not parts.compares:
        found = [each for each in found if each.title != "Comparisons"]
    if kept is not None and kept.about:
        found[-1] = _with_about(found[-1], kept)
    troubles = kept.troubles if kept else ()
    made = Page(
        title=page.title,
        top=page.top,
        lead=_lead(history),
        alarms=[Alarm(lead="Evidence:", text=each) for each in troubles],
        sections=[*found, _journal(history)],
    )
    return render_page(made)


def _lead(history: History) -> str:
    record = history.record
    asked = f", asked for by {record.requester}" if record.requester else ""
    where = f"cluster {record.target.cluster}" if record.target.cluster else str(record.target)
    return f"Run {record.run}, planned {moment_utc(record.created_at_ms)}{asked}: {where}"


def _with_about(evidence: Section, kept: Kept) -> Section:
    """The section of the evidence, with what is known of it."""
    (first, *rest) = evidence.parts
    if isinstance(first, Table):
        first = replace(first, rows=[*first.rows, *kept.about[1:]])
    return Section(evidence.title, [first, *rest])


def _parts(run: Run[P], history: History, kept: Kept | None) -> PageParts:
    if isinstance(run.move, HasPage):
        return run.move.page(run, history, kept)
    return PageParts(
        title=f"{run.move.name} of {history.record.target}",
        sentence=usual_sentence(history),
        now=(("Next:", history.status.following),),
        own=[*sections_of(run.move.report(run))],
    )


def usual_sentence(history: History) -> str:
    """What became of a run, where its move has no words of its own."""
    status, subject = history.status, str(history.record.target)
    reason = status.reason or history.trouble or history.waiting
    step = history.next
    at = f" at step {step.step.key}" if step and history.state.is_open else ""
    said = f"The run of {subject} is {str(history.state).replace('_', ' ')}{at}"
    return f"{said}: {reason.removesuffix('.')}." if reason else f"{said}."


def way_sentence(history: History, way: tuple[str, str], progress: str, back: str = "back") -> str:
    """Return what became of a run that is not over, or was never begun: ``way`` is what goes where,
    ``progress`` how far it came, ``back`` the way back."""
    state, (what, aim) = history.state, way
    if state in {RunState.REJECTED, RunState.PREVIEW}:
        how = "was only planned" if state is RunState.PREVIEW else "was ended before anything was changed"
        reason = history.status.reason.removesuffix(".")
        said = f"The way of {what} to {aim} {how}"
        return f"{said}: {reason}." if reason else f"{said}."
    step, where = history.next, back if state.goes_back else f"to {aim}"
    at = f" at step {step.step.key}" if step else ""
    said = f"The way of {what} {where} stands{at}; {progress}."
    if history.trouble:
        return f"{said} It stopped there: {history.trouble}."
    return f"{said} It waits: {history.waiting}." if history.waiting else said


def sections_of(found: Sequence[questions.Section]) -> list[Section]:
    """Return sections of the engine, sentences and rows, as those of a page."""
    return [section(each.title, *each.sentences, _rows(each)) for each in found]


def _rows(found: questions.Section) -> Part | None:
    return Table(heads=found.head, rows=found.rows) if found.rows else None


def _journal(history: History) -> Section:
    """Every event but single looks, in order."""
    listed = table(
        (event for event in history.events if event.kind not in _QUIET),
        {
            "no.": "seq",
            "when": lambda event: moment_utc(event.at_ms),
            "what": lambda event: event.kind.value.replace("_", " "),
            "step": lambda event: event.step or None,
            "said": event_text,
        },
        numeric={"no."},
    )
    return section("Journal", Details(f"All {len(history.events)} events of the journal", [listed]))


class Closed:
    """A journal in which one run has come to an end that is not written yet: what its page is made from right
    before it is sealed."""

    def __init__(self, runs: Runs, run: str, closing: Json, at_ms: int) -> None:
        self._runs, self._run, self._closing, self._at_ms = runs, run, closing, at_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)

    def find(self, run: str) -> RunRecord:
        """See `Runs`."""
        found = self._runs.find(run)
        if run != self._run:
            return found
        return replace(found, state=RunState(self._closing["state"]))

    def events(self, run: str, *, step: str = "") -> tuple[Event, ...]:
        """See `Runs`."""
        found = self._runs.events(run, step=step)
        if run != self._run or step:
            return found
        seq = found[-1].seq + 1 if found else 1
        closed = Event(seq=seq, at_ms=self._at_ms, token=0, kind=EventKind.CLOSED, body=self._closing)
        return (*found, closed)


def closed_reader(move: Move[P], runs: Runs, clock: Clock, run: str, closing: Json | None = None) -> Run[P]:
    """Return a run for reading, as it will have ended where ``closing`` says how."""
    if closing and not _is_closed(runs, run, closing):
        found: Any = Closed(runs, run, closing, clock.now_ms())
        runs = found
    ports: Any = None
    return Run.reader(move, Tools(runs=runs, clock=clock), ports, run)


def _is_closed(runs: Runs, run: str, closing: Mapping[str, Any]) -> bool:
    """Whether the end is journaled already: a run that is sealed once more."""
    last = [each for each in runs.events(run) if each.kind is EventKind.CLOSED]
    return bool(last) and dict(last[-1].body) == dict(closing) and not runs.find(run).state.is_open
