"""What the steps of a downgrade work with, and the three parts of each: intend, act, read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupshift.application.downgrade import DowngradeRequest, look_at
from groupshift.domain.downgrade.facts import DowngradeFacts
from groupshift.domain.downgrade.progress import Seen
from groupshift.domain.downgrade.releases import target_of
from groupshift.domain.downgrade.run_plan import RunAct, RunPlan, RunStep
from groupshift.domain.hazards.versions import Version
from groupshift.ports.broker_replacement import BrokerReplacement
from groupshift.ports.clock import Clock
from groupshift.ports.cluster_acts import ClusterActs
from groupshift.ports.cluster_runs import ClusterRuns, RunStepRecord
from groupshift.ports.crash import NoStepCrash, StepCrashPoints
from groupshift.ports.downgrade_views import DowngradeViews
from groupshift.ports.group_snapshots import ClusterSnapshotStore, GroupSnapshots
from groupshift.ports.log_copies import OffsetsLog
from groupshift.ports.snapshot_compare import SnapshotCompare


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeTools:
    """Every port that a run needs; ``evidence`` is the folder below which snapshots are kept."""

    views: DowngradeViews
    cluster: ClusterActs
    log: OffsetsLog
    reader: GroupSnapshots
    store: ClusterSnapshotStore
    compare: SnapshotCompare
    nodes: BrokerReplacement
    runs: ClusterRuns
    clock: Clock
    evidence: Path
    crash: StepCrashPoints = field(default_factory=NoStepCrash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody is asked to approve: the run, the hash of its plan, and the step that asks."""

    run: str
    plan: RunPlan
    step: RunStep


def _silent(_step: RunStep, _detail: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """How this process goes on: who answers (None: nobody can now), whether somebody says that what the run
    waits for was seen (``seen``; only where nothing else can tell), how long a step may take
    (``patience_s``) and how often it is looked at, and who is told. ``acts`` are the kinds of steps that it
    does; it pauses before the first other one."""

    decide: Callable[[Question], bool | None]
    who: str
    seen: bool = False
    patience_s: float = 1800.0
    every_s: float = 2.0
    told: Callable[[RunStep, str], None] = _silent
    acts: frozenset[RunAct] = frozenset(RunAct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One claim of one run."""

    tools: DowngradeTools
    terms: RunTerms
    plan: RunPlan
    run: str
    token: int

    @property
    def request(self) -> DowngradeRequest:
        """What the plan was made for."""
        target = target_of(self.plan.release, self.plan.coordinator)
        return DowngradeRequest(target=target, said=Version.parse(self.plan.now))

    def facts(self) -> DowngradeFacts:
        """Cluster and log now. Raises as `assess_downgrade`."""
        return look_at(self.tools.views, self.tools.log, self.request)

    def result_of(self, subject: str) -> Mapping[str, Any]:
        """What the latest step of this subject came to; empty when it is not done."""
        records = self.tools.runs.steps(self.run)
        found = [
            records[each.key] for each in self.plan.steps if each.subject == subject and each.key in records
        ]
        return found[-1].result if found else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What reading a step back came to: in words, and what of it is journaled beside the act's result."""

    seen: Seen
    detail: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


HOLDS = Look(seen=Seen.HOLDS)


def _no_intent(_work: Work, _step: RunStep) -> Mapping[str, Any]:
    return {}


def _no_act(_work: Work, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """How one kind of step is done. ``intend`` gives what is met, which is journaled before anything is
    changed; ``act`` looks first, so that it may be repeated, and gives a first result; ``read_back`` looks
    once."""

    intend: Callable[[Work, RunStep], Mapping[str, Any]] = _no_intent
    act: Callable[[Work, RunStep, Mapping[str, Any]], Mapping[str, Any]] = _no_act
    read_back: Callable[[Work, RunStep, RunStepRecord], Look]
