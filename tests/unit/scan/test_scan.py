"""Scans over simulated groups: windows, history, differences; waves, budget, brake and crashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.run import RunState
from groupshift.errors import Rejected, Transient
from groupshift.ports.runs import EventKind, RunRecord
from groupshift.scan import scan as scan_module
from groupshift.scan.group_state import Aspect, Life, Observed
from groupshift.scan.ports import EnsembleReader, ToggleRecord, ToggleState
from groupshift.scan.waves import WaveRules
from support.simulated_fleet import Deaf, Fleet, make_fleet, target_of

RULES = WaveRules(size=2, budget=2, stable_s=3_600)
RULES_AT_ONCE = replace(RULES, stable_s=0)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """No group yet."""
    made = make_fleet(tmp_path)
    yield made
    made.history.close()


def states_of(toggles: tuple[ToggleRecord, ...]) -> dict[str, ToggleState]:
    """How each group ended."""
    return {each.group: each.state for each in toggles}


def test_groups_are_read_in_bounded_windows(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; progress is told, the totals count every one of them."""
    monkeypatch.setattr(scan_module, "WINDOW", 4)
    for number in range(10):
        fleet.add(f"g{number}")
    told: list[tuple[int, int]] = []
    report = fleet.scans().scan(lambda done, total: told.append((done, total)))
    assert fleet.ensemble.windows == [4, 4, 2]
    assert told == [(0, 10), (4, 10), (8, 10), (10, 10)]
    assert report.former is None
    assert report.record.totals["groups"] == report.record.totals["active"] == 10


def test_the_second_scan_says_what_became_different(fleet: Fleet) -> None:
    """One group moved on, one came, one went, one is as it was."""
    for name in ("goes", "moves", "stays"):
        fleet.add(name, MemberKind.ZOOKEEPER)
    fleet.scan()
    del fleet.ensemble.worlds["goes"]
    fleet.add("comes")
    fleet.add("moves", MemberKind.AWARE)
    fleet.scan()
    scans = fleet.scans()
    report = scans.last()
    assert report.former is not None
    assert (report.former.number, report.record.number) == (1, 2)
    found = {(change.group, change.aspect) for change in scans.changes(2)}
    assert found == {
        ("comes", Aspect.APPEARED),
        ("goes", Aspect.VANISHED),
        ("moves", Aspect.MEMBERS),
        ("moves", Aspect.NEXT),
    }
    assert report.record.totals["changes"] == 4
    assert [state.group for state in scans.states()] == ["comes", "moves", "stays"]
    fleet.scan()
    assert list(scans.changes(3)) == []


def test_a_scan_that_was_killed_is_completed_by_the_next(fleet: Fleet) -> None:
    """It never counts as the last one, and what it had stored is no difference twice."""
    fleet.add("a")
    fleet.scan()
    fleet.history.begin("memory", 5)
    fleet.scan()
    last = fleet.scans().last()
    assert last.former is not None
    assert (last.former.number, last.record.number) == (1, 3)
    assert last.record.totals.get("changes", 0) == 0


def test_nothing_was_scanned_yet_is_one_sentence(fleet: Fleet) -> None:
    """With the way to do it."""
    with pytest.raises(Rejected, match="groupshift scan"):
        fleet.scans().last()


def test_a_group_whose_members_left_is_dead_and_rests_from_then_on(fleet: Fleet) -> None:
    """Reported as such, with the time counted anew."""
    world = fleet.add("a", MemberKind.ZOOKEEPER)
    before = fleet.scan()["a"]
    for occupant in world.places.values():
        occupant.running = False
    fleet.clock.sleep(60)
    after = fleet.scan()["a"]
    assert (before.life, after.life) == (Life.ACTIVE, Life.DEAD)
    assert after.stable_since_ms >= before.stable_since_ms


def test_without_execute_waves_are_planned_and_nothing_is_changed(fleet: Fleet) -> None:
    """In waves of the wanted size, smallest group first; an old group is not among them."""
    for name in ("a", "b", "c"):
        fleet.add(name)
    fleet.add("old", MemberKind.ZOOKEEPER)
    fleet.ensemble.worlds["a"].partitions = {"orders": 9}
    for at in fleet.ensemble.worlds["a"].all_partitions():
        fleet.ensemble.worlds["a"].znode[at] = fleet.ensemble.worlds["a"].kafka[at] = 0
    fleet.scan()
    scans = fleet.scans()
    waves = scans.toggle(scans.last(), RULES, execute=False)
    assert [(each.group, each.wave) for each in waves.toggles] == [("b", 1), ("c", 1), ("a", 2)]
    assert {each.state for each in waves.toggles} == {ToggleState.PLANNED}
    assert [world.mode_writes for world in fleet.ensemble.worlds.values()] == [0, 0, 0, 0]
    assert fleet.runs.recent(9) == ()


