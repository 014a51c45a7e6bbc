"""The fleet driver port's contract, as tests that every driver has to pass: a module imports them all and
gives a fixture ``fleet`` of three running old members of `GROUP` in two workloads at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from groupshift.domain.facts import SlotState
from groupshift.domain.modes import MemberKind
from groupshift.errors import Conflict, Rejected
from groupshift.ports.driver import Change, ChangeStatus, FleetDriver, Started
from groupshift_sandbox.processes import wait_until

GROUP = "orders-app"
FENCE = "orders-app-20261121"
DEADLINE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A driver under test; ``reopen`` makes the one that another process would have; ``hold`` keeps the next
    occupant of a slot from ever running until ``release``; ``vacates`` tells that it can keep slots empty."""

    reopen: Callable[[], FleetDriver]
    hold: Callable[[str], None]
    release: Callable[[str], None]
    vacates: bool = True

    @property
    def driver(self) -> FleetDriver:
        """A driver that remembers nothing of earlier calls."""
        return self.reopen()

    @property
    def order(self) -> tuple[str, ...]:
        """The slots in the order of replacement."""
        return tuple(slot.name for slot in self.driver.slots(GROUP))

    def kinds(self) -> list[MemberKind]:
        """What runs in the slots, in that order."""
        return [slot.kind for slot in self.driver.slots(GROUP)]

    def members(self) -> dict[str, str | None]:
        """Who is in the slots."""
        return {slot.name: slot.member_id for slot in self.driver.slots(GROUP)}

    def carry_out(self, change: Change) -> ChangeStatus:
        """Start a change and wait until it is done."""
        assert self.driver.start(change) == Started(change_id=change.change_id)
        wait_until(
            lambda: self.driver.observe(change).done, DEADLINE_S, f"{change.change_id} done", every_s=0.1
        )
        return self.driver.observe(change)


def change(change_id: str, *slots: str, to: MemberKind = MemberKind.AWARE, token: int = 1) -> Change:
    """A change of this run."""
    return Change(change_id=change_id, group=GROUP, slots=slots, to=to, fence=FENCE, token=token)


def back(change_id: str, *slots: str, undoes: tuple[str, ...], token: int = 1) -> Change:
    """The rollback to old members."""
    return replace(change(change_id, *slots, to=MemberKind.ZOOKEEPER, token=token), undoes=undoes)


def test_every_slot_is_listed_with_its_member(fleet: Fleet) -> None:
    """Three old members of this group run, each with an id of its own; another group has none."""
    slots = fleet.driver.slots(GROUP)
    assert [(slot.kind, slot.state) for slot in slots] == [(MemberKind.ZOOKEEPER, SlotState.RUNNING)] * 3
    ids = {slot.member_id for slot in slots}
    assert len(ids) == 3
    assert all(each is not None and each.startswith(f"{GROUP}_") for each in ids)
    assert fleet.driver.slots("another-group") == ()


def test_a_canary_replaces_the_named_slot_only_and_the_roll_the_rest(fleet: Fleet) -> None:
    """New members of the wanted kind there, the same members elsewhere."""
    first, *rest = fleet.order
    before = fleet.members()
    status = fleet.carry_out(change("canary", first))
    assert [(slot.name, slot.change_id) for slot in status.slots] == [(first, "canary")]
    assert fleet.kinds() == [MemberKind.AWARE, MemberKind.ZOOKEEPER, MemberKind.ZOOKEEPER]
    after = fleet.members()
    assert {name: after[name] for name in rest} == {name: before[name] for name in rest}
    assert after[first] not in {None, before[first]}
    fleet.carry_out(change("roll", *rest))
    assert fleet.kinds() == [MemberKind.AWARE] * 3
    assert fleet.members()[first] == after[first]


def test_a_repeated_change_is_not_applied_twice(fleet: Fleet) -> None:
    """Not right away, not after it was done, and not by another process."""
    once = change("canary", fleet.order[0])
    fleet.driver.start(once)
    fleet.carry_out(once)
    member = fleet.members()[fleet.order[0]]
    assert fleet.reopen().start(once) == Started(change_id="canary")
    assert fleet.members()[fleet.order[0]] == member
    assert fleet.driver.observe(once).done


