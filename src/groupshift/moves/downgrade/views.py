"""Looks at a cluster and its log, as the rules of a downgrade need them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from groupshift.domain.cluster import ClusterView
from groupshift.domain.versions import Version
from groupshift.errors import Rejected
from groupshift.log import Decoded, LogRecord, decode
from groupshift.moves.downgrade.facts import DowngradeFacts, LogFacts, log_facts
from groupshift.moves.downgrade.releases import Target
from groupshift.ports.cluster import DowngradeViews
from groupshift.ports.log import LogProgress, OffsetsLog


class Wanted(Protocol):
    """What of a request decides what is looked at."""

    @property
    def target(self) -> Target:
        """The release to go to."""

    @property
    def said(self) -> Version | None:
        """What people say the brokers run, None where nobody does."""

    @property
    def brokers_only(self) -> bool:
        """Whether controllers of their own keep their release."""

    @property
    def copied(self) -> bool:
        """Whether the log is a copy: of a cluster that may have no offsets topic."""


def look_at(
    views: DowngradeViews, log: OffsetsLog | None, request: Wanted, told: LogProgress | None = None
) -> DowngradeFacts:
    """Return what the rules look at: the cluster, then its log (None: not read).

    Raises as the ports, and `Rejected` for a log of more partitions than the topic has."""
    view = views.look()
    return DowngradeFacts(
        view=view,
        target=request.target,
        log=None if log is None else _log(log, view, request, told),
        said=request.said,
        brokers_only=request.brokers_only,
    )


def _log(log: OffsetsLog, view: ClusterView, request: Wanted, told: LogProgress | None) -> LogFacts:
    if not view.partitions and not request.copied:
        return LogFacts()
    end = log.position()
    odd = sorted(set(end) ^ set(range(view.partitions)))
    if odd:
        raise Rejected(
            f"the log has other partitions of __consumer_offsets than the {view.partitions} of the cluster "
            f"(first: {odd[0]}); give a copy of all of them"
        )
    return log_facts(_decoded(log.read(end, None, told), view.partitions), request.target)


def _decoded(records: Iterable[LogRecord], partitions: int) -> Iterator[Decoded]:
    return (decode(each, partitions=partitions) for each in records)