def test_waves_toggle_and_journal_every_fit_group(fleet: Fleet) -> None:
    """Each in a run of its own whose rollback is open; a second run has nothing left to do."""
    for name in ("a", "b", "c"):
        fleet.add(name)
    fleet.scan()
    scans, shown = fleet.scans(), list[ToggleRecord]()
    waves = scans.toggle(scans.last(), RULES, shown.append, execute=True)
    assert states_of(waves.toggles) == dict.fromkeys(("a", "b", "c"), ToggleState.DONE)
    assert (waves.left, waves.stopped) == ((), "")
    for each in waves.toggles:
        record = fleet.runs.find(each.run)
        kinds = [event.kind for event in fleet.runs.events(each.run)]
        assert (record.move, record.state) == ("coordination", RunState.MOVED)
        assert kinds.index(EventKind.INTENDED) < kinds.index(EventKind.ACTED)
        assert fleet.ensemble.worlds[each.group].mode.requested is Mode.KAFKA
    assert [each.state for each in shown if each.group == "a"] == [ToggleState.STARTED, ToggleState.DONE]
    assert states_of(scans.scans.toggles("memory", 1)) == states_of(waves.toggles)
    fleet.scan()
    again = scans.toggle(scans.last(), RULES, execute=True)
    assert again.toggles == ()
    assert [world.mode_writes for world in fleet.ensemble.worlds.values()] == [1, 1, 1]


def test_a_pulled_brake_starts_nothing_and_one_pulled_meanwhile_stops_the_rest(fleet: Fleet) -> None:
    """The reason is said; what was started is finished."""
    for name in ("a", "b", "c", "d"):
        fleet.add(name)
    fleet.scan()
    scans = fleet.scans()
    fleet.brake.pull("broker is down")
    held = scans.toggle(scans.last(), RULES, execute=True)
    assert (held.toggles, held.left, "broker is down" in held.stopped) == ((), ("a", "b", "c", "d"), True)

    fleet.brake.release()

    def pull(toggle: ToggleRecord) -> None:
        if toggle.group == "b" and toggle.state is ToggleState.DONE:
            fleet.brake.pull("enough")

    stopped = scans.toggle(scans.last(), RULES, pull, execute=True)
    assert states_of(stopped.toggles) == {"a": ToggleState.DONE, "b": ToggleState.DONE}
    assert (stopped.left, "enough" in stopped.stopped) == (("c", "d"), True)


def test_a_brake_pulled_within_a_wave_stops_its_next_group(fleet: Fleet) -> None:
    """Not only the next wave: what was not written yet is not written."""
    for name in ("a", "b", "c"):
        fleet.add(name)
    fleet.scan()
    scans = fleet.scans()

    def pull(toggle: ToggleRecord) -> None:
        if toggle.state is ToggleState.STARTED:
            fleet.brake.pull("now")

    waves = scans.toggle(scans.last(), replace(RULES, size=3, budget=3), pull, execute=True)
    assert states_of(waves.toggles) == {"a": ToggleState.DONE}
    assert waves.left == ("b", "c")
    assert [world.mode_writes for world in fleet.ensemble.worlds.values()] == [1, 0, 0]


def test_a_run_of_waves_that_is_repeated_has_no_new_budget_and_no_second_write(fleet: Fleet) -> None:
    """What the same scan has done stays done, what failed before still counts."""
    for name in ("a", "b", "c"):
        fleet.add(name)
    fleet.scan()
    scans = fleet.scans()
    deaf = fleet.scans(groups=Deaf(fleet, {"b"}))
    first = deaf.toggle(deaf.last(), replace(RULES, budget=1), execute=True)
    assert states_of(first.toggles) == {"a": ToggleState.DONE, "b": ToggleState.FAILED}
    second = deaf.toggle(deaf.last(), replace(RULES, budget=1), execute=True)
    assert (second.toggles, second.left) == ((), ("b", "c"))
    third = scans.toggle(scans.last(), replace(RULES, budget=2), execute=True)
    assert states_of(third.toggles) == {"b": ToggleState.DONE, "c": ToggleState.DONE}
    assert [each.wave for each in third.toggles] == [3, 4]
    assert [fleet.ensemble.worlds[name].mode_writes for name in ("a", "b", "c")] == [1, 3, 1]


