"""What the use cases hand to a fleet driver: fences that outlive a sleeping run, and what an undo undoes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Gate, StageName, Until, WayBack
from groupshift.errors import Conflict
from groupshift.ports.clock import CrashPoint
from groupshift.ports.driver import Change, Pending, Started
from groupshift_testing.world import CrashOnce, Killed, MemoryFleet
from support.simulated_move import Bench, make_bench


@dataclass(slots=True)
class Noting(MemoryFleet):
    """The simulated fleet, which also keeps every change it was asked for."""

    asked: list[Change] = field(default_factory=list)

    def start(self, change: Change) -> Started | Pending:
        """See the port."""
        self.asked.append(change)
        return MemoryFleet.start(self, change)


@pytest.fixture
def bench() -> Bench:
    """Three old members in a fleet that keeps notes."""
    made = make_bench()
    made.fleet = Noting(made.world)
    return made


def test_a_run_that_wakes_after_a_roll_back_can_start_nothing_more(bench):
    """Killed (or put to sleep) between its intent and its act: the fleet itself refuses the act afterwards,
    also when the roll back had no members to change."""
    migration = bench.plan(until=Until.CANARY)
    asleep = bench.runner(migration, "cli-1", CrashOnce(StageName.CANARY, CrashPoint.AFTER_JOURNAL))
    with pytest.raises(Killed):
        asleep.forward()
    bench.roll_back(migration, WayBack.ZOOKEEPER_MODE)
    woken = Change(
        change_id=f"{migration}:canary",
        group=bench.world.group,
        slots=("m1",),
        to=MemberKind.AWARE,
        fence=migration,
        token=asleep.claimed.token,
    )
    with pytest.raises(Conflict, match="is void"):
        bench.fleet.start(woken)
    assert bench.kinds() == [MemberKind.OLD] * 3


def test_the_way_back_names_the_changes_that_it_takes_back(bench):
    """Oldest first, all under the fence of their migration; a change forward takes nothing back."""
    migration, _ = bench.move(Until.ROLL)
    bench.roll_back(migration)
    assert [
        (each.change_id.partition(":")[2].partition(":")[0], each.undoes) for each in bench.fleet.asked
    ] == [
        ("canary", ()),
        ("roll", ()),
        ("roll_back", ()),
        ("undo_members", (f"{migration}:canary", f"{migration}:roll")),
    ]
    assert {each.fence for each in bench.fleet.asked} == {migration}
    assert sorted(each.token for each in bench.fleet.asked) == [each.token for each in bench.fleet.asked]


def test_the_instruction_of_a_fenced_run_reaches_nobody(bench):
    """Where people deploy, the journal refuses the fenced run's next line before anybody is told."""
    bench.fleet.pending = True
    migration = bench.plan(until=Until.CANARY)
    runner = bench.runner(migration, "cli-1")
    runner._ask(Gate.PLAN)
    bench.app().claim(migration, "back-1")
    with pytest.raises(Conflict, match="void"):
        runner.app.act(migration, StageName.CANARY, runner.claimed.token)
    assert bench.app().status(migration)[0].stages[0].step is None


def test_a_request_without_a_driver_gets_the_one_in_the_settings(bench):
    """And the plan says which."""
    app = bench.app()
    app._env = replace(app._env, driver="manual")
    assert app.plan(bench.request(driver="")).plan.driver == "manual"
    assert app.plan(bench.request(driver="command", run="run-2", execute=False)).plan.driver == "command"
