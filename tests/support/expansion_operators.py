"""What clients and other operators do while an expansion runs over simulated brokers."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from support.simulated_expansion import GROUPS, Expansible

_COUNTS = (12, 16, 20)


def _commits(world: Expansible, number: int) -> object:
    """A program that is no member, wherever that broker sends it."""
    return world.commit_as_client(GROUPS[number % len(GROUPS)], 1_000 + number, 1 + number % 3)


def joins(world: Expansible, number: int) -> object:
    """A member joins that never leaves by itself."""
    return world.members.add(GROUPS[number % len(GROUPS)])


def _leaves(world: Expansible, _number: int) -> object:
    return world.members.clear()


def _restarts(world: Expansible, number: int) -> object:
    return world.world.restart(1 + number % 3)


def _expands(world: Expansible, number: int) -> object:
    count = _COUNTS[number % len(_COUNTS)]
    return world.world.expand(count) if count > len(world.world.logs) else None


def _bounces(world: Expansible, number: int) -> object:
    return world.world.bounce(number % len(world.world.logs))


def _lies(world: Expansible, number: int) -> object:
    return world.lies.add(1 + number % 3)


DOINGS = st.tuples(
    st.sampled_from([_commits, joins, _leaves, _restarts, _expands, _bounces, _lies]), st.integers(0, 99)
)
Doing = tuple[Callable[[Expansible, int], object], int]


def at_rest(world: Expansible) -> None:
    """Everybody stopped, brokers are up, and where they count differently all are restarted (X04 says so)."""
    world.members.clear()
    world.lies.clear()
    for node in world.world.brokers:
        if not world.world.brokers[node].running:
            world.world.start(node)
    if len({broker.count for broker in world.world.brokers.values()}) > 1:
        for node in world.world.brokers:
            world.world.restart(node)
