"""Stories of coordination of `goldens.group_stories`, driven by the one engine, in the same words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from goldens.run_stories import CRASHES, Recording
from groupshift.domain.plan import Until, WayBack
from groupshift.domain.run import StepState
from groupshift.engine.move import Move
from groupshift.engine.replace_members import REPLACE_MEMBERS
from groupshift.errors import GroupshiftError
from groupshift.moves.coordination.facts import CoordinationPorts
from groupshift.moves.coordination.move import CoordinationMove
from groupshift.moves.coordination.plan_and_rollback import DELETE_MODE_NODE, REHEARSE, SET_MODE
from groupshift.ports.group import CanaryTerms, ZookeeperSide
from groupshift.ports.runs import EventKind, NewEvent
from groupshift_testing.world import Killed, MemoryModeSwitch
from support.coordination_runs import CANARY, SHARED, CoordinationProcesses
from support.effects import Recorded, another
from support.simulated_group import make_group

FINALISE = "finalise/approve"
_ANSWERS = {"approve": "finalise", "reject": "keep"}
"""What was said at the last gate, in the words of the goldens."""


@dataclass(slots=True)
class Told(Recording):
    """A group that ZooKeeper coordinates, with its ports recorded."""

    acts = frozenset({REPLACE_MEMBERS, SET_MODE, DELETE_MODE_NODE})
    move: Move[Any] = field(default_factory=CoordinationMove)
    canary: CanaryTerms = CANARY
    request = CoordinationProcesses.request

    def ports(self) -> CoordinationPorts:
        """See `Processes`."""
        shared = Recording.ports(self)
        acts = {"take": _fenced, "compare_and_set": _set, "delete": _deleted}
        switch = Recorded(MemoryModeSwitch(self.world), self.recorder, reads={"read": "mode node"}, acts=acts)
        return CoordinationPorts(
            side=ZookeeperSide(
                groups=shared.side.groups,
                fleets=shared.side.fleets,
                mode=switch,
                cluster_id=lambda: "c",
            ),
            evidence=shared.evidence,
            ledger=shared.ledger,
            terms=self.terms,
            clock=self.clock,
            canary=self.canary,
        )

    def _event(self, event: NewEvent) -> None:
        step = self._step(event.step) if event.step else None
        match event.kind:
            case EventKind.CHECKED if step is not None and step.kind == REHEARSE and event.body["findings"]:
                rules = {each["rule"]: each["verdict"] for each in event.body["findings"]}
                self.recorder.did("rehearse the rollback", rules=rules)
            case EventKind.GATE_ANSWERED if step is not None and step.phase == "finalise":
                self.recorder.did(f"finalise gate: {_ANSWERS[event.body['choice']]}")
            case EventKind.VOIDED:
                self.recorder.did(f"approval of {self._turn()} is void")
            case EventKind.CLOSED if event.body["state"] == "finalised":
                self.recorder.did("end finalised pass")
                Recording._event(self, event)
            case _:
                Recording._event(self, event)

    def _turn(self) -> str:
        """The phase whose act comes next."""
        name, plan = self._latest()
        done = {key for key, each in self.runs.steps(name).items() if each.state is StepState.DONE}
        return next(each.phase for each in plan.steps if each.kind in self.acts and each.key not in done)


def _fenced(_result: object, _group: str, holder: Any) -> str:
    return f"fence the mode node with token {holder.token}"


def _set(result: Any, _group: str, expected: Any, to: Any, *, holder: Any = None) -> str:
    del holder
    before = "no version" if expected.data is None else f"version {expected.version}"
    after = "" if result is None else f", now version {result.version}"
    return f"set the mode node to {to} over {before}{after}"


def _deleted(_result: object, _group: str, expected: Any, *, holder: Any = None) -> str:
    del holder
    return f"delete the mode node at version {expected.version}"


def coordination() -> Told:
    """Three old members, six partitions."""
    bench = make_group()
    return Told(**{name: getattr(bench, name) for name in SHARED}, declines=frozenset({FINALISE}))


Story = Callable[[Told], None]


def _there(until: Until, *, finalised: bool = False) -> Story:
    def story(told: Told) -> None:
        told.declines = frozenset() if finalised else told.declines
        told.move_there(until=until)

    return story


def _there_and_back(until: Until, *to: WayBack) -> Story:
    def story(told: Told) -> None:
        name = told.move_there(until=until)
        for number, way in enumerate(to):
            told.terminal(told.roll_back(name, to=way.value, holder=f"back-{number}"))

    return story


def _refused(values: dict[str, Any], prepare: Callable[[Told], None] = lambda _: None) -> Story:
    def story(told: Told) -> None:
        prepare(told)
        try:
            told.move_there(**values)
        except GroupshiftError as refused:
            told.recorder.refused(refused)

    return story


def _declined(gate: str) -> Story:
    def story(told: Told) -> None:
        told.declines = frozenset({gate})
        told.move_there()

    return story


def _lose_member(told: Told) -> None:
    told.world.places["m3"].running = False


def _failing(at: str) -> Story:
    def story(told: Told) -> None:
        told.at[at] = lambda: _lose_member(told)
        told.move_there()

    return story


def _taken_over(told: Told) -> None:
    name = told.plan()

    def take_over() -> None:
        told.claim(name, holder="cli-2", take_over=True)

    told.at["canary after_read_back"] = take_over
    try:
        told.drive(name)
    except GroupshiftError as fenced:
        told.recorder.refused(fenced)


def _killed_and_changed(number: int) -> Story:
    """Killed at the n-th crash point; before somebody goes on, a member is lost."""

    def story(told: Told) -> None:
        name = told.plan()
        told.kills = iter((number,))
        with suppress(Killed):
            told.drive(name)
        told.recorder.did(f"killed at {told.recorder.last_crash}, and a member is lost")
        _lose_member(told)
        try:
            told.terminal(told.drive(name))
        except GroupshiftError as refused:
            told.recorder.refused(refused)

    return story


INTENDED = 2
"""The second crash point of an act: it is journaled, and not made yet."""
COORDINATION: dict[str, Story] = {
    "there until canary": _there(Until.CANARY),
    "there until roll": _there(Until.ROLL),
    "there until toggle": _there(Until.TOGGLE),
    "there until retire, finalised": _there(Until.RETIRE, finalised=True),
    "there until canary, and back": _there_and_back(Until.CANARY, WayBack.OLD_MEMBERS),
    "there until roll, and back": _there_and_back(Until.ROLL, WayBack.OLD_MEMBERS),
    "there until toggle, and back": _there_and_back(Until.TOGGLE, WayBack.OLD_MEMBERS),
    "there until toggle, back to zookeeper mode, then to old members": _there_and_back(
        Until.TOGGLE, WayBack.ZOOKEEPER_MODE, WayBack.OLD_MEMBERS
    ),
    "there until retire, and back": _there_and_back(Until.RETIRE, WayBack.OLD_MEMBERS),
    "refused, the canary is larger than the group": _refused({"canary": 9}),
    "refused, the group is not there": _refused({"group": "nobody"}),
    "refused, a member is gone": _refused({}, _lose_member),
    "plan is rejected": _declined("plan/approve"),
    "toggle is rejected": _declined("toggle/approve"),
    "a member is lost at the canary": _failing("canary after_read_back"),
    "a member is lost at the roll": _failing("roll after_read_back"),
    "a member is lost at the toggle": _failing("toggle after_read_back"),
    "a member is lost while the group soaks": _failing("soak/snapshot before soak before_journal"),
    "another run takes over": _taken_over,
    "killed before the canary's act": _killed_and_changed(INTENDED),
    "killed before the roll's act": _killed_and_changed(INTENDED + 4),
    "killed before the toggle's act": _killed_and_changed(INTENDED + 8),
}
"""Moves of coordination, by what happens; named as in the goldens."""


def killed(*, back: bool) -> dict[str, list[str]]:
    """What was done in all, by the crash point of an act at which the first process ended; the second one
    goes on. ``back``: the rollback is killed, not the way there."""
    found: dict[str, list[str]] = {}
    for number in range(1, CRASHES):
        told = coordination()
        told.declines = told.declines if back else frozenset()
        name = told.plan(until=Until.RETIRE)
        if back:
            told.drive(name)
        told.recorder.lines.clear()
        told.kills = iter((number,))
        walk = told.roll_back if back else told.drive
        try:
            walk(name)
        except Killed:
            at = told.recorder.last_crash
            walk(name, holder="another process", take_over=True)
            found[another(at, found)] = [line["do"] for line in told.recorder.lines]
        else:
            break
    return found


KILLED: Mapping[str, Callable[[], dict[str, list[str]]]] = {
    "coordination there": lambda: killed(back=False),
    "coordination back": lambda: killed(back=True),
}
"""As in the goldens."""
