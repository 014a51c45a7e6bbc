"""Toggles of scans as runs of the one engine: killed, taken over, taken back, in doubt, interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupshift.domain.modes import Mode, ModeNode
from groupshift.domain.plan import WayBack
from groupshift.domain.run import Outcome, RunState, SparkJob, StepState
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.begin import claim
from groupshift.engine.move import Run, RunOptions, Tools
from groupshift.engine.progress import Ended, Paused
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import drive
from groupshift.engine.run_end import closing_of
from groupshift.engine.watch import watch
from groupshift.errors import Transient
from groupshift.moves.coordination.move import CoordinationMove, ModeAlone
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind
from groupshift.scan.ports import ToggleRecord, ToggleState
from groupshift.scan.toggles import Toggle
from groupshift.scan.waves import WaveRules
from groupshift_testing.evidence import MemoryProof
from groupshift_testing.world import Killed, MemoryModeSwitch
from support.simulated_fleet import Deaf, Fleet, make_fleet
from support.simulated_runs import KillAt

RULES = WaveRules(size=2, budget=2, stable_s=3_600)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """No group yet."""
    made = make_fleet(tmp_path)
    yield made
    made.history.close()


def states_of(toggles: tuple[ToggleRecord, ...]) -> dict[str, ToggleState]:
    """How each group ended."""
    return {each.group: each.state for each in toggles}


def claimed(fleet: Fleet, run: str, holder: str = "cli-back") -> Run[Any]:
    """A person's process claims a run, as the command line does; it takes it over."""
    proof = MemoryProof(fleet.evidence)

    def submit(job: SparkJob) -> None:
        proof.run(job)

    options = RunOptions(who="ann", holder=holder, submit=submit)
    tools = Tools(runs=fleet.runs, clock=fleet.clock)
    record = fleet.runs.find(run)
    return claim(CoordinationMove(), tools, fleet.ports(), record, options, take_over=True)


def test_a_toggle_of_a_wave_is_taken_back_by_roll_back_like_any_run(fleet: Fleet) -> None:
    """With its snapshots and proof: the journal knows what a scan did as it knows a move."""
    fleet.add("a")
    fleet.scan()
    scans = fleet.scans()
    run = claimed(fleet, scans.toggle(scans.last(), RULES, execute=True).toggles[0].run)
    assert begin_roll_back(run, WayBack.ZOOKEEPER_MODE)
    ended = drive(run)
    assert isinstance(ended, Ended), ended
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.PASS)
    assert "proven equal" in ended.closing.reason
    assert {"snapshot", "compare", "judge", "set_mode"} <= {each.kind for each in run.plan.steps}
    assert fleet.ensemble.worlds["a"].mode.requested is Mode.ZOOKEEPER


def test_what_a_scan_did_can_be_watched_and_reported(fleet: Fleet) -> None:
    """There and back, its end says where it led to, and the move's own parts are there."""
    fleet.add("a")
    fleet.add("by-hand").write_mode(b"kafka")
    fleet.scan()
    scans, move = fleet.scans(), CoordinationMove()
    there = scans.toggle(scans.last(), RULES, execute=True).toggles[0].run
    back = scans.take_back(["by-hand"], RULES, execute=True).toggles[0].run
    tools, said = Tools(runs=fleet.runs, clock=fleet.clock), dict[str, str]()
    for name in (there, back):
        run = Run.reader(move, tools, fleet.ports(), name)
        said[name] = closing_of(run).reason
        assert watch(move, tools, fleet.ports(), name).outcome is Outcome.PASS
        assert [each.title for each in move.report(run)] == ["The move", "Judgements"]
    assert said == {
        there: "Kafka coordinates the group, its members still on MigratingConsumer; the rollback is open",
        back: "set back to zookeeper mode",
    }
    fleet.scan()
    taken = scans.take_back(["a"], RULES, execute=True).toggles[0]
    assert taken.run == there
    assert closing_of(Run.reader(move, tools, fleet.ports(), there)).reason == "rolled back to zookeeper mode"


