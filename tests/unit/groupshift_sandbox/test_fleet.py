"""The supervisor's decisions, without any process."""

from __future__ import annotations

import json

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.errors import Rejected
from groupshift_sandbox.fleet import (
    Action,
    FleetDefinition,
    FleetMemory,
    Observed,
    SlotDefinition,
    Verb,
    next_actions,
)

RUNNING = Observed(alive=True, ready=True, since_s=100.0)
STARTING = Observed(alive=True, ready=False, since_s=1.0)
STUCK = Observed(alive=True, ready=False, since_s=60.0)
DEAD = Observed(alive=False, ready=False, since_s=100.0)
JUST_DIED = Observed(alive=False, ready=False, since_s=0.1)


def _definition(count: int = 3) -> FleetDefinition:
    slots = tuple(SlotDefinition(name=f"m{n}", release="1.1.1") for n in range(1, count + 1))
    return FleetDefinition(
        group="g", topics=("orders",), zookeeper="127.0.0.1:1", bootstrap="127.0.0.1:2", slots=slots
    )


def _memory() -> FleetMemory:
    return FleetMemory.new(_definition())


def _seen(**by_slot: Observed) -> dict[str, Observed]:
    return {name: by_slot.get(name, RUNNING) for name in ("m1", "m2", "m3")}


def test_a_definition_and_a_memory_survive_their_files():
    """What is written as JSON is read back as the same thing."""
    memory = _memory()
    memory.accept("c1", ["m2"], MemberKind.VACANT)
    assert FleetDefinition.from_json(json.loads(json.dumps(_definition().to_json()))) == _definition()
    assert FleetMemory.from_json(json.loads(json.dumps(memory.to_json()))) == memory


def test_a_fleet_file_that_lacks_something_is_refused():
    """The sentence names the file and how to write it."""
    with pytest.raises(Rejected, match=r"fleet\.json cannot be used"):
        FleetDefinition.from_json({"group": "g"})


def test_members_start_one_after_the_other():
    """While one starts no other does; then the next one does."""
    memory = _memory()
    assert next_actions(memory, dict.fromkeys(("m1", "m2", "m3"), DEAD)) == [
        Action(verb=Verb.LAUNCH, slot="m1")
    ]
    assert next_actions(memory, _seen(m1=STARTING, m2=DEAD, m3=DEAD)) == []
    assert next_actions(memory, _seen(m2=DEAD, m3=DEAD)) == [Action(verb=Verb.LAUNCH, slot="m2")]


def test_a_member_that_never_gets_ready_does_not_keep_others_from_starting():
    """After the grace the next one starts."""
    assert next_actions(_memory(), _seen(m1=STUCK, m2=DEAD)) == [Action(verb=Verb.LAUNCH, slot="m2")]


def test_a_change_replaces_slots_one_after_the_other():
    """The second slot is not touched before the first one's new member is ready."""
    memory = _memory()
    assert memory.accept("c1", ["m2", "m1"], MemberKind.AWARE)
    assert next_actions(memory, _seen()) == [Action(verb=Verb.TERMINATE, slot="m2")]
    ending = Observed(alive=True, ready=True, since_s=100.0, stopping_s=1.0)
    assert next_actions(memory, _seen(m2=ending)) == []
    ended = Observed(alive=False, ready=False, since_s=0.0, stopping_s=1.1)
    assert next_actions(memory, _seen(m2=ended)) == [Action(verb=Verb.LAUNCH, slot="m2")]
    memory.places["m2"].kind = MemberKind.AWARE
    assert next_actions(memory, _seen(m2=STARTING)) == []
    assert next_actions(memory, _seen()) == [Action(verb=Verb.COMPLETE, slot="m2")]
    memory.applied(memory.places["m2"])
    assert memory.places["m2"].change_id == "c1"
    assert next_actions(memory, _seen()) == [Action(verb=Verb.TERMINATE, slot="m1")]


