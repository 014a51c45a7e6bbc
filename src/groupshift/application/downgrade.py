"""A downgrade of brokers without acting: is the way open, what is in it, and which steps lead there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from groupshift.domain.cluster import ClusterView
from groupshift.domain.judgement import Judgement
from groupshift.domain.verdict import Verdict
from groupshift.domain.versions import Version
from groupshift.errors import Rejected
from groupshift.log import Decoded, LogRecord, decode
from groupshift.moves.downgrade.facts import DowngradeFacts, Inventory, LogFacts, log_facts
from groupshift.moves.downgrade.plan import DowngradeStep, steps
from groupshift.moves.downgrade.releases import Path, Target
from groupshift.moves.downgrade.rules import ask
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


def look_at(
    views: DowngradeViews, log: OffsetsLog | None, asked: DowngradeRequest, told: LogProgress | None = None
) -> DowngradeFacts:
    """What the rules look at: the cluster, then its log. Raises as `assess_downgrade`."""
    view = views.look()
    read = None if log is None else _log(log, view, asked, told)
    return DowngradeFacts(
        view=view, target=asked.target, log=read, said=asked.said, brokers_only=asked.brokers_only
    )


def _log(log: OffsetsLog, view: ClusterView, asked: DowngradeRequest, told: LogProgress | None) -> LogFacts:
    if not view.partitions and not asked.copied:
        return LogFacts()
    end = log.position()
    odd = sorted(set(end) ^ set(range(view.partitions)))
    if odd:
        raise Rejected(
            f"the log has other partitions of __consumer_offsets than the {view.partitions} of the cluster "
            "(first: "
            f"{odd[0]}); give a copy of all of them"
        )
    return log_facts(_decoded(log.read(end, None, told), view.partitions), asked.target)


def _decoded(records: Iterable[LogRecord], partitions: int) -> Iterator[Decoded]:
    return (decode(each, partitions=partitions) for each in records)
