"""The stories of `goldens.cluster_stories`, driven by the one engine: the same acts in the same words.

A golden calls asking and answering one act: here a process that dies there dies when somebody has answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from goldens.cluster_stories import _expansion_ports as expansion_ports
from goldens.cluster_stories import _restarted, _verdict
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import RunState, SparkJob
from groupshift.engine.begin import assess, begin, claim
from groupshift.engine.move import RunOptions, Tools
from groupshift.engine.progress import Progress, Stopped
from groupshift.engine.questions_and_approvers import Answer, Question
from groupshift.engine.roll_back import begin_roll_back, require_begun
from groupshift.engine.run import drive
from groupshift.errors import Conflict
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.facts import DowngradeRequest
from groupshift.moves.expansion.facts import ExpansionRequest
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import Entry, RunRecord
from support.driven_moves import Driver, name_of, where
from support.effects import Recorded, Recorder, settings
from support.simulated_downgrade import Killed, World, driver_of, one_of_39, two_of_43
from support.simulated_expansion import committed
from support.simulated_expansion import driver_of as expanding

_SNAPSHOT = re.compile(r"-([A-Z][A-Z0-9]*)-[0-9a-f]{8}-")
_STATES = {
    RunState.REJECTED: "ended",
    RunState.MOVED: "done",
    RunState.FINALISED: "done",
    RunState.ROLLING_BACK: "rolling back",
    RunState.ROLLED_BACK: "rolled back",
}


@dataclass(slots=True)
class KillAt:
    """Records the crash points that are reached, and ends the process at the n-th (0: never), and where the
    act ``before`` is about to be journaled."""

    recorder: Recorder
    name: Callable[[str], str]
    left: int = 0
    before: str = ""

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        act = self.name(step)
        asks = act.removeprefix("back ").startswith("approve ") and point is CrashPoint.AFTER_ACT
        self.at(f"show {act}" if asks else act, point)

    def at(self, act: str, point: CrashPoint) -> None:
        """A point of an act is reached."""
        self.recorder.crash(act, point)
        self.left -= 1
        if self.left == 0 or (self.before and act.startswith(self.before)):
            raise Killed


@dataclass(slots=True)
class Driven:
    """A cluster whose ports are recorded, one process after the other: what a story of
    `goldens.cluster_stories` gets."""

    world: Any
    driver: Driver
    request: Any
    last_act: str
    wrap: Callable[[Any, Recorder], Mapping[str, object]]
    recorder: Recorder = field(default_factory=Recorder)
    no: set[str] = field(default_factory=set)
    at: dict[str, Callable[[], None]] = field(default_factory=dict)
    run: str = ""
    _kill: KillAt | None = None

    def _ports(self) -> Any:
        """The ports as a fresh process has them."""
        ports, recorder = self.driver.ports, self.recorder
        common = {
            "log": Recorded(ports.log, recorder, reads={"read": "offsets log", "position": "offsets log"}),
            "reader": Recorded(ports.reader, recorder, reads={"take": "groups", "committed": "groups"}),
            "store": Recorded(
                ports.store, recorder, reads={"offsets": "snapshots"}, acts={"write": _snapshot_taken}
            ),
            "commits": Recorded(ports.commits, recorder, reads={"read": "kept commits"}),
            "nodes": Recorded(ports.nodes, recorder, reads={"observe": "nodes"}, acts={"start": _restarted}),
            "views": Recorded(ports.views, recorder, reads={"look": "brokers"}),
        }
        return replace(ports, **common, **self.wrap(ports, recorder))

    def _tools(self, kill: KillAt) -> Tools:
        runs = Recorded(self.driver.runs, self.recorder, acts={"append": _state_of})
        return replace(self.driver.tools(kill), runs=runs)

    def _options(self) -> RunOptions:
        submit = Recorded(self.driver.comparisons.submit, self.recorder, acts={"__call__": self._compared})
        return self.driver.options(decide=self._decide, submit=submit)

    def _compared(self, _result: object, job: SparkJob) -> str:
        before, after = (_named(Path(each)) for each in job.arguments[:2])
        live = ", live" if "--live" in job.arguments else ""
        found = self.driver.comparisons.left.get(job.output)
        return f"compare {before} with {after}{live}: {_verdict(found)}"

    def begin(self) -> RunRecord:
        """A run of the plan for this cluster."""
        ports, tools, options = self._ports(), self._tools(self._killing()), self._options()
        move = self.driver.move
        _, findings = assess(move, tools, ports, self.request)
        rules = {finding.rule: finding.verdict.value for finding in reversed(findings)}
        self.recorder.did("assess and plan", rules=rules)
        found = begin(move, tools, ports, self.request, options, execute=True)
        self.run = found.run
        return found

    def _killing(self, kill_at: int = 0, before: str = "") -> KillAt:
        @cache  # of one process, in which no other rollback begins
        def name(step: str) -> str:
            return name_of(self.driver.runs, self.run, step)

        self._kill = KillAt(self.recorder, name, kill_at, before)
        return self._kill

    def go_on(self, run: RunRecord, kill_at: int = 0, before: str = "") -> Progress:
        """One process, until it stops or is killed."""
        record = self.driver.runs.find(run.run)
        _require_walked(record)
        tools = self._tools(self._killing(kill_at, before))
        claimed = claim(self.driver.move, tools, self._ports(), record, self._options(), take_over=True)
        progress = drive(claimed)
        if isinstance(progress, Stopped):
            at = name_of(self.driver.runs, run.run, progress.step.key)
            self.recorder.did(f"stop at {at}: {where(progress)[0]}")
        return progress

    def turn_back(self, run: RunRecord) -> None:
        """From now on the run goes back."""
        record = self.driver.runs.find(run.run)
        require_begun(record)
        tools = self._tools(self._killing())
        claimed = claim(self.driver.move, tools, self._ports(), record, self._options(), take_over=True)
        begin_roll_back(claimed, "start")

    def take_over(self, run: RunRecord) -> None:
        """Another process claims the run."""
        self.driver.runs.claim(run.run, "another", 1, anew=True, take_over=True)

    def latest(self) -> RunRecord:
        """The run that was begun last."""
        return self.driver.runs.recent(1)[0]

    def _decide(self, question: Question) -> Answer | None:
        act = name_of(self.driver.runs, question.run, question.gate)
        subject = question.gate.rpartition(" ")[2]
        wanted = Choice.REJECT if subject in self.no else Choice.APPROVE
        choice = wanted if wanted in question.answers else Choice.STOP
        self.recorder.did(f"{subject} gate: {choice.value}")
        self.at.pop(subject, lambda: None)()
        assert self._kill is not None
        self._kill.at(act, CrashPoint.AFTER_ACT)
        return Answer(choice=choice, who="me", fingerprint=question.fingerprint)


def _named(folder: Path) -> str:
    """The name of the snapshot that lies in a folder of a run."""
    found = _SNAPSHOT.search(folder.name)
    assert found is not None, folder
    return found[1]


def _snapshot_taken(_result: object, folder: Path, *_rest: object) -> str:
    return f"snapshot {_named(folder)}"


def _state_of(_result: object, entry: Entry) -> str | None:
    return f"run is {_STATES[entry.state]}" if entry.state in _STATES else None


def _downgrade_ports(ports: Any, recorder: Recorder) -> Mapping[str, object]:
    reads = {"topic_configs": "topic settings", "churning": "groups", "lacks": "brokers"}
    acts = {
        "convert_empty": lambda _, group: f"convert empty group {group}",
        "configure_topic": lambda _, values: f"configure the offsets topic: {settings(values)}",
        "force_compaction": lambda _: "force compaction",
        "remove_churn": lambda _: "delete the groups that forced compaction",
        "configure_group": lambda _, group, values: f"configure group {group}: {settings(values)}",
        "lower_feature": lambda _, feature, level: f"lower {feature} to {level}",
        "raise_feature": lambda _, feature, level: f"raise {feature} to {level}",
    }
    return {"cluster": Recorded(ports.cluster, recorder, reads=reads, acts=acts)}


def _downgrade(world: World, to: str, now: str) -> Driven:
    return Driven(
        world=world,
        driver=driver_of(world),
        request=DowngradeRequest(to=to, from_=now),
        last_act="replace 1",
        wrap=_downgrade_ports,
    )


def from_43() -> Driven:
    """Two nodes of 4.3.1, to 3.9.2."""
    return _downgrade(two_of_43(), "3.9.2", "4.3.1")


def from_39() -> Driven:
    """One node of 3.9.2, to 3.4.0: the log has to be compacted."""
    return _downgrade(one_of_39(), "3.4.0", "3.9.2")


def _verified(result: Any, snapshot: Path, *_rest: object) -> str:
    return f"compare {_named(snapshot)} with the offsets log: {_verdict(result)}"


def _expansion_ports(ports: Any, recorder: Recorder) -> Mapping[str, object]:
    verify = Recorded(ports.verify, recorder, acts={"__call__": _verified})
    return {**expansion_ports(ports, recorder), "verify": verify}


def expansion(kind: Coordinator = Coordinator.NEW, to: int = 8) -> Driven:
    """A cluster with 24 groups whose offsets topic has 5 partitions, with a plan for more."""
    world = committed(kind)
    return Driven(
        world=world,
        driver=expanding(world),
        request=ExpansionRequest(to=to),
        last_act="create-partitions",
        wrap=_expansion_ports,
    )


def _require_walked(record: RunRecord) -> None:
    """Raise `Conflict` for a run that is over before it began, as the goldens have it; `groupshift continue`
    looks first, too: it shows one that was rejected and refuses a preview."""
    if record.state in {RunState.REJECTED, RunState.PREVIEW}:
        raise Conflict(f"run {record.run} is {record.state}")