def test_what_a_scan_took_back_may_be_taken_further_back(fleet: Fleet) -> None:
    """A scan compares nothing: its inverse is judged again by live rules alone, and the members follow."""
    fleet.add("a")
    fleet.scan()
    scans = fleet.scans()
    there = scans.toggle(scans.last(), RULES, execute=True).toggles[0].run
    fleet.scan()
    assert scans.take_back(["a"], RULES, execute=True).toggles[0].run == there
    run = claimed(fleet, there)
    assert begin_roll_back(run, WayBack.OLD_MEMBERS)
    assert [each.name for each in run.plan.steps[:2]] == ["undo_toggle/set_mode", "undo_toggle/judge after"]
    run.options = replace(run.options, phases=frozenset({"undo_toggle"}))
    assert isinstance(drive(run), Paused), "and no further: this fleet has no places"
    assert {each.phase for each in run.plan.steps[2:]} == {"undo_members"}
    assert all(run.records[each.key].state is StepState.DONE for each in run.plan.steps[:2])


def test_a_toggle_of_a_scan_that_a_person_goes_on_with_goes_back_by_the_mode_alone(fleet: Fleet) -> None:
    """No member is replaced, though the move could: the plan of a scan replaced none."""
    fleet.add("a")
    fleet.scan()
    scans = fleet.scans(KillAt("toggle/set_mode", CrashPoint.AFTER_ACT))
    with pytest.raises(Killed):
        scans.toggle(scans.last(), RULES, execute=True)
    run = claimed(fleet, fleet.run_of("a").run)
    run.ports = fleet.ports(Deaf(fleet, {"a"}))
    ended = drive(run)
    assert isinstance(ended, Ended), ended
    assert ended.closing.state is RunState.ROLLED_BACK
    assert run.rollbacks()[0].body["to"] == WayBack.ZOOKEEPER_MODE
    assert {each.kind for each in run.plan.steps} <= {"snapshot", "compare", "judge", "set_mode"}


@pytest.mark.parametrize(
    "point", [CrashPoint.AFTER_JOURNAL, CrashPoint.AFTER_ACT, CrashPoint.AFTER_READ_BACK]
)
def test_a_scan_killed_while_it_toggles_is_continued_by_the_next(fleet: Fleet, point: CrashPoint) -> None:
    """Same end, one write, one run; the next scan knows its own and goes on with it."""
    fleet.add("a")
    fleet.scan()
    scans = fleet.scans(KillAt("toggle/set_mode", point))
    with pytest.raises(Killed):
        scans.toggle(scans.last(), RULES, execute=True)
    again = fleet.scans()
    waves = again.waves(again.last(), RULES).run(("a",), Mode.KAFKA, execute=True)
    assert states_of(waves.toggles) == {"a": ToggleState.DONE}
    assert fleet.ensemble.worlds["a"].mode_writes == 1
    (record,) = fleet.runs.recent(9)
    assert record.state is RunState.MOVED


def test_a_scan_killed_while_it_takes_a_group_back_is_continued_by_the_next(fleet: Fleet) -> None:
    """That group failed, whoever finishes it; nothing is written twice, and the run is closed."""
    fleet.add("a")
    fleet.scan()
    scans = fleet.scans(KillAt("01 toggle/set_mode"), groups=Deaf(fleet, {"a"}))
    with pytest.raises(Killed):
        scans.toggle(scans.last(), RULES, execute=True)
    assert fleet.run_of("a").state is RunState.ROLLING_BACK
    again = fleet.scans()
    (found,) = again.waves(again.last(), RULES).run(("a",), Mode.KAFKA, execute=True).toggles
    assert (found.state, "taken back to zookeeper mode" in found.reason) == (ToggleState.FAILED, True)
    assert (fleet.run_of("a").state, fleet.ensemble.worlds["a"].mode_writes) == (RunState.ROLLED_BACK, 2)


