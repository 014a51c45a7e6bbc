"""Whatever clients and other operators do while an expansion runs, no acknowledged commit is lost in silence,
and no run is stuck."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from groupshift.application.expansion_run import begin, go_on, plan_run, turn_back
from groupshift.application.expansion_work import ExpansionTools
from groupshift.application.run_engine import RunOutcome
from groupshift.errors import GroupshiftError
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.assess import audit_placement
from groupshift.ports.journal import RunState
from support.simulated_downgrade import KillAt, Killed, yes
from support.simulated_expansion import GROUPS, Expansible, committed, equal, tools_of

_COUNTS = (12, 16, 20)


def _commits(world: Expansible, number: int) -> object:
    """A program that is no member, wherever that broker sends it."""
    return world.commit_as_client(GROUPS[number % len(GROUPS)], 1_000 + number, 1 + number % 3)


def _joins(world: Expansible, number: int) -> object:
    return world.members.add(GROUPS[number % len(GROUPS)])


def _leaves(world: Expansible, _number: int) -> object:
    return world.members.clear()


def _restarts(world: Expansible, number: int) -> object:
    return world.world.restart(1 + number % 3)


def _expands(world: Expansible, number: int) -> object:
    count = _COUNTS[number % len(_COUNTS)]
    return world.world.expand(count) if count > len(world.world.logs) else None


def _bounces(world: Expansible, number: int) -> object:
    return world.world.bounce(number % len(world.world.logs))


def _lies(world: Expansible, number: int) -> object:
    return world.lies.add(1 + number % 3)


DOINGS = st.tuples(
    st.sampled_from([_commits, _joins, _leaves, _restarts, _expands, _bounces, _lies]), st.integers(0, 99)
)
Doing = tuple[Callable[[Expansible, int], object], int]


def went_on(tools: ExpansionTools, run: str, *, kill_at: int = 0, seen: bool = False) -> RunOutcome | None:
    """One process; None when it was killed, or told an error."""
    try:
        terms = yes(patience_s=5.0, seen=seen)
        crash = KillAt(kill_at)
        return go_on(replace(tools, crash=crash), terms, tools.runs.find(run))
    except (Killed, GroupshiftError):
        return None


def at_rest(world: Expansible) -> None:
    """Everybody stopped, brokers are up, and where they count differently all are restarted (X04 says so)."""
    world.members.clear()
    world.lies.clear()
    for node in world.world.brokers:
        if not world.world.brokers[node].running:
            world.world.start(node)
    if len({broker.count for broker in world.world.brokers.values()}) > 1:
        for node in world.world.brokers:
            world.world.restart(node)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(Coordinator),
    before=st.sampled_from([5, 6]),
    story=st.lists(st.tuples(st.integers(0, 40), st.lists(DOINGS, max_size=2)), max_size=5),
)
def test_no_commit_is_lost_in_silence(
    kind: Coordinator, before: int, story: list[tuple[int, list[Doing]]]
) -> None:
    """Processes are killed anywhere, and between two of them clients and operators do anything; then all are
    left alone, whatever is shown is accepted, and where that does not help it is taken back. It ends, and
    what is not answered is found by an audit."""
    world = committed(kind, count=before)
    tools = tools_of(world)
    run = begin(tools, plan_run(tools, 2 * before)).run
    for kill_at, doings in story:
        if tools.runs.find(run).open:
            went_on(tools, run, kill_at=kill_at)
        for doing, number in doings:
            doing(world, number)
    at_rest(world)
    before_it = None
    for _ in range(12):
        found = tools.runs.find(run)
        if not found.open:
            break
        outcome, last = went_on(tools, run, seen=True), before_it
        before_it = outcome
        if outcome is None or outcome.hopeless or outcome == last:
            with suppress(GroupshiftError):  # there is only the way forward
                turn_back(tools, yes(), found)
    ended = tools.runs.find(run)
    event(str(ended.state))
    assert not ended.open
    assert ended.state in {RunState.DONE, RunState.TAKEN_BACK, RunState.ENDED}
    assert equal(world) or not audit_placement(world, world).clean
