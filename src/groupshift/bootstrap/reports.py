"""The pages of runs, from the journal and the evidence of a place."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from groupshift.adapters.system import SystemClock
from groupshift.domain.run import Json, RunState
from groupshift.domain.seal import REPORT
from groupshift.engine.registry import move_named
from groupshift.errors import GroupshiftError
from groupshift.ports.evidence import EvidenceStore
from groupshift.ports.runs import Runs
from groupshift.settings import Settings

if TYPE_CHECKING:
    from groupshift.engine.evidence import Pages
    from groupshift.report.kept import Kept


_LOG = logging.getLogger(__name__)


def evidence_of(settings: Settings) -> EvidenceStore:
    """Return the evidence of runs, each in a folder of its name. Arrow is loaded for it."""
    from groupshift.adapters.parquet.evidence import ParquetEvidence

    return ParquetEvidence(settings.evidence.root)


def pages_of(runs: Runs, settings: Settings) -> Pages:
    """Return what makes the page that is sealed with a run. A page that cannot be made keeps no run open: it
    is sealed without one, and `groupshift report` makes it later."""

    def pages(run: str, closing: Json) -> Mapping[str, str]:
        try:
            return {REPORT: page_of(runs, settings, run, closing)[0]}
        except GroupshiftError:
            raise
        except Exception:  # noqa: BLE001 - whatever a page meets, the run ends
            _LOG.exception("the page of run %s was not made", run)
            return {}

    return pages


def page_of(
    runs: Runs, settings: Settings, run: str, closing: Json | None = None, troubles: Sequence[str] = ()
) -> tuple[str, Kept | None]:
    """Return the HTML page of a run as it stands, and what is kept of it, with sentences about what of that
    cannot be relied on (None: nothing is kept). ``closing`` is what is journaled of an end that is not
    written yet; ``troubles`` are such sentences that are known already.

    Raises:
        Rejected: the run is not in the journal, its plan is of another version, or its move is not installed.
        Broken: a file of the evidence was replaced while it was read.
    """
    from groupshift.adapters.ledger import LedgerFiles
    from groupshift.report.kept import kept_of
    from groupshift.report.run_page import closed_reader, document_of

    record = runs.find(run)
    kept = None
    if settings.evidence.root and record.state is not RunState.PREVIEW:
        ledger = LedgerFiles(settings.evidence.ledgers or None)
        kept = kept_of(evidence_of(settings), runs, run, closing=closing, ledger=ledger)
        kept.troubles += troubles
    reader = closed_reader(move_named(record.move), runs, SystemClock(), run, closing)
    return document_of(reader, kept), kept