def test_a_member_that_does_not_end_is_killed():
    """SIGKILL comes when the stop deadline has passed."""
    memory = _memory()
    memory.accept("c1", ["m1"], MemberKind.AWARE)
    late = Observed(alive=True, ready=True, since_s=100.0, stopping_s=21.0)
    assert next_actions(memory, _seen(m1=late)) == [Action(verb=Verb.KILL, slot="m1")]
    assert next_actions(memory, _seen(m1=late), stop_s=60.0) == []


def test_a_repeated_change_is_accepted_once():
    """The same id again does nothing, also after it was applied and undone."""
    memory = _memory()
    assert memory.accept("c1", ["m1"], MemberKind.AWARE)
    memory.places["m1"].kind = MemberKind.AWARE
    memory.applied(memory.places["m1"])
    assert memory.accept("c2", ["m1"], MemberKind.ZOOKEEPER)
    assert not memory.accept("c1", ["m1"], MemberKind.AWARE)
    assert memory.places["m1"].wanted is MemberKind.ZOOKEEPER


def test_a_change_id_cannot_mean_two_things():
    """The same id with other slots is refused, and nothing changes."""
    memory = _memory()
    memory.accept("c1", ["m1"], MemberKind.AWARE)
    with pytest.raises(Rejected, match="'c1' was accepted before"):
        memory.accept("c1", ["m1", "m2"], MemberKind.AWARE)
    assert memory.queue == ["m1"]


def test_an_unknown_slot_is_refused_before_anything_changes():
    """The sentence names the slot and those there are."""
    memory = _memory()
    with pytest.raises(Rejected, match="slot 'm9' is unknown; this fleet has m1, m2, m3"):
        memory.accept("c1", ["m1", "m9"], MemberKind.AWARE)
    assert memory.queue == []
    assert memory.changes == {}


def test_a_slot_that_already_runs_the_kind_is_left_alone():
    """Nothing is replaced, and the change counts as applied."""
    memory = _memory()
    memory.accept("c1", ["m1"], MemberKind.ZOOKEEPER)
    assert next_actions(memory, _seen()) == []
    assert memory.places["m1"].change_id == "c1"


def test_a_dead_member_is_restarted_after_a_pause_unless_its_slot_is_held():
    """A crash restarts; a held slot stays as it is, and its change waits while others go on."""
    memory = _memory()
    assert next_actions(memory, _seen(m1=JUST_DIED)) == []
    assert next_actions(memory, _seen(m1=DEAD)) == [Action(verb=Verb.LAUNCH, slot="m1")]
    memory.places["m1"].held = True
    assert next_actions(memory, _seen(m1=DEAD)) == []
    memory.accept("c1", ["m1", "m2"], MemberKind.AWARE)
    assert next_actions(memory, _seen(m1=DEAD)) == [Action(verb=Verb.TERMINATE, slot="m2")]


def test_a_member_that_keeps_dying_is_restarted_more_and_more_slowly():
    """The pause grows with the deaths in a row and then stays."""
    pauses = []
    for deaths in range(6):
        seen = (Observed(alive=False, ready=False, since_s=s / 10, deaths=deaths) for s in range(200))
        pauses.append(next(one.since_s for one in seen if one.restart_due))
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1] == pauses[-2]


def test_undoing_a_change_in_progress_keeps_one_place_in_the_queue():
    """The slot is queued once, for the latest wish."""
    memory = _memory()
    memory.accept("c1", ["m1"], MemberKind.AWARE)
    memory.accept("c2", ["m1"], MemberKind.PLAIN)
    assert memory.queue == ["m1"]
    memory.accept("c3", ["m1"], MemberKind.ZOOKEEPER)
    assert memory.queue == []
    assert memory.places["m1"].change_id == "c3"


def vacate(memory: FleetMemory) -> None:
    """All three places are empty, by change c1."""
    memory.accept("c1", ["m1", "m2", "m3"], MemberKind.VACANT)
    for place in memory.places.values():
        memory.applied(place)


