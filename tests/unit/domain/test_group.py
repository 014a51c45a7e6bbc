"""What voids an approval, and what does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupshift.domain.group import Fingerprint, fingerprint
from groupshift.domain.modes import MemberKind
from groupshift_testing.world import World
from support.simulated_group import make_group


def mark(world: World, plan: str = "p", **evidence: str) -> Fingerprint:
    """The fingerprint of the group now."""
    return fingerprint(world.read(world.group), plan, evidence)


def test_consuming_does_not_void_an_approval() -> None:
    """Offsets and log ends move all the time."""
    world = make_group().world
    before = mark(world)
    world.tick(100)
    assert mark(world).text == before.text


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
    now = mark(world)
    assert now.text != before.text
    assert any(word in clause for clause in before.changes(now)), before.changes(now)


def test_new_evidence_is_welcome_changed_evidence_is_not() -> None:
    """A snapshot taken since does not count; one replaced since does."""
    world = make_group().world
    before = mark(world, one="a")
    assert before.changes(mark(world, one="a", two="b")) == ()
    assert before.changes(mark(world, one="x")) == ("evidence one: a is now x",)


def test_a_fingerprint_survives_the_journal() -> None:
    """Parts are plain texts."""
    taken = mark(make_group().world, one="a")
    assert Fingerprint.from_data(dict(taken.parts)).text == taken.text