def test_groups_that_do_not_settle_go_back_and_use_up_the_budget(fleet: Fleet) -> None:
    """No more than the budget is ever started and failed; the others are left and say why."""
    for name in ("a", "b", "c", "d"):
        fleet.add(name)
    fleet.scan()
    scans = fleet.scans(groups=Deaf(fleet, {"a", "b", "c", "d"}))
    waves = scans.toggle(scans.last(), replace(RULES, size=9), execute=True)
    assert states_of(waves.toggles) == {"a": ToggleState.FAILED, "b": ToggleState.FAILED}
    assert (waves.left, "error budget of 2 is used up" in waves.stopped) == (("c", "d"), True)
    assert "taken back to zookeeper mode" in waves.toggles[0].reason
    for name in ("a", "b"):
        world = fleet.ensemble.worlds[name]
        assert (world.mode.requested, world.mode_writes) == (Mode.ZOOKEEPER, 2)
        assert fleet.run_of(name).state is RunState.ROLLED_BACK


def test_a_group_that_is_not_fit_any_more_is_skipped_and_costs_no_budget(fleet: Fleet) -> None:
    """Its preconditions are asked again right before the write; nothing is changed, nothing stays open."""
    for name in ("a", "b", "c"):
        fleet.add(name)
    fleet.scan()
    for name in ("a", "b"):
        fleet.ensemble.worlds[name].strangers = ("kc-1",)
    scans = fleet.scans()
    waves = scans.toggle(scans.last(), replace(RULES, budget=1), execute=True)
    assert states_of(waves.toggles) == {
        "a": ToggleState.SKIPPED,
        "b": ToggleState.SKIPPED,
        "c": ToggleState.DONE,
    }
    assert "kc-1" in waves.toggles[0].reason
    assert fleet.ensemble.worlds["a"].mode_writes == 0
    assert fleet.run_of("a").state is RunState.REJECTED
    assert fleet.runs.in_the_way(target_of("a")) == ()


def test_a_group_that_somebody_toggled_since_the_scan_is_skipped(fleet: Fleet) -> None:
    """An unchanged value is never written (N7), and no run is made up for it."""
    fleet.add("a")
    fleet.scan()
    fleet.ensemble.worlds["a"].write_mode(b"kafka")
    scans = fleet.scans()
    (found,) = scans.toggle(scans.last(), RULES, execute=True).toggles
    assert (found.state, "holds kafka already" in found.reason) == (ToggleState.SKIPPED, True)
    assert fleet.ensemble.worlds["a"].mode_writes == 1
    assert fleet.runs.recent(9) == ()


def test_somebody_elses_open_run_is_left_alone(fleet: Fleet) -> None:
    """Skipped with the run's name, there and back; nothing is written."""
    for name, data in (("a", None), ("b", b"kafka")):
        fleet.add(name).write_mode(data)
    fleet.scan()
    scans = fleet.scans()
    for name in ("a", "b"):
        fleet.runs.create(foreign(name))
    there = scans.toggle(scans.last(), RULES, execute=True)
    back = scans.take_back(["b"], RULES, execute=True)
    for waves, name in ((there, "a"), (back, "b")):
        (found,) = waves.toggles
        assert (found.group, found.state) == (name, ToggleState.SKIPPED)
        assert f"theirs-{name}" in found.reason
    assert [world.mode_writes for world in fleet.ensemble.worlds.values()] == [1, 1]


def foreign(group: str) -> RunRecord:
    """An open run that a person began."""
    return RunRecord(
        run=f"theirs-{group}",
        move="coordination",
        target=target_of(group),
        state=RunState.RUNNING,
        plan="{}",
        plan_hash="0" * 64,
        created_at_ms=1,
        updated_at_ms=1,
    )


