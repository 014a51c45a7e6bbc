"""An expansion on the engine: killed anywhere, or left without an answer anywhere, it keeps every offset; and
whatever clients and other operators do, no acknowledged commit is lost in silence, and no run is stuck."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine.progress import Ended, Progress, Stopped
from groupshift.errors import GroupshiftError, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.facts import ExpansionRequest
from groupshift.moves.expansion.rules import audit_placement
from groupshift.ports.clock import CrashPoint, NoStepCrash, StepCrashPoints
from groupshift.ports.runs import EventKind
from support.driven_moves import Driver, where
from support.expansion_operators import DOINGS, Doing, at_rest, joins
from support.kill_once import KillOnce
from support.simulated_downgrade import KillAt, Killed
from support.simulated_expansion import GROUPS, Expansible, committed, driver_of, equal

KINDS = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])
_BEFORE_CREATE = frozenset({"drain", "snapshot", "approve", "go", "delete"})


def unanswered(world: Expansible) -> set[str]:
    """The groups that are not answered what was acknowledged last."""
    return {group for group, offset in world.told.items() if world.answered(group) != offset}


def given_up(driver: Driver, run: str) -> set[str]:
    """The groups that somebody was shown by name as lost, and accepted; such a run does not end green."""
    accepted = [each.body["findings"] for each in driver.runs.events(run) if each.kind is EventKind.ACCEPTED]
    reasons = [finding["reason"] for findings in accepted for finding in findings]
    return {group for group in GROUPS if any(reason.startswith(f"{group}: ") for reason in reasons)}


def ended(
    kind: Coordinator,
    crashes: Iterable[StepCrashPoints] = (),
    lost: frozenset[int] = frozenset(),
    *,
    to: int = 8,
    back: bool = False,
    dies: frozenset[int] = frozenset(),
) -> Expansible:
    """What is left after processes with these crash points, the n-th answer ``lost``, brokers that were
    killed while they restarted, and processes that are left alone; a run that is to go ``back`` first deleted
    its groups."""
    world = committed(kind)
    acts = count()
    world.answers_lost, world.dies = lambda: next(acts) in lost, set(dies)
    driver = driver_of(world)
    run = driver.begin(ExpansionRequest(to=to)).run
    if back:
        with suppress(Transient):
            driver.go_on(run, phases=_BEFORE_CREATE)
        driver.roll_back(run)
    # a run that only rehearsed has nothing to take back
    wanted = {RunState.ROLLED_BACK, RunState.REJECTED} if back else {RunState.FINALISED}
    spare = len(lost) + len(dies) + 1
    for crash in (*crashes, *(NoStepCrash() for _ in range(spare))):
        if driver.runs.find(run).state.is_open:
            with suppress(Killed, Transient):
                found = driver.go_on(run, crash)
                assert isinstance(found, Ended) or dies, found
    assert driver.runs.find(run).state in wanted
    assert len(world.world.logs) == (5 if back else to)
    for partition in range(len(world.world.logs)):
        world.world.bounce(partition)
    return world


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@KINDS
def test_every_crash_point_of_every_step_is_survived(kind: Coordinator, *, back: bool) -> None:
    """Each process dies at the first point that none before it died at."""
    crash = KillOnce()
    assert equal(ended(kind, [crash] * 90, back=back))
    assert len({step for step, _ in crash.killed}) == (4 if back else 17)
    assert {point for _, point in crash.killed} == set(CrashPoint)


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(Coordinator),
    kills=st.lists(st.integers(1, 30), max_size=6),
    lost=st.frozensets(st.integers(0, 8), max_size=4),
    dies=st.frozensets(st.integers(1, 3), max_size=2),
    to=st.sampled_from([6, 8, 10]),
    back=st.booleans(),
)
def test_any_faults_in_any_order_are_survived(
    kind: Coordinator,
    kills: list[int],
    lost: frozenset[int],
    dies: frozenset[int],
    to: int,
    *,
    back: bool,
) -> None:
    """Several kills, acts that were done although their answer was lost, brokers that did not come up."""
    crashes = [KillAt(number) for number in kills]
    assert equal(ended(kind, crashes, lost, to=to, back=back, dies=frozenset() if back else dies))


@pytest.mark.parametrize("skipped", ["delete", "create", "restore"])
@KINDS
def test_a_step_that_did_nothing_is_caught(kind: Coordinator, skipped: str) -> None:
    """Whatever the broker answered: the run stops at that step."""
    world = committed(kind)
    world.skips = {skipped}
    driver = driver_of(world)
    found = driver.go_on(driver.begin(ExpansionRequest(to=8)).run, patience_s=5.0)
    how, at = where(found)
    assert how in {"waiting", "failed"}
    assert skipped in at


def went_on(driver: Driver, run: str, *, kill_at: int = 0, accept: str = "") -> Progress | None:
    """One process; None when it was killed, or told an error."""
    try:
        return driver.go_on(run, KillAt(kill_at), patience_s=5.0, accept=accept)
    except (Killed, GroupshiftError):
        return None


def _denies(world: Expansible, number: int) -> object:
    """Nobody can commit for a group any more: its topic is gone."""
    return world.uncommitted.update({GROUPS[number % len(GROUPS)]: "UNKNOWN_TOPIC_OR_PARTITION (3)"})


def _expires(world: Expansible, number: int) -> None:
    """Offsets of a group expire, or are deleted."""
    group = GROUPS[number % len(GROUPS)]
    node = world.coordinator(group)
    if node in world.running() and world.world.serves(node, group):
        world.world.delete_at(node, group)
        world.told.pop(group, None)


def _dies(world: Expansible, number: int) -> object:
    """A broker does not come up the next time."""
    return world.dies.add(1 + number % 3)


def _stops(world: Expansible, number: int) -> object:
    """A broker is gone."""
    return world.world.stop(1 + number % 3)


MORE = st.one_of(DOINGS, st.tuples(st.sampled_from([_denies, _expires, _dies, _stops]), st.integers(0, 99)))


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(Coordinator),
    before=st.sampled_from([5, 6]),
    story=st.lists(st.tuples(st.integers(0, 60), st.booleans(), st.lists(MORE, max_size=2)), max_size=5),
)
@example(kind=Coordinator.OLD, before=5, story=[(0, False, [])])
@example(kind=Coordinator.OLD, before=5, story=[(32, False, [(joins, 4)]), (0, False, []), (0, True, [])])
def test_no_commit_is_lost_in_silence(
    kind: Coordinator, before: int, story: list[tuple[int, bool, list[Doing]]]
) -> None:
    """Processes are killed anywhere, some accept what was shown, and between two of them clients, operators
    and brokers do anything; then all are left alone, whatever is shown is accepted, and where that does not
    help it is taken back. It ends, with every commit where it ends green, and what is not answered is found
    by an audit, or was shown by name to somebody who accepted it."""
    world = committed(kind, count=before)
    driver = driver_of(world)
    run = driver.begin(ExpansionRequest(to=2 * before)).run
    found: Progress | None = None
    for kill_at, accepts, doings in story:
        if not driver.runs.find(run).state.is_open:
            break
        accept = found.step.key if accepts and isinstance(found, Stopped) else ""
        found = went_on(driver, run, kill_at=kill_at, accept=accept)
        if driver.runs.find(run).state.is_open:
            for doing, number in doings:
                doing(world, number)
    world.dies.clear()
    at_rest(world)
    last: tuple[str, str, str] | None = None
    accept = ""
    for _ in range(24):
        if not driver.runs.find(run).state.is_open:
            break
        found = went_on(driver, run, accept=accept)
        stopped = isinstance(found, Stopped)
        accept = found.step.key if stopped else ""
        now = (*where(found), str(found.checked.detail)) if stopped else None
        if found is None or now == last:
            with suppress(GroupshiftError):  # there is only the way forward
                driver.roll_back(run)
        last = now
    state = driver.runs.find(run).state
    event(str(state))
    assert state in {RunState.FINALISED, RunState.ROLLED_BACK, RunState.REJECTED}
    end = driver.go_on(run) if state is not RunState.REJECTED else None
    assert not isinstance(end, Ended) or end.closing.verdict is not Verdict.PASS or equal(world)
    audited = equal(world) or world.uncommitted or not audit_placement(world, world).clean
    assert audited or unanswered(world) <= given_up(driver, run), (
        "somebody was shown each loss and accepted it"
    )
