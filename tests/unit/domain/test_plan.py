"""Plans: stages as data, hashes, inverses, and the way back derived from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.coordination import MemberKind, Mode
from groupshift.domain.facts import Place
from groupshift.domain.moves import Gate, MoveRequest, StageName, Until, WayBack
from groupshift.domain.plan import Plan, from_json, to_json
from groupshift.domain.planning import check, make_plan, way_back
from groupshift.domain.steps import DeleteModeNode, ReplaceMembers, SetMode, Soak
from simulated_move import make_bench

OLD, AWARE, PLAIN = MemberKind.OLD, MemberKind.AWARE, MemberKind.PLAIN


def plan(until: Until = Until.RETIRE, kind: MemberKind = OLD, canary: int = 1) -> Plan:
    """A plan for the simulated group."""
    world = make_bench(kind).world
    places = tuple(Place(name=name, kind=kind, running=True) for name in world.places)
    request = MoveRequest(group=world.group, until=until, canary=canary, soak_s=9, execute=True)
    return make_plan(request, world.read(world.group), places)


def test_the_whole_move_is_canary_roll_toggle_retire_soak_finalise() -> None:
    """With the steps, the gates and the slots of each."""
    stages = {stage.name: stage for stage in plan().stages}
    assert list(stages) == ["canary", "roll", "toggle", "retire", "soak", "finalise"]
    assert stages[StageName.CANARY].step == ReplaceMembers(slots=("m1",), old=OLD, new=AWARE)
    assert stages[StageName.ROLL].step == ReplaceMembers(slots=("m2", "m3"), old=OLD, new=AWARE)
    assert stages[StageName.TOGGLE].step == SetMode(to=Mode.KAFKA)
    assert stages[StageName.RETIRE].step == ReplaceMembers(slots=("m1", "m2", "m3"), old=AWARE, new=PLAIN)
    assert stages[StageName.SOAK].step == Soak(seconds=9)
    assert stages[StageName.FINALISE].step == DeleteModeNode()
    gates = {name: stage.gate for name, stage in stages.items() if stage.gate}
    assert gates == {"canary": Gate.PLAN, "toggle": Gate.TOGGLE, "finalise": Gate.FINALISE}


def test_stages_without_work_are_left_out() -> None:
    """A canary of everyone leaves nothing to roll; aware members start at the toggle."""
    assert plan(Until.ROLL, canary=3).stage(StageName.ROLL) is None
    assert [stage.name for stage in plan(Until.TOGGLE, AWARE).stages] == ["toggle", "soak", "finalise"]


def test_a_driver_that_knows_no_slots_gets_the_members_as_places() -> None:
    """People are told which member to replace."""
    world = make_bench().world
    made = make_plan(MoveRequest(group=world.group, driver="manual"), world.read(world.group), ())
    assert made.slots == ("orders-app_m1-1", "orders-app_m2-1", "orders-app_m3-1")


@pytest.mark.parametrize("until", list(Until))
def test_a_plan_survives_json_and_keeps_its_hash(until: Until) -> None:
    """Equal plans have equal bytes."""
    made = plan(until)
    assert from_json(to_json(made)) == made
    assert from_json(to_json(made)).hash == made.hash
    assert len(made.hash) == 64


def test_the_hash_covers_what_people_approve() -> None:
    """Another slot, soak or rule is another plan."""
    made = plan()
    reordered = replace(made, stages=made.stages[::-1])
    lax = replace(made.stages[0], before=())
    others = [replace(made, soak_s=10), reordered, replace(made, stages=(lax, *made.stages[1:]))]
    assert len({made.hash, *(other.hash for other in others)}) == 4


def test_another_version_is_refused() -> None:
    """A plan of a later release is not guessed at."""
    with pytest.raises(ValueError, match="version"):
        from_json(to_json(plan()).replace('"version":1', '"version":2'))


@pytest.mark.parametrize("stage", [stage for stage in plan().stages if stage.step.inverse is not None])
def test_inverses_undo_each_other(stage: object) -> None:
    """The way back of the way back is the way there."""
    assert stage.step.inverse.inverse == stage.step


def test_the_way_back_is_the_inverse_of_what_was_begun() -> None:
    """In the order undo_retire, undo_toggle, undo_members, only what is needed."""
    made, world = plan(), make_bench().world
    view = world.read(world.group)
    begun = frozenset({StageName.CANARY})
    (only,) = way_back(made, begun, view, (), WayBack.OLD_MEMBERS)
    assert only.step == ReplaceMembers(slots=("m1",), old=AWARE, new=OLD)
    assert way_back(made, begun, view, (), WayBack.ZOOKEEPER_MODE) == ()
    everything = frozenset(StageName) - {StageName.FINALISE}
    back = way_back(made, everything, view, (), WayBack.OLD_MEMBERS)
    assert [stage.name for stage in back] == ["undo_retire", "undo_toggle", "undo_members"]
    assert back[1].step == SetMode(to=Mode.ZOOKEEPER)
    assert back[2].step == ReplaceMembers(slots=("m1", "m2", "m3"), old=AWARE, new=OLD)


def test_a_mode_node_that_says_kafka_is_taken_back_whoever_wrote_it() -> None:
    """Old members may come back only to zookeeper mode."""
    bench = make_bench(AWARE)
    bench.world.write_mode(b"kafka")
    view = bench.world.read(bench.world.group)
    back = way_back(plan(Until.ROLL), frozenset({StageName.ROLL}), view, (), WayBack.ZOOKEEPER_MODE)
    assert [stage.name for stage in back] == ["undo_toggle"]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"group": "a/b"}, "group"),
        ({"canary": 0}, "canary"),
        ({"soak_s": -1}, "soak"),
        ({"group": ".."}, "group"),
    ],
)
def test_a_request_that_cannot_be_used_is_named(values: dict[str, object], word: str) -> None:
    """Field and value, in one clause each."""
    (problem,) = check(replace(MoveRequest(group="orders-app"), **values))
    assert word in problem
    assert check(MoveRequest(group="orders-app")) == ()