def test_a_change_id_cannot_mean_two_things(fleet: Fleet) -> None:
    """The same id for other slots is refused."""
    fleet.carry_out(change("canary", fleet.order[0]))
    with pytest.raises(Rejected, match="accepted before"):
        fleet.driver.start(change("canary", *fleet.order))
    with pytest.raises(Rejected, match="accepted before"):
        fleet.driver.start(change("canary", *fleet.order[1:]))
    assert fleet.kinds() == [MemberKind.AWARE, MemberKind.ZOOKEEPER, MemberKind.ZOOKEEPER]


def test_a_change_that_was_never_started_is_not_done(fleet: Fleet) -> None:
    """Even though its slots would run the kind already."""
    assert not fleet.driver.observe(change("never", fleet.order[0])).done
    assert not fleet.driver.observe(change("never", fleet.order[0], to=MemberKind.ZOOKEEPER)).done


def test_every_driver_tells_whether_it_took_a_change_up(fleet: Fleet) -> None:
    """Not before, at once after, in any process, also for a change that is not done yet."""
    canary, stuck = change("canary", fleet.order[0]), change("roll", *fleet.order[1:])
    assert not fleet.driver.took_up(canary)
    fleet.carry_out(canary)
    assert fleet.reopen().took_up(canary)
    assert not fleet.driver.took_up(stuck)
    fleet.hold(fleet.order[-1])
    fleet.driver.start(stuck)
    assert fleet.reopen().took_up(stuck)
    assert fleet.reopen().took_up(canary)
    fleet.release(fleet.order[-1])
    wait_until(lambda: fleet.reopen().observe(stuck).done, DEADLINE_S, "all slots run", every_s=0.1)


def test_the_way_back_brings_the_old_members_again(fleet: Fleet) -> None:
    """One change that takes back two; and a move there is possible again after it."""
    fleet.carry_out(change("canary", fleet.order[0]))
    fleet.carry_out(change("roll", *fleet.order[1:]))
    fleet.carry_out(back("undo", *fleet.order, undoes=("canary", "roll"), token=2))
    assert fleet.kinds() == [MemberKind.ZOOKEEPER] * 3
    fleet.carry_out(change("again", fleet.order[0], token=3))
    assert fleet.kinds() == [MemberKind.AWARE, MemberKind.ZOOKEEPER, MemberKind.ZOOKEEPER]


def test_a_canary_alone_is_taken_back(fleet: Fleet) -> None:
    """The other members are not touched by that."""
    before = fleet.members()
    fleet.carry_out(change("canary", fleet.order[0]))
    fleet.carry_out(back("undo", fleet.order[0], undoes=("canary",), token=2))
    assert fleet.kinds() == [MemberKind.ZOOKEEPER] * 3
    after = fleet.members()
    assert [after[name] for name in fleet.order[1:]] == [before[name] for name in fleet.order[1:]]


def test_taking_back_what_never_began_changes_nothing(fleet: Fleet) -> None:
    """A run killed before its change reached the fleet can be taken back too."""
    before = fleet.members()
    fleet.carry_out(back("undo", *fleet.order, undoes=("canary", "roll")))
    assert fleet.kinds() == [MemberKind.ZOOKEEPER] * 3
    assert fleet.members() == before


def test_a_fenced_run_is_refused(fleet: Fleet) -> None:
    """A token below the highest one met under its fence changes nothing; other fences are not concerned."""
    first = fleet.order[0]
    fleet.carry_out(change("canary", first, token=1))
    fleet.carry_out(back("undo", first, undoes=("canary",), token=2))
    before = fleet.members()
    for late in (change("roll", *fleet.order[1:], token=1), change("canary", first, token=1)):
        with pytest.raises(Conflict, match="token 1 of"):
            fleet.driver.start(late)
    assert fleet.members() == before
    other = replace(change("other", first, token=1), fence="another-run")
    assert fleet.driver.start(other) == Started(change_id="other")


def test_a_change_of_no_slots_raises_the_fence(fleet: Fleet) -> None:
    """What a roll back does first: a run that was asleep until then can start nothing more."""
    before = fleet.members()
    held = change("roll_back:2", token=2)
    assert fleet.driver.start(held) == Started(change_id="roll_back:2")
    with pytest.raises(Conflict, match="token 1 of"):
        fleet.driver.start(change("canary", fleet.order[0], token=1))
    assert fleet.members() == before


