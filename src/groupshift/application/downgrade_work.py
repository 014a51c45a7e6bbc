"""What the steps of a downgrade work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_plan import RunPlan, met
from groupshift.application.run_work import RunTools, RunWork
from groupshift.domain.versions import Version
from groupshift.moves.downgrade.facts import DowngradeFacts
from groupshift.moves.downgrade.releases import target_of
from groupshift.moves.downgrade.views import look_at
from groupshift.ports.changes import ClusterActs
from groupshift.ports.cluster import DowngradeViews


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeTools(RunTools):
    """Every port that a downgrade needs."""

    views: DowngradeViews
    cluster: ClusterActs


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(RunWork):
    """One claim of the run of a downgrade."""

    tools: DowngradeTools
    plan: RunPlan

    @property
    def request(self) -> DowngradeRequest:
        """What the plan was made for."""
        target = target_of(self.plan.release, self.plan.coordinator)
        said = Version.parse(self.plan.now)
        return DowngradeRequest(target=target, said=said, brokers_only=self.plan.brokers_only)

    def facts(self) -> DowngradeFacts:
        """Cluster and log now. Raises as `assess_downgrade`."""
        return look_at(self.tools.views, self.tools.log, self.request)

    def met_now(self) -> Mapping[str, str]:
        """See `RunWork`. Raises as `facts`."""
        return met(self.facts())

    def logged(self) -> bool:
        """See `RunWork`."""
        return bool(self.tools.views.look().partitions)

    def commits_go_on(self) -> bool:
        """See `RunWork`."""
        return self.plan.live