def test_u01_a_toggle_of_a_scan_that_a_person_took_over_is_his(fleet: Fleet) -> None:
    """The waves stop looking at it at once, say who has it, and take nothing back; the next scan leaves it
    alone."""
    fleet.add("a")
    fleet.scan()
    scans = fleet.scans(groups=Deaf(fleet, {"a"}))
    fleet.clock.on_sleep.append(lambda _seconds: taken or taken.append(claimed(fleet, fleet.run_of("a").run)))
    taken: list[Run[Any]] = []
    (ended,) = scans.toggle(scans.last(), RULES, execute=True).toggles
    assert (ended.state, "run cli-back took this run over" in ended.reason) == (ToggleState.FAILED, True)
    kinds = [event.kind for event in fleet.runs.events(ended.run)]
    assert kinds[kinds.index(EventKind.CLAIMED, 2) :] == [EventKind.CLAIMED]
    (left,) = fleet.scans().waves(scans.last(), RULES).run(("a",), Mode.KAFKA, execute=True).toggles
    assert (left.state, "held by cli-back" in left.reason) == (ToggleState.SKIPPED, True)
    assert fleet.ensemble.worlds["a"].mode_writes == 1


@pytest.mark.parametrize("by_hand", [False, True], ids=["of a scan", "by hand"])
def test_a_group_that_does_not_settle_in_zookeeper_mode_stays_open_and_is_gone_on_with(
    fleet: Fleet, *, by_hand: bool
) -> None:
    """Its mode is set back all the same; the next scan goes on with the same run and writes nothing."""
    world = fleet.add("a")
    if by_hand:
        world.write_mode(b"kafka")
    fleet.scan()
    if not by_hand:
        fleet.scans().toggle(fleet.scans().last(), RULES, execute=True)
        fleet.scan()
    deaf = fleet.scans(groups=Deaf(fleet, {"a"}, Mode.KAFKA))
    (found,) = deaf.take_back(["a"], RULES, execute=True).toggles
    assert (found.state, "did not settle in zookeeper mode: C17" in found.reason) == (
        ToggleState.FAILED,
        True,
    )
    assert fleet.run_of("a").state.is_open
    assert world.mode.requested is Mode.ZOOKEEPER
    again = fleet.scans()
    waves = again.waves(again.last(), RULES)
    (then,) = waves.run(("a",), Mode.ZOOKEEPER, execute=True).toggles
    assert (then.state, then.run) == (ToggleState.DONE, found.run)
    assert (world.mode_writes, len(fleet.runs.recent(9))) == (2, 1)


def test_a_toggle_that_was_never_begun_is_closed_before_its_group_is_taken_back(fleet: Fleet) -> None:
    """A scan died before its first act, and somebody wrote kafka by hand: another run takes it back."""
    world = fleet.add("a")
    fleet.scan()
    scans = fleet.scans(KillAt("toggle/set_mode", CrashPoint.BEFORE_JOURNAL))
    with pytest.raises(Killed):
        scans.toggle(scans.last(), RULES, execute=True)
    world.write_mode(b"kafka")
    fleet.scan()
    (found,) = fleet.scans().take_back(["a"], RULES, execute=True).toggles
    states = [each.state for each in fleet.runs.recent(9)]
    assert (found.state, sorted(states)) == (ToggleState.DONE, [RunState.MOVED, RunState.REJECTED])