def test_groups_are_taken_back_by_name_and_pattern(fleet: Fleet) -> None:
    """Those of a scan's run and those that somebody toggled by hand; the rest stays in kafka mode."""
    for name in ("orders-a", "orders-b", "bills"):
        fleet.add(name)
    fleet.scan()
    scans = fleet.scans()
    scans.toggle(scans.last(), RULES, execute=True)
    fleet.add("by-hand").write_mode(b"kafka")
    fleet.scan()
    planned = scans.take_back(["orders-*"], RULES, execute=False)
    assert {each.state for each in planned.toggles} == {ToggleState.PLANNED}
    back = scans.take_back(["orders-*", "by-hand"], RULES, execute=True)
    assert states_of(back.toggles) == dict.fromkeys(("by-hand", "orders-a", "orders-b"), ToggleState.DONE)
    modes = {name: world.mode.requested for name, world in fleet.ensemble.worlds.items()}
    assert [name for name, mode in modes.items() if mode is Mode.KAFKA] == ["bills"]
    assert fleet.run_of("orders-a").state is RunState.ROLLED_BACK
    with pytest.raises(Rejected, match="'nobody' names no group"):
        scans.take_back(["nobody"], RULES, execute=True)


def test_a_plain_consumer_forbids_the_way_back(fleet: Fleet) -> None:
    """D11: skipped with the member's name, before anything is written or journaled."""
    fleet.add("a").write_mode(b"kafka")
    fleet.ensemble.worlds["a"].strangers = ("kc-1",)
    fleet.scan()
    back = fleet.scans().take_back(["a"], RULES, execute=True)
    assert back.toggles[0].state is ToggleState.SKIPPED
    assert "kc-1" in back.toggles[0].reason
    assert fleet.runs.recent(9) == ()


def test_values_that_cannot_be_used_are_refused_before_anything(fleet: Fleet) -> None:
    """Also without execute."""
    fleet.add("a")
    fleet.scan()
    scans = fleet.scans()
    with pytest.raises(Rejected, match="error budget 0"):
        scans.toggle(scans.last(), WaveRules(budget=0), execute=False)


class Silent:
    """An ensemble that answers the listing and then nothing."""

    name = "memory"

    def groups(self) -> tuple[str, ...]:
        return ("a",)

    def read(self, groups: Sequence[str]) -> tuple[Observed, ...]:
        raise Transient(f"ZooKeeper does not answer for {groups}")


def test_a_silent_ensemble_is_transient_and_the_scan_never_counts(fleet: Fleet) -> None:
    """The next scan starts over."""
    with pytest.raises(Transient):
        replace(fleet.scans(), reader=Silent()).scan(lambda _done, _total: None)
    assert fleet.history.latest("memory") is None
    fleet.add("a")
    fleet.scan()
    assert fleet.scans().last().record.number == 2


def test_s03_a_group_that_breaks_its_reader_is_a_group_with_a_problem(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others are read and judged as ever; the broken one is named and ready for nothing."""
    for number in range(9):
        fleet.add(f"g{number}")
    scans = fleet.scans()
    read = type(scans.reader).read

    def breaking(reader: EnsembleReader, groups: Sequence[str]) -> tuple[Observed, ...]:
        if "g3" in groups:
            raise RecursionError("maximum recursion depth exceeded")
        return read(reader, groups)

    monkeypatch.setattr(type(scans.reader), "read", breaking)
    report = scans.scan(lambda _done, _total: None)
    states = {state.group: state for state in scans.states()}
    assert report.record.totals["groups"] == len(states) == 9
    assert [group for group, state in states.items() if state.problems] == ["g3"]
    assert "group 'g3' cannot be read (RecursionError: maximum" in states["g3"].problems[0]
    assert scans.fit(RULES_AT_ONCE) == tuple(f"g{number}" for number in range(9) if number != 3)


def test_s03_a_group_that_breaks_a_rule_is_a_group_with_a_problem(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read of it breaks what judges it."""
    for number in range(3):
        fleet.add(f"g{number}")
    judge = scan_module.state_of

    def breaking(observed: Observed, before: object) -> object:
        if observed.view.group == "g1":
            raise ZeroDivisionError("not foreseen")
        return judge(observed, before)  # type: ignore[arg-type]

    monkeypatch.setattr(scan_module, "state_of", breaking)
    states = fleet.scan()
    assert [group for group, state in states.items() if state.problems] == ["g1"]
    assert states["g1"].life is Life.ACTIVE


def test_what_concerns_every_group_still_ends_the_scan(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is no problem of a group."""
    fleet.add("g0")
    scans = fleet.scans()

    def silent(_reader: EnsembleReader, _groups: Sequence[str]) -> tuple[Observed, ...]:
        raise Transient("no answer")

    monkeypatch.setattr(type(scans.reader), "read", silent)
    with pytest.raises(Transient, match="no answer"):
        scans.scan(lambda _done, _total: None)
