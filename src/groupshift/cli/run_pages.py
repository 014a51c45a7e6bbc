"""The page of a run on the command line: where it lies, whether it is sealed, what of it is in doubt."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.bootstrap.connect import verifier
from groupshift.bootstrap.moves import sealer_of
from groupshift.bootstrap.reports import evidence_of, page_of
from groupshift.cli.run_place import Session
from groupshift.domain.run import RunState
from groupshift.domain.seal import REPORT
from groupshift.engine.verification import verify
from groupshift.ports.runs import EventKind, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPage:
    """``where`` the page lies (empty: nowhere) and whether it is sealed; ``troubles`` are sentences about
    evidence that is gone or altered. Where there are any, ``text`` is a page that says them."""

    where: str
    text: str
    sealed: bool
    troubles: tuple[str, ...] = ()


def written(at: Session, record: RunRecord, *, audit: bool = False) -> WrittenPage:
    """Write the page of a run beside its evidence. That of a run that is over is sealed with it: it is
    written again only where an audit was added since, or where it was sealed without one. ``audit`` takes
    up what an audit of consumption left.

    Raises:
        Conflict: an audit is to be taken up, and the run is open.
        Rejected: the evidence cannot be opened, or its move is not installed.
        Transient: the page cannot be written.
    """
    settings, run = at.place.settings, record.run
    if audit:
        sealer_of(at.runs, settings).journal_audit(run)
    if not settings.evidence.root or record.state is RunState.PREVIEW:
        text, _ = page_of(at.runs, settings, run)
        return WrittenPage(where="", text=text, sealed=False)
    evidence = evidence_of(settings)
    if record.state.is_open:
        text, kept = page_of(at.runs, settings, run)
        where = evidence.write_text(run, REPORT, text=text)
        return WrittenPage(
            where=where, text=text, sealed=False, troubles=tuple(kept.troubles if kept else ())
        )
    if _is_due(at, run):
        sealer_of(at.runs, settings).seal_again(run)
    found = verify(evidence, at.runs, run, verifier(settings.evidence.public_key)).troubles
    troubles = tuple(f"{each.path}: {each.reason or each.state.value}" for each in found)
    sound = REPORT in evidence.files(run) and all(each.path != REPORT for each in found)
    where = evidence.path(run, REPORT) if sound else ""
    kept_text = evidence.read_text(run, REPORT) if sound and not troubles else None
    if kept_text is not None:
        return WrittenPage(where=where, text=kept_text, sealed=True)
    text, _ = page_of(at.runs, settings, run, troubles=troubles)
    return WrittenPage(where=where, text=text, sealed=sound, troubles=troubles)


def _is_due(at: Session, run: str) -> bool:
    """Whether a run that is over has no sealed page, or an audit was added since."""
    due = True
    for event in at.runs.events(run):
        if event.kind is EventKind.SEALED:
            due = REPORT not in event.body.get("own", {})
        elif event.kind is EventKind.AUDITED:
            due = True
    return due
