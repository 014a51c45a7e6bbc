"""Reading groups: one immutable view of ZooKeeper and Kafka together."""

from __future__ import annotations

from typing import Protocol

from groupshift.domain.group import GroupView


class GroupReader(Protocol):
    """Observes groups and never changes anything.

    Raises `Transient` when ZooKeeper or Kafka does not answer within the bounded retries (the
    sentence names which and at what address), `Rejected` when credentials are refused. A node that
    cannot be parsed is an entry of `GroupView.problems`, not an error.
    """

    def read(self, group: str) -> GroupView:
        """The group now. ``ids`` and ``migration/ids`` come from one consistent view (D5): sync,
        list both, re-check the first's pzxid, repeat until unchanged."""
        ...
