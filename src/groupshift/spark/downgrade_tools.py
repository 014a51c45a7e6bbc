"""Every port of a downgrade's run over the real adapters, opened together and closed together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from groupshift.application.downgrade_work import DowngradeTools
from groupshift.bootstrap.downgrade import cluster_acts, downgrade_views
from groupshift.ports.driver import BrokerReplacement
from groupshift.spark.run_tools import RunPlace, shared


@contextmanager
def open_tools(place: RunPlace, nodes: BrokerReplacement, *, timeout_s: float) -> Iterator[DowngradeTools]:
    """Connections open at first use. Raises `Rejected` for an address or a URL that cannot be used."""
    with ExitStack() as stack:
        views = downgrade_views(place.kafka, timeout_s=timeout_s)
        stack.callback(views.close)
        acts = cluster_acts(place.kafka, timeout_s=timeout_s)
        stack.callback(acts.close)
        yield DowngradeTools(
            views=views,
            cluster=acts,
            **shared(stack, place, nodes, timeout_s),
        )