def test_an_unknown_slot_is_refused_and_nothing_changes(fleet: Fleet) -> None:
    """Rejected names the slot; the other named slot keeps its member."""
    before = fleet.driver.slots(GROUP)
    with pytest.raises(Rejected, match="m9"):
        fleet.driver.start(change("canary", fleet.order[0], "m9"))
    assert fleet.driver.slots(GROUP) == before
    with pytest.raises(Rejected, match="m9"):
        fleet.driver.observe(change("canary", "m9"))


def test_half_a_change_is_seen_as_half_and_ends_when_it_can(fleet: Fleet) -> None:
    """One slot whose new member never runs is named, by a driver that did not start the change."""
    stuck = fleet.order[-1]
    fleet.hold(stuck)
    whole = change("roll", *fleet.order)
    fleet.driver.start(whole)

    def others_run() -> bool:
        slots = fleet.reopen().observe(whole).slots
        running = [slot.name for slot in slots if slot.state is SlotState.RUNNING and slot.kind is whole.to]
        return bool(running) and stuck not in running

    wait_until(others_run, DEADLINE_S, "the other slots run", every_s=0.1)
    status = fleet.reopen().observe(whole)
    assert not status.done
    assert stuck in status.detail
    fleet.release(stuck)
    wait_until(lambda: fleet.reopen().observe(whole).done, DEADLINE_S, "all slots run", every_s=0.1)


def test_plain_members_become_native_and_plain_again(fleet: Fleet) -> None:
    """Both kinds of Kafka's own consumers are kinds like the others, each time with new members."""
    fleet.carry_out(change("plain", *fleet.order, to=MemberKind.PLAIN))
    before = fleet.members()
    fleet.carry_out(change("canary", fleet.order[0], to=MemberKind.NATIVE))
    assert fleet.kinds() == [MemberKind.NATIVE, MemberKind.PLAIN, MemberKind.PLAIN]
    fleet.carry_out(change("native", *fleet.order, to=MemberKind.NATIVE))
    assert fleet.kinds() == [MemberKind.NATIVE] * 3
    native = fleet.members()
    assert all(native[name] not in {None, before[name]} for name in fleet.order)
    fleet.carry_out(change("back", *fleet.order, to=MemberKind.PLAIN, token=2))
    assert fleet.kinds() == [MemberKind.PLAIN] * 3


def test_slots_are_kept_empty_until_they_are_filled(fleet: Fleet) -> None:
    """Done when every member is gone; nobody comes by himself; then all come again as the wanted kind. A
    driver that cannot do it refuses before anything is changed."""
    before = fleet.driver.slots(GROUP)
    empty = change("empty", *fleet.order, to=MemberKind.VACANT)
    if not fleet.vacates:
        with pytest.raises(Rejected, match="cannot keep places empty"):
            fleet.driver.start(empty)
        assert fleet.driver.slots(GROUP) == before
        return
    status = fleet.carry_out(empty)
    assert [(slot.kind, slot.state, slot.change_id) for slot in status.slots] == [
        (MemberKind.VACANT, SlotState.DOWN, "empty")
    ] * 3
    assert status.detail == "3 slots are vacant"
    assert fleet.reopen().start(empty) == Started(change_id="empty")
    assert fleet.kinds() == [MemberKind.VACANT] * 3
    fleet.carry_out(change("fill", *fleet.order, to=MemberKind.NATIVE))
    assert fleet.kinds() == [MemberKind.NATIVE] * 3
    members = {slot.name: slot.member_id for slot in before}
    assert all(now not in {None, members[name]} for name, now in fleet.members().items())


def test_an_emptying_is_taken_back(fleet: Fleet) -> None:
    """The former kind runs again, whether its members had ended or not."""
    if not fleet.vacates:
        pytest.skip("this driver keeps no place empty")
    fleet.driver.start(change("empty", *fleet.order, to=MemberKind.VACANT))
    fleet.carry_out(back("undo", *fleet.order, undoes=("empty",), token=2))
    assert [(slot.kind, slot.state) for slot in fleet.driver.slots(GROUP)] == [
        (MemberKind.ZOOKEEPER, SlotState.RUNNING)
    ] * 3
