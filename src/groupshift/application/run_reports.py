"""The report of a run of any move that changes a cluster; writing it, and sealing it:
`groupshift.ports.evidence.RunSealing`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupshift.application import expansion_report
from groupshift.application.pack import measured
from groupshift.application.run_accounts import account_of
from groupshift.application.run_pack import seal_run
from groupshift.domain.seal import JOURNAL, REPORT, StoredFile
from groupshift.ports.evidence import EvidenceStore, Signer
from groupshift.ports.journal import ClusterRun, RunStepRecord
from groupshift.report.page import Headline

_RENDER: Mapping[str, Callable[[Any, Sequence[StoredFile]], str]] = {
    "expansion": expansion_report.render,
}
_HEADLINE: Mapping[str, Callable[[Any], Headline]] = {
    "expansion": expansion_report.headline,
}
"""By the name of the move."""


def page_of(run: ClusterRun, steps: Mapping[str, RunStepRecord], files: Sequence[StoredFile] = ()) -> str:
    """The HTML document, which needs nothing besides itself; ``files`` are those of the run's evidence.
    Raises as `account_of`."""
    account = account_of(run, steps)
    return _RENDER[run.move](account, files)


def headline_of(run: ClusterRun, steps: Mapping[str, RunStepRecord]) -> Headline:
    """What the journal says of it, in a word and a sentence. Raises as `account_of`."""
    account = account_of(run, steps)
    return _HEADLINE[run.move](account)


def written(evidence: EvidenceStore, run: ClusterRun, steps: Mapping[str, RunStepRecord]) -> tuple[str, str]:
    """(path, text) of the report as the run stands, written beside its snapshots."""
    files = tuple(each for each in measured(evidence, run.run) if each.path not in {REPORT, JOURNAL})
    text = page_of(run, steps, files)
    return evidence.write_text(run.run, REPORT, text=text), text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAndPack:
    """The report first, so that the manifest names it; ``evidence`` has the runs as its folders, ``signer``
    signs the manifest (None: nobody does)."""

    evidence: EvidenceStore
    signer: Signer | None = None

    def demand_key(self) -> None:
        """Raises `Rejected` where there is a key that cannot sign: before a run begins, not when it ends."""
        if self.signer is not None:
            self.signer.sign(b"")

    def __call__(self, run: ClusterRun, steps: Mapping[str, RunStepRecord]) -> Mapping[str, Any]:
        """See the port."""
        written(self.evidence, run, steps)
        return seal_run(self.evidence, run, steps, self.signer)
