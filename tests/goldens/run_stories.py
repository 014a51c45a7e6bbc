"""Stories of `goldens.group_stories`, driven by the one engine, and recorded in the same words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from groupshift.domain.group_protocol import Protocol
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import Plan, SparkJob, Step, plan_from
from groupshift.domain.verdict import Verdict, worst
from groupshift.engine.begin import assess
from groupshift.engine.progress import Progress, Stopped
from groupshift.engine.replace_members import REPLACE_MEMBERS
from groupshift.errors import GroupshiftError
from groupshift.moves.protocol.facts import ProtocolPorts
from groupshift.ports.clock import CrashPoint
from groupshift.ports.driver import Change
from groupshift.ports.group import BrokerSide, GroupSide
from groupshift.ports.runs import Entry, EventKind, NewEvent
from groupshift_testing.world import Killed
from support.effects import Recorded, Recorder, another, names
from support.simulated_protocol import make_protocol_group
from support.simulated_runs import Processes

CRASHES = 400
_BAD = frozenset({Verdict.FAIL, Verdict.ERROR})


@dataclass(slots=True)
class Recording(Processes):
    """Processes whose ports are recorded; each ends at its own crash point of an act (of a kind in ``acts``),
    if any. ``at`` calls back at crash points: ``"canary after_act"`` of an act, else by the step's name."""

    acts = frozenset({REPLACE_MEMBERS})

    recorder: Recorder = field(default_factory=Recorder)
    kills: Iterator[int] = field(default_factory=lambda: iter(()))
    at: dict[str, Callable[[], None]] = field(default_factory=dict)
    _left: int = 0
    _rollbacks: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The steps of the rollbacks that were begun, by run: its journal is read once for each."""
    _begun: tuple[str, Plan] | None = None
    """The latest run and its plan, read once: a plan does not change."""

    def ports(self) -> Any:
        """See `Processes`."""
        reads = {"slots": "places", "observe": "change of members", "took_up": "change of members"}
        fleet = Recorded(self.fleet, self.recorder, reads=reads, acts={"start": _replaced})
        groups = Recorded(self.world, self.recorder, reads={"read": "group"})
        ledger = {"last_delivered": "ledger", "intervals": "ledger"}
        return ProtocolPorts(
            side=BrokerSide(GroupSide(groups=groups, fleets=lambda _driver: fleet)),
            evidence=Recorded(
                self.evidence, self.recorder, reads={"read": "snapshots"}, acts={"write": self._written}
            ),
            ledger=Recorded(self.world, self.recorder, reads=ledger),
            terms=self.terms,
        )

    def tools(self, crash: Any = None) -> Any:
        """See `Processes`: the journal is recorded, and every process may be killed."""
        del crash
        self._left = next(self.kills, 0)
        made = Processes.tools(self, self)
        recorded = Recorded(self.runs, self.recorder, acts={"append": self._journaled})
        return type(made)(
            runs=recorded, clock=made.clock, crash=self, approvers=made.approvers, seal=made.seal
        )

    def reached(self, key: str, point: CrashPoint) -> None:
        """A crash point was reached; only those of acts end a process."""
        step = self._step(key)
        if step is None or step.kind not in self.acts:
            self.at.pop(f"{step.name if step else key} {point.value}", lambda: None)()
            return
        self.recorder.crash(step.phase, point)
        self.at.pop(f"{step.phase} {point.value}", lambda: None)()
        self._left -= 1
        if self._left == 0:
            raise Killed

    def submit(self, job: SparkJob) -> None:
        """See `Processes`."""
        Processes.submit(self, job)
        self.recorder.did("compare snapshots")

    def terminal(self, progress: Progress) -> None:
        """What a terminal shows of a rollback that failed: the group as it is, and that the run stays open
        (stop is the only answer)."""
        if isinstance(progress, Stopped) and progress.answers and progress.closing is None:
            self.move.look(self.ports(), self.move.request_from(self._asked()))
            self.recorder.did("review gate: reject")
            state = self.runs.find(self._name()).state
            self.recorder.did(f"end {state} fail")
            if self.sealed:
                self.recorder.did("seal the evidence")

    def move_there(self, **values: Any) -> str:
        """Assess, plan, and drive."""
        name = self.plan(**values)
        self.terminal(self.drive(name))
        return name

    def plan(self, **values: Any) -> str:
        """Assess, plan, and return the run."""
        found = assess(self.move, self.tools(), self.ports(), self.request(**values))[1]
        bad = {each.verdict for each in found} & _BAD
        ready = "ready" if not bad else "not ready" if Verdict.FAIL in bad else "unknown"
        rules = {finding.rule: finding.verdict.value for finding in reversed(found)}
        self.recorder.did(f"assess: {ready}", rules=rules)
        return self.begin(**values)

    def begin(self, **values: Any) -> str:
        """See `Processes`."""
        self._begun = None
        name = Processes.begin(self, **values)
        self._begun = None
        return name

    def _asked(self) -> Any:
        return json.loads(self.runs.find(self._name()).request)

    def _name(self) -> str:
        return self._latest()[0]

    def _latest(self) -> tuple[str, Plan]:
        if self._begun is None:
            (record,) = self.runs.recent(1)
            self._begun = record.run, plan_from(record.plan)
        return self._begun

    def _back(self, run: str) -> list[dict[str, Any]]:
        if run not in self._rollbacks:
            begun = [each for each in self.runs.events(run) if each.kind is EventKind.ROLLBACK_BEGUN]
            self._rollbacks[run] = [step for each in begun for step in each.body["plan"]["steps"]]
        return self._rollbacks[run]

    def _step(self, key: str) -> Step | None:
        name, plan = self._latest()
        for back in self._back(name):
            if back["key"] == key:
                return Step(phase=back["phase"], kind=back["kind"], args=back["args"], key=key)
        return plan.step(key)

    def _written(self, _result: object, of: tuple[str, str, object], *_rest: object) -> str:
        run, attempt, moment = of
        phases = {each.phase for each in self._latest()[1].steps}
        phases |= {each["phase"] for each in self._back(run)}
        phase = next(each for each in sorted(phases) if f"-{moment}-{each.replace('_', '-')}-" in attempt)
        return f"snapshot {moment} {phase}"

    def _journaled(self, _result: object, entry: Entry) -> None:
        if any(each.kind is EventKind.ROLLBACK_BEGUN for each in entry.events):
            self._rollbacks.clear()
        for event in entry.events:
            self._event(event)

    def _event(self, event: NewEvent) -> None:
        step = self._step(event.step) if event.step else None
        match event.kind:
            case EventKind.JUDGED if step is not None:
                rules = {each["rule"]: each["verdict"] for each in event.body["findings"]}
                verdict = worst(Verdict(each["verdict"]) for each in event.body["findings"])
                self.recorder.did(f"judge {step.args['moment']} {step.phase}: {verdict}", rules=rules)
            case EventKind.GATE_ANSWERED if step is not None:
                self.recorder.did(f"{step.phase} gate: {event.body['choice']}")
            case EventKind.NOTED if step is not None:
                begun = (each for each in self.runs.events(self._name()) if each.step == event.step)
                if sum(each.kind is EventKind.NOTED for each in begun) == 1:
                    self.recorder.did("soak begins")
            case EventKind.ROLLBACK_BEGUN:
                self.recorder.did(f"begin the rollback to {event.body['to']}")
            case EventKind.CLOSED:
                if (event.body["state"], event.body["verdict"]) == ("moved", "pass"):
                    self.recorder.did("keep the rollback open")
                self.recorder.did(f"end {event.body['state']} {event.body['verdict']}")
                self.recorder.did("seal the evidence")
            case _:
                pass


def _replaced(_result: object, change: Change) -> str:
    if not change.slots:
        return "fence the driver of members"
    taken_back = f", undoing {len(change.undoes)} changes" if change.undoes else ""
    return f"replace members at {names(change.slots)} by {change.to}{taken_back}"


def protocol(kind: MemberKind) -> Recording:
    """Three members of one protocol."""
    bench = make_protocol_group(kind)
    shared = ("clock", "world", "fleet", "evidence", "proof")
    return Recording(**{name: getattr(bench, name) for name in shared})


Story = Callable[[Recording], None]


def _moves(to: Protocol, *, offline: bool, back: bool) -> Story:
    def story(told: Recording) -> None:
        name = told.move_there(to=to, offline=offline)
        if back:
            told.terminal(told.roll_back(name))

    return story


def _refused(**values: Any) -> Story:
    def story(told: Recording) -> None:
        try:
            told.move_there(**values)
        except GroupshiftError as refused:
            told.recorder.refused(refused)

    return story


def _loses_a_member(told: Recording) -> None:
    def lose() -> None:
        told.world.places["m3"].running = False

    told.at["canary after_read_back"] = lose
    told.move_there(to=Protocol.CONSUMER)


UP, DOWN = Protocol.CONSUMER, Protocol.CLASSIC
PROTOCOL: dict[str, tuple[MemberKind, Story]] = {
    f"{'offline' if offline else 'online'} to {to}{', and back' if back else ''}": (
        kind,
        _moves(to, offline=offline, back=back),
    )
    for offline in (False, True)
    for to, kind in ((UP, MemberKind.PLAIN), (DOWN, MemberKind.NATIVE))
    for back in (False, True)
} | {
    "refused, all members speak it": (MemberKind.NATIVE, _refused(to=UP)),
    "refused, the group is not there": (MemberKind.PLAIN, _refused(to=UP, group="nobody")),
    "a member is lost at the canary": (MemberKind.PLAIN, _loses_a_member),
}
"""Moves of the protocol, with the members' kind at the start; named as in the goldens."""


def killed(*, offline: bool, back: bool) -> dict[str, list[str]]:
    """What was done in all, by the crash point of an act at which the first process ended; the second one
    goes on. ``back``: the rollback is killed, not the way there."""
    found: dict[str, list[str]] = {}
    for number in range(1, CRASHES):
        told = protocol(MemberKind.PLAIN)
        name = told.plan(to=UP, offline=offline)
        if back:
            told.drive(name)
        told.recorder.lines.clear()
        told.kills = iter((number,))
        try:
            _walk(told, name, back=back)
        except Killed:
            at = told.recorder.last_crash
            _walk(told, name, back=back, holder="another process", take_over=True)
            found[another(at, found)] = [line["do"] for line in told.recorder.lines]
        else:
            break
    return found


def _walk(told: Recording, name: str, *, back: bool, **process: Any) -> None:
    if back:
        told.roll_back(name, **process)
    else:
        told.drive(name, **process)


KILLED: Mapping[str, Callable[[], dict[str, list[str]]]] = {
    f"protocol {'offline' if offline else 'online'} {'back' if back else 'there'}": partial(
        killed, offline=offline, back=back
    )
    for offline in (False, True)
    for back in (False, True)
}
"""As in the goldens."""
