"""Waves: never more failures than the budget, whatever fails and whenever the brake is pulled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.domain.modes import MemberKind
from groupshift.domain.verdict import Finding, Verdict
from groupshift.scan.group_state import GroupState, Life, NodeTimes, Observed, PhaseReadiness, state_of
from groupshift.scan.waves import (
    WaveRules,
    check,
    next_wave,
    ordered,
    unfit,
    wanted_back,
)
from support.simulated_group import make_group

RULES = WaveRules(size=5, budget=2, stable_s=60)


@settings(deadline=None)
@given(
    fails=st.lists(st.booleans(), max_size=60),
    size=st.integers(1, 12),
    budget=st.integers(1, 8),
    brake_at=st.none() | st.integers(0, 20),
)
def test_failures_never_exceed_the_budget_and_nothing_starts_behind_the_brake(
    fails: list[bool], size: int, budget: int, brake_at: int | None
) -> None:
    """Every group at most once, in order; all of them when nothing stops the waves."""
    rules = WaveRules(size=size, budget=budget)
    groups = tuple(f"g{number}" for number in range(len(fails)))
    outcome = dict(zip(groups, fails, strict=True))
    todo, failed, started, waves = groups, 0, list[str](), 0
    while names := next_wave(todo, failed, rules, "stop" if waves == brake_at else ""):
        assert len(names) <= size
        assert failed + len(names) <= budget, "all of a wave may fail"
        started += names
        failed += sum(outcome[name] for name in names)
        todo = todo[len(names) :]
        waves += 1
        assert brake_at is None or waves <= brake_at
    assert started == list(groups[: len(started)])
    assert failed <= budget
    assert (todo == ()) or failed == budget or waves == brake_at


def aware() -> GroupState:
    """A fully migrated group, at rest since the first second."""
    world = make_group(MemberKind.AWARE).world
    seen = world.read(world.group)
    times = NodeTimes(changes=(1,), stamps=((1, seen.taken_at_ms - 120_000),))
    return state_of(Observed(view=seen, times=times), None)


def test_a_fully_migrated_group_at_rest_is_fit() -> None:
    """And only for as long as it has been at rest."""
    state = aware()
    assert unfit(state, RULES, state.taken_at_ms) == ""
    assert "at rest for 120 s only" in unfit(state, replace(RULES, stable_s=121), state.taken_at_ms)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"life": Life.DEAD}, "dead"),
        ({"aware": 0, "plain": 2}, "without migration-aware members"),
        ({"readiness": ()}, "already in"),
    ],
)
def test_an_unfit_group_says_why(changed: dict[str, object], says: str) -> None:
    """Each for its reason."""
    state = replace(aware(), **changed)
    assert says in unfit(state, RULES, state.taken_at_ms)


def test_a_warning_is_enough_to_be_left_for_a_person() -> None:
    """Inconclusive is ready for a person at a gate, not for a wave."""
    state = aware()
    said = Finding(rule="C12", verdict=Verdict.INCONCLUSIVE, reason="an empty partition has no offset")
    toggle = PhaseReadiness(phase=state.readiness[0].phase, findings=(said,))
    assert unfit(replace(state, readiness=(toggle,)), RULES, state.taken_at_ms).startswith("C12")


def test_small_groups_come_first_and_a_limit_cuts_the_rest() -> None:
    """They risk least."""
    found = [(9, "b"), (2, "c"), (2, "a")]
    assert ordered(found) == ("a", "c", "b")
    assert ordered(found, 1) == ("a",)


def test_back_takes_names_and_patterns_of_groups_whose_node_holds_kafka() -> None:
    """A group in zookeeper mode is never written (N7)."""
    state = replace(aware(), group="orders-eu", requested="kafka")
    assert wanted_back(state, ("orders-*",))
    assert wanted_back(state, ("x", "orders-eu"))
    assert not wanted_back(state, ("orders",))
    assert not wanted_back(replace(state, requested="zookeeper"), ("*",))


@pytest.mark.parametrize("group", ["app[prod]", "[/team]/orders", "app[!x]", "[", "a]b[", "a*b", "a?b[c]"])
def test_f05_a_group_with_brackets_is_taken_back_by_its_name(group: str) -> None:
    """Brackets are no pattern: ``app[prod]`` named ``appd`` and not itself."""
    state = replace(aware(), group=group, requested="kafka")
    assert wanted_back(state, (group,))
    assert wanted_back(state, (f"{group[:1]}*",))
    assert not wanted_back(replace(state, group="appd"), ("app[prod]",))


def test_f05_a_group_with_brackets_is_shown_by_its_name() -> None:
    """The command that a scan says next is about the group it names."""
    import io

    from groupshift.cli.scan import groups_parts
    from groupshift.cli.terminal import Console

    file = io.StringIO()
    states = [replace(aware(), group=name) for name in ("app[prod]", "appd")]
    console = Console(file=file, width=400)
    for part in groups_parts(states, ("app[prod]",), 9):
        console.print(part)
    assert "app[prod]" in file.getvalue()
    assert "appd" not in file.getvalue()


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (WaveRules(size=0), "wave size 0"),
        (WaveRules(budget=0), "error budget 0"),
        (WaveRules(stable_s=-1), "stable time -1"),
        (WaveRules(limit=-1), "limit -1"),
    ],
)
def test_values_that_cannot_be_used_are_named(rules: WaveRules, says: str) -> None:
    """With what would be usable."""
    assert says in check(rules)[0]
    assert check(RULES) == ()
