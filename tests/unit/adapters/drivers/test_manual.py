"""The driver that tells a person."""

from __future__ import annotations

from dataclasses import replace

from groupshift.adapters.drivers.manual import ManualFleet
from groupshift.domain.modes import MemberKind
from groupshift.ports.driver import Change, FleetDriver, ForPerson


def _change(to: MemberKind) -> Change:
    return Change(change_id="c1", group="orders-app", slots=("m1", "m2"), to=to)


def test_starting_a_change_answers_with_what_to_deploy_and_where():
    """Group, every slot, the new kind and the change id are in the text; asking again gives the same."""
    driver: FleetDriver = ManualFleet()
    answer = driver.start(_change(MemberKind.AWARE))
    assert isinstance(answer, ForPerson)
    for part in ("`orders-app`", "- m1", "- m2", "MigratingConsumer", "`c1`", "*aware*"):
        assert part in answer.instruction
    assert driver.start(_change(MemberKind.AWARE)) == answer


def test_each_kind_is_named_as_people_know_it():
    """A different instruction for each kind, and for nobody."""
    texts = {
        answer.instruction
        for kind in MemberKind
        if isinstance(answer := ManualFleet().start(_change(kind)), ForPerson)
    }
    assert len(texts) == len(MemberKind)


def test_the_driver_itself_never_claims_that_people_are_done():
    """Only the group view knows."""
    status = ManualFleet().observe(_change(MemberKind.PLAIN))
    assert not status.done
    assert "plain members on m1, m2" in status.detail
    assert ManualFleet().slots("orders-app") == ()


def test_u10_a_rollback_asks_for_those_that_were_replaced_with_their_hosts():
    """Not for places that were never replaced; what goes is not called old, what comes is what ran before."""
    from groupshift.ports.driver import Occupant

    there = (Occupant(member_id="orders-app_m1-2", kind=MemberKind.AWARE, host="web-7"),)
    change = replace(_change(MemberKind.ZOOKEEPER), undoes=("m:canary", "m:roll"), occupants=there)
    text = ManualFleet().start(change).instruction
    assert "- orders-app_m1-2 on host web-7, now *aware*" in text
    assert "**Take 1 member(s) of group `orders-app` back**" in text
    assert "ZooKeeper consumer it ran before" in text
    assert "- m2" not in text
    assert "the old member" not in text
    assert "the new one" not in text


def test_u10_a_rollback_of_what_nobody_deployed_asks_to_replace_nobody():
    """The act was asked for and not done: there is nobody to stop."""
    change = replace(_change(MemberKind.ZOOKEEPER), undoes=("m:canary",), occupants=())
    text = ManualFleet().start(change).instruction
    assert "**No member of group `orders-app` has to be replaced**" in text
    assert "SIGTERM" not in text


def test_u10_a_member_to_be_replaced_is_named_with_its_host():
    """Forward, too, where the group tells it; a name is no markup."""
    from groupshift.ports.driver import Occupant

    there = (
        Occupant(member_id="m1", kind=MemberKind.ZOOKEEPER, host="web-7"),
        Occupant(member_id="[m2](http://evil)", kind=MemberKind.ZOOKEEPER),
    )
    text = ManualFleet().start(replace(_change(MemberKind.AWARE), occupants=there)).instruction
    assert "- m1 on host web-7, now *old*" in text
    assert "[m2](http://evil)" not in text


def test_u10_a_stopped_group_names_hosts_too():
    """Offline: all of them stop, each where it runs."""
    from groupshift.ports.driver import Occupant

    there = (Occupant(member_id="m1", kind=MemberKind.PLAIN, host="web-7"),)
    text = ManualFleet().start(replace(_change(MemberKind.VACANT), occupants=there)).instruction
    assert "- m1 on host web-7" in text


def test_u10_where_nobody_is_nobody_is_asked_to_be_stopped():
    """An offline move starts all members of a stopped group; the other kinds, too."""
    for kind in (MemberKind.NATIVE, MemberKind.PLAIN, MemberKind.AWARE, MemberKind.ZOOKEEPER):
        text = ManualFleet().start(replace(_change(kind), occupants=())).instruction
        assert "**Start 2 member(s) of group `orders-app`**" in text
        assert "- m1\n- m2" in text
        assert "SIGTERM" not in text
        assert "Replace" not in text
        assert f"*{kind.value}*" in text


def test_u10_a_place_without_a_member_is_not_left_out():
    """One of two members died before the person came: both places are named."""
    from groupshift.ports.driver import Occupant

    there = (Occupant(member_id="m1", kind=MemberKind.ZOOKEEPER, host="web-7"),)
    text = ManualFleet().start(replace(_change(MemberKind.AWARE), occupants=there)).instruction
    assert "- m1 on host web-7, now *old*" in text
    assert "Nobody is at some of the places m1, m2: start a new member there, too." in text
    both = (*there, Occupant(member_id="m2", kind=MemberKind.ZOOKEEPER))
    text = ManualFleet().start(replace(_change(MemberKind.AWARE), occupants=both)).instruction
    assert "Nobody is at" not in text


def test_u10_who_waits_for_a_stop_says_so():
    """Nobody deploys members that are nobody."""
    detail = ManualFleet().observe(_change(MemberKind.VACANT)).detail
    assert detail == "waiting for a person to stop the members at m1, m2"
