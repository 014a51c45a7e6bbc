"""The fence, searched for a counterexample; and each defect it was made for, found when planted."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from groupshift.domain.modes import Mode
from properties.fence_judge import Invariant, Violation
from properties.fence_machine import EVERYTHING, Fence, Weather
from properties.fence_time import simulated
from properties.plants import DEFECTS, NO_PLANT

EXAMPLES = 520
"""In each of the four weathers: more than 2,000 schedules in all."""
STEPS = 30
WEATHERS = {
    "hand-overs": Weather(allowed=frozenset(["toggle", "rebalance", "join", "leave", "late"]), bound_s=15.0),
    "faults": Weather(allowed=EVERYTHING - {"old"}, bound_s=40.0),
    "old members": Weather(
        allowed=frozenset(["toggle", "rebalance", "join", "leave", "old", "late", "patience"]), bound_s=60.0
    ),
    "everything": Weather(bound_s=90.0),
}


def search(weather: Weather, examples: int, **more) -> int:
    """Run that many schedules, or until one breaks an invariant; how many were run."""
    machine = type("Searched", (Fence,), {"weather": weather, "run": 0, "teardown": counted})
    with simulated():
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                **more,
            ),
        )
    return machine.run


def counted(machine: Fence) -> None:
    """At the end of a schedule: its own teardown, and one more."""
    Fence.teardown(machine)
    type(machine).run += 1


@pytest.fixture(autouse=True)
def quiet():
    """Thousands of members that lose their links have much to say."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", WEATHERS)
def test_no_schedule_breaks_an_invariant(name):
    """Whatever happens, in whatever order: one deliverer, nothing lost, all owned, the last mode wins."""
    assert search(WEATHERS[name], EXAMPLES) >= EXAMPLES


def test_an_old_member_frees_what_it_took_while_its_session_ended():
    """It waits for the next session in the middle of an attempt: what it takes then belongs to that one, and
    it knows of it (zookeeper-coordination.md §4.4)."""
    with simulated():
        machine = type("Drawn", (Fence,), {"weather": WEATHERS["everything"]})()
        machine.start(mode=Mode.ZOOKEEPER)
        for _ in range(3):
            machine.crash(who=0)
        machine.pass_much_time(calls={}, seconds=8.0)
        for _ in range(2):
            machine.join_old(calls=5, slices=1, who=0)
        machine.cut_zookeeper(who=0)
        machine.pass_much_time(calls={}, seconds=5.0)
        machine.crash(who=1)
        machine.pass_much_time(calls={}, seconds=1.0)
        machine.teardown()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a planted defect breaks, with the fence and without it (None: nothing, the fence holds).

    ``control``: without fence *and* defect nothing breaks in this weather, so it is the defect that
    is found."""

    allowed: str
    fenced: Invariant | None
    unfenced: Invariant
    mode: Mode | None = Mode.KAFKA
    control: bool = False


TWO, STAYS, LAST = Invariant.ONE_DELIVERER, Invariant.STAYS, Invariant.LAST_MODE
TABLE = {
    "D1": Row(allowed="toggle late", mode=None, fenced=None, unfenced=TWO),
    "D2": Row(allowed="old late", fenced=Invariant.OWNED, unfenced=TWO, control=True),
    "D3": Row(allowed="rebalance join leave", fenced=None, unfenced=TWO, control=True),
    "D4": Row(allowed="join", fenced=STAYS, unfenced=STAYS),
    "D5": Row(allowed="join leave", fenced=STAYS, unfenced=STAYS),
    "D6": Row(allowed="toggle late", mode=None, fenced=LAST, unfenced=LAST),
    "D7": Row(allowed="toggle late", mode=None, fenced=LAST, unfenced=LAST),
    "D8": Row(allowed="kafka patience", fenced=None, unfenced=TWO, control=True),
    "D9": Row(allowed="outage late", mode=None, fenced=TWO, unfenced=TWO),
    "D10": Row(allowed="zookeeper patience", mode=None, fenced=TWO, unfenced=TWO),
}
FINDS_WITHIN = 1_000
HOLDS_FOR = 100


def weather_of(row: Row, name: str | None, *, fence: bool) -> Weather:
    """The row's weather, with members that have the defect, or not."""
    plant = DEFECTS[name] if name else NO_PLANT
    return Weather(
        allowed=frozenset(row.allowed.split()),
        mode=row.mode,
        bound_s=15.0,
        plant=plant if fence else plant.without_fence(),
    )


CELLS = [(name, fence) for name in TABLE for fence in (True, False)]


@pytest.mark.parametrize(
    ("name", "fence"), CELLS, ids=[f"{name}-{'fence' if fence else 'no-fence'}" for name, fence in CELLS]
)
def test_a_planted_defect_breaks_what_the_table_says(name, fence):
    """A search that cannot find a known defect proves nothing; where the fence holds, it must."""
    row = TABLE[name]
    breaks = row.fenced if fence else row.unfenced
    weather = weather_of(row, name, fence=fence)
    if breaks is None:
        search(weather, HOLDS_FOR)
        return
    with pytest.raises(Violation) as caught:
        search(
            replace(weather, judged=frozenset({breaks})),
            FINDS_WITHIN,
            phases=(Phase.generate,),
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
        )
    assert caught.value.invariant is breaks


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.control])
def test_without_the_defect_nothing_breaks_in_its_weather_even_unfenced(name):
    """So what the table's search finds is the defect, not the missing fence alone."""
    weather = weather_of(TABLE[name], None, fence=False)
    assert search(replace(weather, judged=frozenset({TABLE[name].unfenced})), HOLDS_FOR) >= HOLDS_FOR
