"""What happens when: a schedule drawn from a seed before anything runs. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.modes import Mode

GAP_S = (3.0, 8.0)
"""Between two faults."""
CALM_S = 20.0
"""Before the first fault: the group forms."""
PAUSES_S = (0.5, 18.0)
"""How long a member may be stopped: up to three sessions of 6 s."""


class Act(StrEnum):
    """One thing done to the group."""

    KILL = "kill -9"
    START = "start again"
    PAUSE = "SIGSTOP"
    RESUME = "SIGCONT"
    EXPIRE = "expire session"
    CUT_ZOOKEEPER = "cut link to ZooKeeper"
    CUT_KAFKA = "cut link to Kafka"
    RESTORE = "restore link"
    RESTART_ZOOKEEPER = "restart ZooKeeper"
    RESTART_BROKER = "restart broker"
    LEAVE = "leave"
    TOGGLE = "set mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosEvent:
    """``act`` on ``target`` (a slot, a mode or nothing) at ``at_s`` seconds after the start."""

    at_s: float
    act: Act
    target: str = ""

    def __str__(self) -> str:
        return f"{self.act} {self.target}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Slots by kind: links can be cut to ours only."""

    old: tuple[str, ...] = ("s1", "s2")
    ours: tuple[str, ...] = ("c1", "c2", "c3", "c4")


Draw = Callable[["_Drawing", float], Iterator[ChaosEvent]]


@dataclass(slots=True)
class _Drawing:
    """The generator, and until when each slot is busy with an earlier fault."""

    random: random.Random
    fleet: Fleet
    busy: dict[str, float]
    mode: Mode = Mode.ZOOKEEPER

    def free(self, slots: Sequence[str], at_s: float) -> list[str]:
        """Slots without a fault now."""
        return [each for each in slots if self.busy.get(each, 0.0) <= at_s]

    def choose(self, slots: Sequence[str], at_s: float, lasts_s: float) -> str | None:
        """A free slot, busy from now on for this long and a moment more."""
        free = self.free(slots, at_s)
        if not free:
            return None
        chosen = self.random.choice(free)
        self.busy[chosen] = at_s + lasts_s + 2.0
        return chosen


def _pair(first: Act, then: Act, lasts: tuple[float, float], *, ours_only: bool = False) -> Draw:
    """A fault that is undone after a while."""

    def draw(drawing: _Drawing, at_s: float) -> Iterator[ChaosEvent]:
        slots = drawing.fleet.ours if ours_only else drawing.fleet.ours + drawing.fleet.old
        lasts_s = drawing.random.uniform(*lasts)
        slot = drawing.choose(slots, at_s, lasts_s)
        if slot is not None:
            yield ChaosEvent(at_s=at_s, act=first, target=slot)
            yield ChaosEvent(at_s=at_s + lasts_s, act=then, target=slot)

    return draw


def _expire(drawing: _Drawing, at_s: float) -> Iterator[ChaosEvent]:
    slot = drawing.choose(drawing.fleet.ours + drawing.fleet.old, at_s, 0.0)
    if slot is not None:
        yield ChaosEvent(at_s=at_s, act=Act.EXPIRE, target=slot)


def _server(act: Act) -> Draw:
    def draw(_drawing: _Drawing, at_s: float) -> Iterator[ChaosEvent]:
        yield ChaosEvent(at_s=at_s, act=act)

    return draw


def _toggle(drawing: _Drawing, at_s: float) -> Iterator[ChaosEvent]:
    drawing.mode = Mode.KAFKA if drawing.mode is Mode.ZOOKEEPER else Mode.ZOOKEEPER
    yield ChaosEvent(at_s=at_s, act=Act.TOGGLE, target=drawing.mode.value)


def _old_leave(drawing: _Drawing, at_s: float) -> Iterator[ChaosEvent]:
    """All old members leave for a while: only then can the group follow Kafka."""
    if drawing.free(drawing.fleet.old, at_s) != list(drawing.fleet.old):
        return
    away_s = drawing.random.uniform(10.0, 25.0)
    for slot in drawing.fleet.old:
        drawing.busy[slot] = at_s + away_s + 2.0
        yield ChaosEvent(at_s=at_s, act=Act.LEAVE, target=slot)
        yield ChaosEvent(at_s=at_s + away_s, act=Act.START, target=slot)


_FAULTS: tuple[tuple[int, Draw], ...] = (
    (5, _pair(Act.KILL, Act.START, (1.0, 4.0))),
    (5, _pair(Act.PAUSE, Act.RESUME, PAUSES_S)),
    (4, _expire),
    (5, _pair(Act.CUT_ZOOKEEPER, Act.RESTORE, (0.5, 12.0), ours_only=True)),
    (5, _pair(Act.CUT_KAFKA, Act.RESTORE, (0.5, 12.0), ours_only=True)),
    (1, _server(Act.RESTART_ZOOKEEPER)),
    (1, _server(Act.RESTART_BROKER)),
    (6, _toggle),
    (4, _old_leave),
)


def draw_schedule(seed: int, seconds: float, fleet: Fleet = Fleet()) -> tuple[ChaosEvent, ...]:
    """Faults from `CALM_S` to before ``seconds``, every `GAP_S`; what is undone may be undone later.

    The same seed gives the same schedule."""
    drawing = _Drawing(random=random.Random(seed), fleet=fleet, busy={})  # noqa: S311 (no secret)
    weights, draws = zip(*_FAULTS, strict=True)
    events: list[ChaosEvent] = []
    at_s = CALM_S
    while at_s < seconds:
        events += drawing.random.choices(draws, weights)[0](drawing, at_s)
        at_s += drawing.random.uniform(*GAP_S)
    return tuple(sorted(events, key=lambda event: event.at_s))
