"""What voids an approval, and what does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupshift.domain.group import aspects
from groupshift.domain.modes import MemberKind
from groupshift.engine.gates import differences
from groupshift_testing.world import World
from support.simulated_group import make_group


def mark(world: World) -> dict[str, dict[str, str]]:
    """The aspects of the group now."""
    return aspects(world.read(world.group))


def test_consuming_does_not_void_an_approval() -> None:
    """Offsets and log ends move all the time."""
    world = make_group().world
    before = mark(world)
    world.tick(100)
    assert mark(world) == before


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda w: setattr(w.places["m1"], "kind", MemberKind.AWARE), "members orders-app_m1-1"),
        (lambda w: setattr(w.places["m2"], "incarnation", 2), "members orders-app_m2-2"),
        (lambda w: w.partitions.update({"orders": 7}), "partitions orders: 6 is now 7"),
        (lambda w: w.write_mode(b"zookeeper"), "mode node"),
    ],
)
def test_what_voids_an_approval_is_named(change: Callable[[World], object], word: str) -> None:
    """Members, partitions and the mode node, each with then and now."""
    world = make_group().world
    before = mark(world)
    change(world)
    said = differences(before, mark(world))
    assert any(word in clause for clause in said), said


def test_new_evidence_is_welcome_changed_evidence_is_not() -> None:
    """A snapshot taken since does not count; one replaced since does."""
    before = {"evidence": {"one": "a"}}
    assert differences(before, {"evidence": {"one": "a", "two": "b"}}) == ()
    assert differences(before, {"evidence": {"one": "x"}}) == ("evidence one: a is now x",)
