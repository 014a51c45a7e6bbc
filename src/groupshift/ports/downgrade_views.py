"""Looking at a whole cluster before its brokers go to an older release."""

from __future__ import annotations

from typing import Protocol

from groupshift.domain.cluster import ClusterView


class DowngradeViews(Protocol):
    """Observes brokers, controllers, features, configurations and groups of one cluster; changes nothing.

    Raises `Transient` when a broker does not answer within the bounded retries (its groups would be
    missing), `Rejected` when credentials are refused or a broker is too old. A controller that does not
    answer is a part of the view."""

    def look(self) -> ClusterView:
        """The cluster now."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