def test_slots_are_vacated_all_at_once_and_stay_so():
    """Everybody is asked to end in one turn; a slot is done when its process is gone, and nobody comes."""
    memory = _memory()
    memory.accept("c1", ["m1", "m2", "m3"], MemberKind.VACANT)
    assert [(each.verb, each.slot) for each in next_actions(memory, _seen())] == [
        (Verb.TERMINATE, name) for name in ("m1", "m2", "m3")
    ]
    ending = Observed(alive=True, ready=True, since_s=100.0, stopping_s=1.0)
    late = Observed(alive=True, ready=True, since_s=100.0, stopping_s=21.0)
    gone = Observed(alive=False, ready=False, since_s=0.0, stopping_s=1.1)
    assert next_actions(memory, _seen(m1=ending, m2=gone, m3=late)) == [
        Action(verb=Verb.COMPLETE, slot="m2"),
        Action(verb=Verb.KILL, slot="m3"),
    ]
    memory.places["m2"].pid, memory.places["m2"].ticks = 7, 7
    memory.applied(memory.places["m2"])
    m2 = memory.places["m2"]
    assert (m2.kind, m2.pid, m2.ticks, m2.change_id) == (MemberKind.VACANT, None, None, "c1")
    assert next_actions(memory, _seen(m1=ending, m2=DEAD, m3=ending)) == []


def test_a_member_that_is_dead_already_is_not_started_to_be_stopped():
    """Neither is one whose slot is held: its change waits."""
    memory = _memory()
    memory.places["m2"].held = True
    memory.accept("c1", ["m1", "m2"], MemberKind.VACANT)
    assert next_actions(memory, _seen(m1=DEAD, m2=DEAD)) == [Action(verb=Verb.COMPLETE, slot="m1")]


def test_vacant_slots_are_filled_all_at_once():
    """None waits for another, also not to be complete; one that dies early is started again after a pause."""
    memory = _memory()
    vacate(memory)
    memory.accept("c2", ["m1", "m2", "m3"], MemberKind.NATIVE)
    assert [(each.verb, each.slot) for each in next_actions(memory, _seen(m1=DEAD, m2=DEAD, m3=DEAD))] == [
        (Verb.LAUNCH, name) for name in ("m1", "m2", "m3")
    ]
    for place in memory.places.values():
        place.kind = place.wanted
    assert next_actions(memory, _seen(m1=STARTING, m3=JUST_DIED)) == [Action(verb=Verb.COMPLETE, slot="m2")]
    memory.applied(memory.places["m2"])
    assert next_actions(memory, _seen(m1=STARTING, m3=DEAD)) == [Action(verb=Verb.LAUNCH, slot="m3")]


def test_a_change_that_replaces_still_goes_one_by_one_after_a_vacancy():
    """Filled slots are like any others."""
    memory = _memory()
    vacate(memory)
    memory.accept("c2", ["m1", "m2", "m3"], MemberKind.PLAIN)
    for place in memory.places.values():
        place.kind = place.wanted
        memory.applied(place)
    memory.accept("c3", ["m1", "m2", "m3"], MemberKind.NATIVE)
    assert next_actions(memory, _seen()) == [Action(verb=Verb.TERMINATE, slot="m1")]


def test_an_emptying_that_is_taken_back_half_way_fills_what_is_empty():
    """The one that is gone is started at once; the one on its way out is started again when it is."""
    memory = _memory()
    memory.accept("c1", ["m1", "m2", "m3"], MemberKind.VACANT)
    memory.applied(memory.places["m1"])
    memory.accept("c2", ["m1", "m2", "m3"], MemberKind.ZOOKEEPER)
    ended = Observed(alive=False, ready=False, since_s=0.0, stopping_s=1.1)
    assert next_actions(memory, _seen(m1=DEAD)) == [Action(verb=Verb.LAUNCH, slot="m1")]
    memory.places["m1"].kind = MemberKind.ZOOKEEPER
    assert next_actions(memory, _seen(m1=RUNNING, m2=ended)) == [
        Action(verb=Verb.COMPLETE, slot="m1"),
        Action(verb=Verb.LAUNCH, slot="m2"),
    ]
