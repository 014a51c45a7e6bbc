"""What the rules of a downgrade look at."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.cluster import BrokerView, ClusterView
from groupshift.domain.downgrade.inventory import Inventory, inventory
from groupshift.domain.downgrade.log import LogFacts
from groupshift.domain.downgrade.path import Current, Path, Standing, path, standing
from groupshift.domain.downgrade.releases import Target
from groupshift.domain.versions import Span, Version
from groupshift.log.releases import Coordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeFacts:
    """A cluster, where its brokers are to go, and its log (None: not read). ``said`` is the release that
    people say the brokers run: within a line brokers tell none. ``brokers_only``: controllers of their own
    keep their release, so what only controllers read is not judged."""

    view: ClusterView
    target: Target
    log: LogFacts | None = None
    said: Version | None = None
    brokers_only: bool = False

    @property
    def groups(self) -> Inventory:
        """All groups, by every broker and by the log."""
        return inventory(self.view, None if self.log is None else self.log.groups)

    def version(self, broker: BrokerView) -> Version | Span | None:
        """What is known of a broker's release: what was said, where it fits what the broker tells."""
        if self.said is None:
            return broker.line
        return self.said if broker.line is None or broker.line.holds(self.said) else broker.line

    @property
    def standings(self) -> dict[int, Standing]:
        """Where the target stands to each broker, by node id."""
        return {
            broker.node_id: standing(self.version(broker), broker.coordinator, self.target)
            for broker in self.view.brokers
        }

    @property
    def path(self) -> Path:
        """The way of the newest broker, with the features and the log of all."""
        newest = max(self.view.brokers, key=_rank, default=BrokerView(node_id=-1))
        return path(
            Current(
                version=self.version(newest),
                coordinator=newest.coordinator,
                features=self.view.finalised,
                new_types=None if self.log is None else bool(self.log.new_types),
                commits=None if self.log is None else self.log.commits,
            ),
            self.target,
        )

    @property
    def controllers(self) -> tuple[int, ...]:
        """Voters of the metadata quorum that serve no clients."""
        brokers = {broker.node_id for broker in self.view.brokers}
        return tuple(
            node for node in (self.view.quorum.voters if self.view.quorum else ()) if node not in brokers
        )

    @property
    def serves_consumers(self) -> bool:
        """Whether the target serves groups of type consumer as the current release does: from 4.0 on."""
        return self.target.line.supports("group.version") > 0 and self.target.coordinator is Coordinator.NEW


def _rank(broker: BrokerView) -> tuple[int, int]:
    return broker.supported.get("metadata.version", (0, 0))[1], broker.coordinator is Coordinator.NEW
