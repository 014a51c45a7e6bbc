"""The report of a run of any move that changes a cluster, and its first lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupshift.application.run_accounts import account_of
from groupshift.domain.seal import StoredFile
from groupshift.ports.journal import ClusterRun, RunStepRecord
from groupshift.spark.account.headline import Headline
from groupshift.spark.downgrade_report import document as downgrade
from groupshift.spark.downgrade_report.headline import headline as downgrade_headline
from groupshift.spark.expansion_report import document as expansion
from groupshift.spark.expansion_report.headline import headline as expansion_headline


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pages:
    render: Callable[[Any, Sequence[StoredFile]], str]
    headline: Callable[[Any], Headline]


_PAGES: Mapping[str, _Pages] = {
    "downgrade": _Pages(render=downgrade.render, headline=downgrade_headline),
    "expansion": _Pages(render=expansion.render, headline=expansion_headline),
}
"""By the name of the move."""


def page_of(run: ClusterRun, steps: Mapping[str, RunStepRecord], files: Sequence[StoredFile] = ()) -> str:
    """The HTML document, which needs nothing besides itself; ``files`` are those of the run's evidence.
    Raises as `account_of`."""
    account = account_of(run, steps)
    return _PAGES[run.move].render(account, files)


def headline_of(run: ClusterRun, steps: Mapping[str, RunStepRecord]) -> Headline:
    """What the journal says of it, in a word and a sentence. Raises as `account_of`."""
    account = account_of(run, steps)
    return _PAGES[run.move].headline(account)
