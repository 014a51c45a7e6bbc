"""The contract of the scans' history, as tests that every such history has to pass: a module imports them all
and gives a fixture ``scans``, an empty one with pages of three rows where it reads in pages."""

from __future__ import annotations

from dataclasses import replace

from groupshift.domain.modes import Mode
from groupshift.scan.group_state import Aspect, GroupChange, GroupState, Life
from groupshift.scan.ports import Scans, ToggleRecord, ToggleState

HERE = "zk:2181/kafka"


def state(group: str, **values: object) -> GroupState:
    """A state to store."""
    return GroupState(group=group, taken_at_ms=5, life=Life.ACTIVE, **values)


def test_numbers_rise_per_ensemble_and_only_ended_scans_are_compared_with(scans: Scans) -> None:
    """A scan that was killed is no former one."""
    first, second, other = scans.begin(HERE, 1), scans.begin(HERE, 2), scans.begin("elsewhere", 3)
    assert (first.number, second.number, other.number) == (1, 2, 1)
    assert scans.latest(HERE) is None
    ended = replace(first, ended_at_ms=9, totals={"groups": 2})
    scans.end(ended)
    assert scans.latest(HERE) == ended
    assert scans.latest(HERE, before=1) is None


def test_the_last_state_counts_and_pages_lose_nothing(scans: Scans) -> None:
    """More groups than a page holds, in order of their names; other ensembles are apart."""
    first, second, other = scans.begin(HERE, 1), scans.begin(HERE, 2), scans.begin("elsewhere", 3)
    names = [f"g{number:02}" for number in range(8)]
    scans.put(first, [state(name) for name in reversed(names)], [])
    scans.put(other, [state("theirs")], [])
    scans.put(second, [state("g03", lag=7)], [])
    assert [each.group for each in scans.states(HERE)] == names
    assert scans.known(HERE, ["g03", "theirs", "nobody"]) == {"g03": state("g03", lag=7)}
    assert scans.known(HERE, []) == {}


def test_changes_come_back_by_group_and_several_of_one_group_may_cross_a_page(scans: Scans) -> None:
    """Each aspect once; storing a window again changes nothing."""
    record = scans.begin(HERE, 1)
    found = [
        GroupChange(group=group, aspect=aspect, before="a", after="b")
        for group in ("x", "y")
        for aspect in (Aspect.LIFE, Aspect.MEMBERS, Aspect.MODE, Aspect.NEXT)
    ]
    for _ in range(2):
        scans.put(record, [], found)
    assert list(scans.changes(HERE, 1)) == sorted(found, key=lambda each: (each.group, each.aspect))
    assert list(scans.changes(HERE, 2)) == []


def test_a_sweep_forgets_what_the_scan_did_not_see_and_keeps_that_as_a_change(scans: Scans) -> None:
    """Also over several pages; other ensembles are left alone."""
    first, other = scans.begin(HERE, 1), scans.begin("elsewhere", 1)
    scans.put(first, [state(f"g{number}", old=1) for number in range(8)], [])
    scans.put(other, [state("theirs")], [])
    second = scans.begin(HERE, 2)
    scans.put(second, [state("g4")], [])
    assert scans.sweep(second) == 7
    assert [each.group for each in scans.states(HERE)] == ["g4"]
    gone = list(scans.changes(HERE, 2))
    assert [each.group for each in gone] == ["g0", "g1", "g2", "g3", "g5", "g6", "g7"]
    assert {(each.aspect, each.before) for each in gone} == {(Aspect.VANISHED, "active, 1 old")}
    assert [each.group for each in scans.states("elsewhere")] == ["theirs"]
    assert scans.sweep(second) == 0


def test_the_last_word_on_a_toggle_counts(scans: Scans) -> None:
    """Per scan, wave and group."""
    record = scans.begin(HERE, 1)
    begun = ToggleRecord(group="g", to=Mode.KAFKA, wave=1, state=ToggleState.STARTED, at_ms=1)
    done = replace(begun, state=ToggleState.DONE, at_ms=2, run="m", reason="settled")
    again = replace(done, wave=2)
    for toggle in (begun, done, again):
        scans.put_toggle(record, toggle)
    assert scans.toggles(HERE, 1) == (done, again)
    assert scans.toggles(HERE, 2) == ()


def test_groups_come_in_the_order_of_their_code_points(scans: Scans) -> None:
    """Across pages, too, whatever language a database speaks: a report is the same everywhere."""
    names = ["B", "_x", "a", "ä", "-", "Ω", "b", "A"]
    record = scans.begin(HERE, 1)
    scans.put(record, [state(name) for name in names], [])
    assert [each.group for each in scans.states(HERE)] == sorted(names)
