"""Plans: stages as data, hashes, inverses, and the way back derived from them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from groupshift.domain.facts import Place
from groupshift.domain.group import Owner
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.plan import (
    CanaryTerms,
    Gate,
    MoveRequest,
    Plan,
    StageName,
    Until,
    WayBack,
    from_json,
    to_json,
)
from groupshift.domain.planning import check, make_plan, way_back
from groupshift.domain.rules_storage import assignments
from groupshift.domain.step import DeleteModeNode, ReplaceMembers, SetMode, Soak
from groupshift.errors import Rejected
from support.simulated_group import make_group

OLD, AWARE, PLAIN = MemberKind.OLD, MemberKind.AWARE, MemberKind.PLAIN


def plan(until: Until = Until.RETIRE, kind: MemberKind = OLD, canary: int = 1) -> Plan:
    """A plan for the simulated group."""
    world = make_group(kind).world
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
    assert [stage.name for stage in plan(Until.TOGGLE, AWARE).stages] == ["toggle", "soak"]


def test_a_driver_that_knows_no_slots_gets_the_members_as_places() -> None:
    """People are told which member to replace."""
    world = make_group().world
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
    with pytest.raises(Rejected, match="version 2, this groupshift reads version 1; go on with the release"):
        from_json(to_json(plan()).replace('"version":1', '"version":2'))


@pytest.mark.parametrize("stage", [stage for stage in plan().stages if stage.step.inverse is not None])
def test_inverses_undo_each_other(stage: object) -> None:
    """The way back of the way back is the way there."""
    assert stage.step.inverse.inverse == stage.step


def test_the_way_back_is_the_inverse_of_what_was_begun() -> None:
    """In the order undo_retire, undo_toggle, undo_members, only what is needed."""
    made, world = plan(), make_group().world
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
    bench = make_group(AWARE)
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


def by_share(share: float, streams: dict[str, int], owned: str | None = None) -> Plan:
    """A plan by share for a group of one topic; ``streams`` are those of each member."""
    world = make_group(OLD, len(streams)).world
    world.partitions = {"orders": 8}
    view = world.read(world.group)
    members = tuple(
        replace(member, subscription=(("orders", streams[member.member_id.split("_")[1].split("-")[0]]),))
        for member in view.members
    )
    computed = assignments(replace(view, members=members))[owned or "range"]
    owners = tuple(
        Owner(partition=partition, thread_id=thread, czxid=1, session_id=1)
        for partition, thread in computed.items()
    )
    places = tuple(
        Place(name=name, kind=OLD, running=True, member_id=world.identity(name)) for name in world.places
    )
    request = MoveRequest(group=world.group, canary_share=share, canary_watch_s=60)
    return make_plan(request, replace(view, members=members, owners=owners), places)


@pytest.mark.parametrize(
    ("share", "streams", "slots", "held"),
    [
        (0.25, {"m1": 1, "m2": 1, "m3": 1, "m4": 1}, ("m1",), 2),
        (0.26, {"m1": 1, "m2": 1, "m3": 1, "m4": 1}, ("m1", "m2"), 4),
        (0.5, {"m1": 1, "m2": 1, "m3": 2}, ("m3",), 4),
        (0.51, {"m1": 1, "m2": 1, "m3": 2}, ("m1", "m3"), 6),
        (0.01, {"m1": 1, "m2": 1}, ("m1",), 4),
        (1.0, {"m1": 1, "m2": 1}, ("m1", "m2"), 8),
    ],
)
def test_a_share_chooses_the_fewest_members_that_hold_it(
    share: float, streams: dict[str, int], slots: tuple[str, ...], held: int
) -> None:
    """By what the group's assignor gives to their streams."""
    made = by_share(share, streams)
    stage = made.stage(StageName.CANARY)
    assert stage is not None
    assert stage.step == ReplaceMembers(slots=slots, old=OLD, new=AWARE)
    assert made.canary == CanaryTerms(watch_s=60, held=held, partitions=8)
    assert from_json(to_json(made)) == made
    rest = made.stage(StageName.ROLL)
    assert (rest.step.slots if rest else ()) == tuple(name for name in streams if name not in slots)


def test_a_share_counts_what_the_assignor_gives_not_what_happens_to_be_owned() -> None:
    """In round-robin the first of two uneven members holds less than range would give it."""
    made = by_share(0.5, {"m1": 1, "m2": 3}, "roundrobin (dash form, from 1.0)")
    stage = made.stage(StageName.CANARY)
    assert stage is not None
    assert (stage.step.slots, made.canary.held) == (("m2",), 6)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"canary_share": 1.5}, "canary_share 1.5"),
        ({"canary_share": float("nan")}, "canary_share nan"),
        ({"canary_share": 0.5, "canary": 2}, "choose one"),
        ({"canary_watch_s": -1}, "canary_watch_s -1"),
    ],
)
def test_a_canary_that_cannot_be_meant_is_named(values: dict[str, object], word: str) -> None:
    """Field and value, in one clause each."""
    (problem,) = check(replace(MoveRequest(group="orders-app"), **values))
    assert word in problem


def test_a_plan_of_a_former_release_has_no_watch() -> None:
    """Its JSON knows nothing of it."""
    old = json.loads(to_json(plan()))
    del old["canary"]
    assert from_json(json.dumps(old)).canary == CanaryTerms()
