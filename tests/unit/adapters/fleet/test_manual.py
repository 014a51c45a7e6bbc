"""The driver that tells a person."""

from __future__ import annotations

from groupshift.adapters.fleet.manual import ManualFleet
from groupshift.domain.coordination import MemberKind
from groupshift.ports.fleet import Change, FleetDriver, Pending


def _change(to: MemberKind) -> Change:
    return Change(change_id="c1", group="orders-app", slots=("m1", "m2"), to=to)


def test_starting_a_change_answers_with_what_to_deploy_and_where():
    """Group, every slot, the new kind and the change id are in the text; asking again gives the same."""
    driver: FleetDriver = ManualFleet()
    answer = driver.start(_change(MemberKind.AWARE))
    assert isinstance(answer, Pending)
    for part in ("`orders-app`", "- m1", "- m2", "MigratingConsumer", "`c1`", "*aware*"):
        assert part in answer.instruction
    assert driver.start(_change(MemberKind.AWARE)) == answer


def test_each_kind_is_named_as_people_know_it():
    """A different instruction for each kind, and for nobody."""
    texts = {
        answer.instruction
        for kind in MemberKind
        if isinstance(answer := ManualFleet().start(_change(kind)), Pending)
    }
    assert len(texts) == len(MemberKind)


def test_the_driver_itself_never_claims_that_people_are_done():
    """Only the group view knows."""
    status = ManualFleet().observe(_change(MemberKind.PLAIN))
    assert not status.done
    assert "plain members on m1, m2" in status.detail
    assert ManualFleet().slots("orders-app") == ()