def test_a_doubt_is_written_down_and_asks_nobody(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule after the toggle that cannot decide lets it go on; the history has what it said."""
    fleet.add("a")
    fleet.scan()
    doubt = Finding(rule="C14", verdict=Verdict.INCONCLUSIVE, reason="nobody knows")
    monkeypatch.setattr(ModeAlone.handlers["judge"], "_rules", lambda _run, _step: (doubt,))
    scans = fleet.scans()
    (found,) = scans.toggle(scans.last(), RULES, execute=True).toggles
    assert found.state is ToggleState.DONE
    (judged,) = [e for e in fleet.runs.events(found.run) if e.kind is EventKind.JUDGED]
    assert judged.body["findings"][0]["reason"] == "nobody knows"


def test_a_journal_that_is_silent_for_a_while_fails_nobody(fleet: Fleet) -> None:
    """The next look finds it again; one that stays silent ends the group's toggle."""
    fleet.add("a")
    fleet.scan()
    steps, silent = fleet.runs.steps, [False, False, True, True]

    def reading(run: str) -> Any:
        if silent and silent.pop(0):
            raise Transient("the journal does not answer")
        return steps(run)

    toggle = Toggle(group="a", to=Mode.KAFKA)
    fleet.scans().toggles.start(toggle, "scan-1")
    fleet.runs.steps = reading  # type: ignore[method-assign]
    toggles = fleet.scans().toggles
    for _ in range(6):
        toggles.look(toggle)
    assert toggle.state is ToggleState.DONE


def test_a_journal_that_is_silent_right_after_the_write_fails_nobody(fleet: Fleet) -> None:
    """The write may have been made: the next look goes on."""
    fleet.add("a")
    fleet.scan()
    toggles, steps, silent = fleet.scans().toggles, fleet.runs.steps, []

    def reading(run: str) -> Any:
        found = steps(run)
        if not silent and any(each.state is StepState.ACTED for each in found.values()):
            silent.append(run)
            raise Transient("the journal does not answer")
        return found

    fleet.runs.steps = reading  # type: ignore[method-assign]
    toggle = Toggle(group="a", to=Mode.KAFKA)
    toggles.start(toggle, "scan-1")
    assert (toggle.state, len(silent)) == (ToggleState.STARTED, 1)
    for _ in range(6):
        toggles.look(toggle)
    assert toggle.state is ToggleState.DONE


def test_an_interrupted_scan_leaves_its_runs_to_whoever_comes(fleet: Fleet) -> None:
    """A person goes on without taking anything over."""
    fleet.add("a")
    fleet.scan()
    scans = fleet.scans(groups=Deaf(fleet, {"a"}))

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    fleet.clock.on_sleep.append(interrupt)
    with pytest.raises(KeyboardInterrupt):
        scans.toggle(scans.last(), RULES, execute=True)
    fleet.clock.on_sleep.clear()
    held = fleet.runs.held(fleet.run_of("a").run)
    assert held is not None
    assert held.stopped


def test_a_scan_interrupted_while_it_starts_a_wave_leaves_each_run_of_it(fleet: Fleet) -> None:
    """The first group was toggled and the second is at its write: nothing of either has to be taken over."""
    fleet.add("a")
    fleet.add("b")
    fleet.scan()
    scans, steps = fleet.scans(), fleet.runs.steps

    def reading(run: str) -> Any:
        found = steps(run)
        if fleet.runs.find(run).target.name == "b" and found:
            fleet.runs.steps = steps  # type: ignore[method-assign]
            raise KeyboardInterrupt
        return found

    fleet.runs.steps = reading  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        scans.toggle(scans.last(), RULES, execute=True)
    for group in ("a", "b"):
        held = fleet.runs.held(fleet.run_of(group).run)
        assert held is not None
        assert held.stopped, group


def test_a_silent_server_lets_no_write_follow_the_brake(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was intended when the server did not answer, so the group counts as not begun: it failed."""
    for name in ("a", "b"):
        fleet.add(name)
    fleet.scan()
    scans, silent = fleet.scans(), ["the mode node is not read"]

    def reading(modes: MemoryModeSwitch, group: str) -> ModeNode:
        if silent:
            fleet.brake.pull("enough")
            raise Transient(silent.pop())
        return read(modes, group)

    read = MemoryModeSwitch.read
    monkeypatch.setattr(MemoryModeSwitch, "read", reading)
    waves = scans.toggle(scans.last(), RULES, execute=True)
    assert (states_of(waves.toggles), waves.left) == ({"a": ToggleState.FAILED}, ("b",))
    assert [world.mode_writes for world in fleet.ensemble.worlds.values()] == [0, 0]
    held = fleet.runs.held(fleet.run_of("a").run)
    assert held is not None
    assert held.stopped
