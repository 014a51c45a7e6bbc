"""Counting the groups of each broker, by what it lists and by what it publishes of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from groupshift.domain.protocol.counts import Counts, GaugedBroker


class GroupLists(Protocol):
    """Lists the groups of every broker of one Kafka cluster."""

    def count(self) -> Mapping[int, Counts]:
        """By node id. Raises `Transient` when a broker does not answer within the bounded retries (it would
        hide its groups), `Rejected` when credentials are refused."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class CoordinatorGauges(Protocol):
    """Reads the metrics of a broker's group coordinator where it publishes them."""

    def read(self, address: str) -> GaugedBroker:
        """Of the broker whose metrics are at ``address`` (host:port).

        Raises `Rejected` for an address that is none, or of no broker, and without what it needs to read
        them; `Transient` when nobody answers there in time."""
        ...
