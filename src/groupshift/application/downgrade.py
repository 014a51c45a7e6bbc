"""A downgrade of brokers without acting: is the way open, what is in it, and which steps lead there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupshift.domain.cluster import ClusterView
from groupshift.domain.judgement import Judgement
from groupshift.domain.verdict import Verdict
from groupshift.domain.versions import Version
from groupshift.moves.downgrade.facts import Inventory
from groupshift.moves.downgrade.plan import DowngradeStep, steps
from groupshift.moves.downgrade.releases import Path, Target
from groupshift.moves.downgrade.rules import ask
from groupshift.moves.downgrade.views import look_at
from groupshift.ports.cluster import DowngradeViews
from groupshift.ports.log import LogProgress, OffsetsLog


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeRequest:
    """Where the brokers are to go, what people say they run now (None: as far as the brokers tell), and
    whether the log is a copy; ``brokers_only``: controllers of their own keep their release."""

    target: Target
    said: Version | None = None
    copied: bool = False
    brokers_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeAssessment:
    """The cluster as read, its groups, the way as features and log leave it, the plan, and every finding."""

    view: ClusterView
    groups: Inventory
    path: Path
    steps: tuple[DowngradeStep, ...]
    judgement: Judgement
    records: int | None = None
    new_types: Mapping[int, int] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """True when no rule failed and every rule could be measured (inconclusive is a warning)."""
        return self.judgement.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}


def assess_downgrade(
    views: DowngradeViews, log: OffsetsLog | None, asked: DowngradeRequest, told: LogProgress | None = None
) -> DowngradeAssessment:
    """Look at the cluster, then read the whole log of the offsets topic; nothing is changed.

    ``log`` None leaves the rules that need it unmeasured. Raises as `DowngradeViews.look` and
    `OffsetsLog.read`, and `Rejected` for a log of more partitions than the topic has."""
    facts = look_at(views, log, asked, told)
    read = facts.log
    return DowngradeAssessment(
        view=facts.view,
        groups=facts.groups,
        path=facts.path,
        steps=steps(facts),
        judgement=Judgement(findings=ask(facts)),
        records=None if read is None else read.records,
        new_types={} if read is None else read.new_types,
    )
