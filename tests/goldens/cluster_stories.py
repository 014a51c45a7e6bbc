"""What is recorded of moves of a whole cluster: downgrade and expansion, over simulated brokers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groupshift.application import expansion_run
from groupshift.application.run_engine import RunOutcome
from groupshift.domain.group_protocol import Kind
from groupshift.domain.rows import OffsetRow
from groupshift.errors import GroupshiftError
from groupshift.log.releases import Coordinator
from groupshift.ports.clock import CrashPoint
from groupshift.ports.driver import ForPerson, Replacement
from groupshift.ports.journal import ClusterRun, RunState
from support.effects import Recorded, Recorder, another, names, settings
from support.simulated_downgrade import Group, Killed, World, yes
from support.simulated_expansion import Expansible, committed
from support.simulated_expansion import tools_of as expanding

CRASHES = 1000
"""More crash points than a story has."""


@dataclass(slots=True)
class KillAt:
    """Records the crash points that are reached, and ends the process at the n-th (0: never), and where the
    act ``before`` is about to be journaled."""

    recorder: Recorder
    left: int = 0
    before: str = ""

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        act = _unnumbered(step)
        self.recorder.crash(act, point)
        self.left -= 1
        if self.left == 0 or (self.before and act.startswith(self.before)):
            raise Killed


@dataclass(slots=True)
class Told:
    """A cluster whose ports are recorded, one process after the other; ``no`` are the approvals that are
    refused, by what they are about, ``terms`` those of a process that are not the usual ones."""

    move: Any
    world: Any
    tools: Any
    make_plan: Callable[[Any], Any]
    recorder: Recorder = field(default_factory=Recorder)
    no: set[str] = field(default_factory=set)
    at: dict[str, Callable[[], None]] = field(default_factory=dict)
    terms: Mapping[str, object] = field(default_factory=dict)

    def recorded(self, kill_at: int = 0, before: str = "") -> Any:
        """The ports as a fresh process has them."""
        tools, recorder = self.tools, self.recorder
        common = {
            "log": Recorded(tools.log, recorder, reads={"read": "offsets log", "position": "offsets log"}),
            "reader": Recorded(tools.reader, recorder, reads={"take": "groups", "committed": "groups"}),
            "store": Recorded(
                tools.store, recorder, reads={"offsets": "snapshots"}, acts={"write": _snapshot_taken}
            ),
            "compare": Recorded(tools.compare, recorder, acts={"__call__": _compared}),
            "commits": Recorded(tools.commits, recorder, reads={"read": "kept commits"}),
            "nodes": Recorded(tools.nodes, recorder, reads={"observe": "nodes"}, acts={"start": _restarted}),
            "runs": Recorded(tools.runs, recorder, acts={"move": _ended}),
            "views": Recorded(tools.views, recorder, reads={"look": "brokers"}),
            "crash": KillAt(recorder, kill_at, before),
        }
        return replace(tools, **common, **_OWN[self.move](tools, recorder))

    def begin(self) -> ClusterRun:
        """A run of the plan for this cluster."""
        tools = self.recorded()
        planned = self.make_plan(tools)
        rules = {finding.rule: finding.verdict.value for finding in reversed(planned.findings)}
        self.recorder.did("assess and plan", rules=rules)
        return self.move.begin(tools, planned)

    def go_on(self, run: ClusterRun, kill_at: int = 0, before: str = "") -> RunOutcome:
        """One process, until it stops or is killed."""
        tools = self.recorded(kill_at, before)
        terms = yes(decide=self._decide, **self.terms)
        outcome = self.move.go_on(tools, terms, tools.runs.find(run.run))
        if outcome.step:
            self.recorder.did(f"stop at {_unnumbered(outcome.step)}: {outcome.ended.value}")
        return outcome

    def turn_back(self, run: ClusterRun) -> None:
        """From now on the run goes back."""
        tools = self.recorded()
        self.move.turn_back(tools, yes(), tools.runs.find(run.run))

    def take_over(self, run: Any) -> None:
        """Another process claims the run."""
        self.tools.runs.claim(run.run, "another", 1)

    def latest(self) -> Any:
        """The run that was begun last."""
        return self.tools.runs.recent(1)[0]

    @property
    def last_act(self) -> str:
        """The last act that can be undone."""
        return LAST[self.move]

    def _decide(self, question: Any) -> bool:
        subject = question.step.subject
        answer = subject not in self.no
        self.recorder.did(f"{subject} gate: {'approve' if answer else 'reject'}")
        self.at.pop(subject, lambda: None)()
        return answer


def _restarted(result: object, replacement: Replacement) -> str:
    wanted = f"broker {replacement.node_id} with release {replacement.release}"
    told = settings(replacement.properties) if replacement.properties else "its own settings"
    how = "ask a person to restart" if isinstance(result, ForPerson) else "restart"
    return f"{how} {wanted}, coordinator {replacement.coordinator}, {told}"


def _unnumbered(step: str) -> str:
    return re.sub(r"\b\d\d ", "", step)


def _taken(folder: Path) -> str:
    """The name of a snapshot; the claim that took it is behind its last dash."""
    return folder.name.rpartition("-")[0]


def _snapshot_taken(_result: object, folder: Path, *_rest: object) -> str:
    return f"snapshot {_taken(folder)}"


def _verdict(found: Any) -> str:
    """The verdict of a comparison, and the rules that it names."""
    if found is None:
        return "nothing"
    rules = {rule for reason in found.reasons for rule in re.findall(r"\b[A-Z]{1,2}\d\d\b", reason)}
    return " ".join((found.verdict.value, *sorted(rules)))


def _compared(result: Any, before: Path, after: Path, *_rest: object, live: bool) -> str:
    return f"compare {_taken(before)} with {_taken(after)}{', live' if live else ''}: {_verdict(result)}"


def _verified(result: Any, snapshot: Path, *_rest: object) -> str:
    return f"compare {_taken(snapshot)} with the offsets log: {_verdict(result)}"


_STATES = {
    RunState.OPEN: "open",
    RunState.ENDED: "ended",
    RunState.DONE: "done",
    RunState.GOING_BACK: "rolling back",
    RunState.TAKEN_BACK: "rolled back",
}


def _ended(_result: object, _run: str, _token: int, state: RunState, _at_ms: int) -> str:
    return f"run is {_STATES[state]}"


def _rows(rows: Iterable[OffsetRow]) -> str:
    found = sorted(f"{row.group} {row.topic}-{row.partition}={row.offset}" for row in rows)
    return names(found)


def _expansion_ports(tools: Any, recorder: Recorder) -> Mapping[str, object]:
    def deleted(_result: object, groups: Collection[str], *_hold: object) -> str:
        return f"delete groups {names(sorted(groups))}"

    def committed_rows(call: Callable[..., Any]) -> Callable[..., Any]:
        def commit(rows: Iterable[OffsetRow]) -> Any:
            kept = list(rows)
            return call(kept)

        return commit

    class Restoring:
        """Rows may come one by one."""

        commit = staticmethod(committed_rows(tools.restoring.commit))
        delete = staticmethod(tools.restoring.delete)
        close = staticmethod(getattr(tools.restoring, "close", lambda: None))

    topic = Recorded(
        tools.topic,
        recorder,
        reads={"check": "controller", "lacks": "brokers", "cluster_lacks": "brokers"},
        acts={"expand": lambda _, count: f"expand the offsets topic to {count} partitions"},
    )
    restoring = Recorded(
        Restoring,
        recorder,
        acts={"commit": lambda _, rows: f"commit {_rows(rows)}", "delete": deleted},
    )
    verify = Recorded(tools.verify, recorder, acts={"__call__": _verified})
    return {"topic": topic, "restoring": restoring, "verify": verify}


LAST = {expansion_run: "create-partitions"}
"""The last act of each that can be undone, as a crash point names it."""
_OWN = {expansion_run: _expansion_ports}


def expansion(kind: Coordinator = Coordinator.NEW, to: int = 8) -> Told:
    """A cluster with 24 groups whose offsets topic has 5 partitions, with a plan for more."""
    world: Expansible = committed(kind)
    return Told(
        move=expansion_run,
        world=world,
        tools=expanding(world),
        make_plan=lambda tools: expansion_run.plan_run(tools, to),
    )


FROM_43, FROM_39 = "two nodes of 4.3.1", "one node of 3.9.2"
"""The clusters of downgrades (`goldens.driven_stories`): to 3.9.2, and to 3.4.0, where the log has to be
compacted."""


def told_refusal(told: Told, call: Callable[[], object]) -> None:
    """A call that is expected to be refused."""
    try:
        call()
    except GroupshiftError as refused:
        told.recorder.refused(refused)


Story = Callable[[Told], None]


def there(told: Told) -> None:
    """All the way."""
    told.go_on(told.begin())


def back_from(subject: str) -> Story:
    """As far as an approval that is refused, and back."""

    def story(told: Told) -> None:
        told.no = {subject}
        run = told.begin()
        told.go_on(run)
        told.no = set()
        told_refusal(told, lambda: told.turn_back(run))
        told.go_on(run)

    return story


def _prepared(prepare: Callable[[Any], None], then: Story = there) -> Story:
    def story(told: Told) -> None:
        prepare(told.world)
        told_refusal(told, lambda: then(told))

    return story


def _failed_and_back(prepare: Callable[[Any], None], repair: Callable[[Any], None]) -> Story:
    def story(told: Told) -> None:
        prepare(told.world)
        run = told.begin()
        told.go_on(run)
        repair(told.world)
        told_refusal(told, lambda: told.turn_back(run))
        told.go_on(run)

    return story


def _taken_over(told: Told) -> None:
    run = told.begin()

    told.at["plan"] = lambda: told.take_over(run)
    told_refusal(told, lambda: told.go_on(run))


def _dies(world: Any) -> None:
    world.dies = {2}


def _loses(world: World) -> None:
    world.lose = {"simple"}


def _has_members(world: World) -> None:
    world.groups["busy"] = Group(kind=Kind.CONSUMER, members=2)


def _shares(world: World) -> None:
    world.groups["shared"] = Group(kind=Kind.SHARE, members=1)


def _restarts_skipped(world: Expansible) -> None:
    world.unset = {3}


def _commits_refused(world: Expansible) -> None:
    world.uncommitted = {"g1": "GROUP_AUTHORIZATION_FAILED (30)"}


def _nothing(_world: object) -> None:
    """As it is."""


def turned_back(told: Told, before: str = "") -> None:
    """Killed when everything but the last act that can be undone is done (``before``: another act); it goes
    back when gone on with."""
    run = told.begin()
    with suppress(Killed):
        told.go_on(run, before=before or told.last_act)
    told.turn_back(run)


def there_and_back(told: Told, before: str = "") -> None:
    """As `turned_back`, and all the way back."""
    turned_back(told, before)
    told.go_on(told.latest())


def _killed_and_changed(before: str, change: Callable[[Any], None]) -> Story:
    """Killed when this act is about to be journaled; before somebody goes on, the cluster changes."""

    def story(told: Told) -> None:
        run = told.begin()
        with suppress(Killed):
            told.go_on(run, before=before)
        told.recorder.did(f"killed before {before}, and the cluster changes")
        change(told.world)
        told_refusal(told, lambda: told.go_on(run))

    return story


def _no_way_back(told: Told) -> None:
    run = told.begin()
    with suppress(Killed):
        told.go_on(run, before="restart")
    told_refusal(told, lambda: told.turn_back(run))
    told.go_on(run)


DOWNGRADE: dict[str, tuple[str, Story]] = {
    "from 4.3.1 to 3.9.2": (FROM_43, there),
    "from 3.9.2 to 3.4.0": (FROM_39, there),
    "killed before the last broker, and back": (FROM_43, there_and_back),
    "plan is rejected": (FROM_43, _prepared(_nothing, back_from("plan"))),
    "what only goes forward is rejected, and back": (FROM_39, back_from("forward-only")),
    "a group is lost, and back": (FROM_43, _failed_and_back(_loses, lambda world: world.lose.clear())),
    "a broker dies, and back": (FROM_43, _failed_and_back(_dies, lambda world: world.dies.clear())),
    "a group has members": (FROM_43, _prepared(_has_members)),
    "a share group is there": (FROM_43, _prepared(_shares)),
    "a driver that only instructs": (FROM_43, _prepared(lambda world: setattr(world, "knows", False))),
    "another process takes over": (FROM_43, _taken_over),
    "a group gets members before the feature is lowered": (
        FROM_43,
        _killed_and_changed("lower", _has_members),
    ),
    "a share group comes before the first broker": (FROM_43, _killed_and_changed("replace", _shares)),
}
"""Downgrades, by what happens."""

EXPANSION: dict[str, tuple[Callable[[], Told], Story]] = {
    "from 5 to 8 partitions, new coordinators": (expansion, there),
    "from 5 to 8 partitions, old coordinators": (lambda: expansion(Coordinator.OLD), there),
    "killed before partitions are made, and back": (expansion, there_and_back),
    "killed after partitions were made, and the rollback is closed": (expansion, _no_way_back),
    "plan is rejected": (expansion, _prepared(_nothing, back_from("plan"))),
    "a group has members": (expansion, _prepared(lambda world: world.members.add("g3"))),
    "commits are refused, and back": (
        expansion,
        _failed_and_back(_commits_refused, lambda world: world.uncommitted.clear()),
    ),
    "a broker dies, and the rollback is closed": (
        expansion,
        _failed_and_back(_dies, lambda world: world.dies.clear()),
    ),
    "the controller refuses": (expansion, _prepared(lambda world: setattr(world, "refuses", "no"))),
    "a file keeps the former count": (expansion, _prepared(_restarts_skipped)),
    "a driver that only instructs": (expansion, _prepared(lambda world: setattr(world, "knows", False))),
    "another process takes over": (expansion, _taken_over),
    "somebody commits before groups are deleted": (
        expansion,
        _killed_and_changed("delete-groups", lambda world: world.commit_as_client("g4", 999, 1)),
    ),
    "somebody commits before the groups are restored": (
        expansion,
        _killed_and_changed("restore", lambda world: world.commit_as_client("g4", 999, 1)),
    ),
}
"""Expansions, by what happens."""


def killed(make: Callable[[], Told], walk: Story = there) -> dict[str, list[str]]:
    """What was done in all, by the crash point at which the first process ended; the second goes on.
    ``walk`` begins a run and brings it to where it is killed next."""
    found: dict[str, list[str]] = {}
    for number in range(1, CRASHES):
        told = make()
        run = _walked(told, walk)
        told.recorder.lines.clear()
        try:
            told.go_on(run, kill_at=number)
        except Killed:
            at = told.recorder.last_crash
            told.go_on(run)
            found[another(at, found)] = [line["do"] for line in told.recorder.lines]
        else:
            break
    return found


def _walked(told: Told, walk: Story) -> ClusterRun:
    if walk is there:
        return told.begin()
    walk(told)
    return told.latest()
