"""The contract of the journal of runs, as tests that every such journal has to pass: a module imports them
all and gives a fixture ``runs``, an empty one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupshift.domain.run import OPEN, TRANSITIONS, RunState, StepRecord, StepState, Target
from groupshift.errors import Conflict, Fenced, Rejected
from groupshift.ports.runs import Claim, Entry, EventKind, NewEvent, RunRecord, Runs

GROUP = Target(kind="group", name="g", within="c")
CLUSTER = Target(kind="cluster", name="c")


def run_record(name: str = "r", target: Target = GROUP, **values: Any) -> RunRecord:
    """A run to store."""
    usual: dict[str, Any] = {
        "run": name,
        "move": "toy",
        "target": target,
        "state": RunState.APPROVED,
        "plan": '{"steps": []}',
        "plan_hash": "a" * 64,
        "request": '{"name": "ä"}',
        "requester": "ann",
        "created_at_ms": 1,
        "updated_at_ms": 1,
    }
    return RunRecord(**{**usual, **values})


def a_step(key: str = "1", token: int = 1, **values: Any) -> StepRecord:
    """A step to store."""
    return StepRecord(**{"key": key, "state": StepState.INTENDED, "token": token, "at_ms": 7, **values})


def entry(name: str = "r", token: int | None = 1, **values: Any) -> Entry:
    """Something to append."""
    return Entry(**{"run": name, "token": token, "at_ms": 7, **values})


def test_a_run_is_found_again_as_it_was_stored(runs: Runs) -> None:
    """By its id, its origin and its target; its history begins with the plan."""
    stored = run_record(origin="dag/1", target=Target(kind="group", name="g ö\n%", within="c"))
    runs.create(stored)
    assert runs.find("r") == stored
    assert runs.of_origin("dag/1") == stored
    assert runs.of_origin("dag/2") is None
    assert runs.of_origin("") is None
    assert runs.of_target(stored.target) == (stored,)
    assert runs.of_target(GROUP) == ()
    assert [(each.seq, each.kind, each.token) for each in runs.events("r")] == [(1, EventKind.PLANNED, 0)]
    with pytest.raises(Rejected, match="'none' is not in the journal"):
        runs.find("none")
    assert (runs.steps("none"), runs.events("none"), runs.held("none")) == ({}, (), None)


def test_ids_and_origins_are_given_once(runs: Runs) -> None:
    """Many runs have no origin."""
    runs.create(run_record(origin="o"))
    with pytest.raises(Conflict):
        runs.create(run_record(target=Target(kind="group", name="h", within="c")))
    with pytest.raises(Conflict):
        runs.create(run_record("s", target=Target(kind="group", name="h", within="c"), origin="o"))
    for name in ("t", "u"):
        runs.create(run_record(name, target=Target(kind="group", name=name, within="c")))
    assert len(runs.recent(9)) == 3


OTHERS = [
    (GROUP, GROUP, True),
    (GROUP, Target(kind="group", name="g", within="d"), False),
    (GROUP, Target(kind="group", name="h", within="c"), False),
    (GROUP, CLUSTER, True),
    (CLUSTER, GROUP, True),
    (CLUSTER, CLUSTER, True),
    (CLUSTER, Target(kind="link", name="l", within="c"), True),
    (CLUSTER, Target(kind="link", name="l", within="d"), False),
    (CLUSTER, Target(kind="cluster", name="d"), False),
    (Target(kind="group", name="g"), Target(kind="cluster", name=""), False),
    (Target(kind="link", name="l", within="c"), GROUP, False),
]


@pytest.mark.parametrize(("first", "second", "excluded"), OTHERS)
def test_open_runs_exclude_each_other(runs: Runs, first: Target, second: Target, *, excluded: bool) -> None:
    """The same target, and a cluster and what is in it; whoever asks."""
    runs.create(run_record("one", target=first))
    assert [each.run for each in runs.in_the_way(second)] == (["one"] if excluded else [])
    if excluded:
        with pytest.raises(Conflict, match="run one of"):
            runs.create(run_record("two", target=second))
        assert [each.run for each in runs.recent(9)] == ["one"]
    runs.create(run_record("preview", target=second, state=RunState.PREVIEW))
    token = runs.claim("one", "me", 2, anew=True)
    runs.append(entry("one", token, state=RunState.MOVED))
    runs.create(run_record("two", target=second))
    if excluded:
        with pytest.raises(Conflict, match="run two of"):
            runs.append(entry("one", token, state=RunState.ROLLING_BACK))
        assert runs.find("one").state is RunState.MOVED
    else:
        runs.append(entry("one", token, state=RunState.ROLLING_BACK))


def test_tokens_rise_and_only_the_latest_may_write(runs: Runs) -> None:
    """A process claims anew, a sensor keeps its token; another holder needs to be told."""
    runs.create(run_record())
    assert runs.claim("r", "me", 2, anew=False) == 1
    assert runs.claim("r", "me", 3, anew=False) == 1
    assert runs.claim("r", "me", 4, anew=True) == 2
    assert runs.held("r") == Claim(token=2, holder="me", at_ms=4)
    with pytest.raises(Fenced, match="run me took this run over"):
        runs.claim("r", "you", 5, anew=True)
    assert runs.held("r") == Claim(token=2, holder="me", at_ms=4)
    assert runs.claim("r", "you", 6, anew=False, take_over=True) == 3
    with pytest.raises(Fenced, match="token 2 of run r is void"):
        runs.append(entry(token=2, steps=(a_step(),), events=(NewEvent(kind=EventKind.NOTED),)))
    with pytest.raises(Fenced):
        runs.append(entry(token=4, state=RunState.RUNNING))
    assert (runs.steps("r"), runs.find("r").state) == ({}, RunState.APPROVED)
    assert EventKind.NOTED not in [each.kind for each in runs.events("r")]
    with pytest.raises(Rejected, match="not in the journal"):
        runs.claim("none", "me", 1, anew=True)
    with pytest.raises(Rejected, match="not in the journal"):
        runs.append(entry("none"))


def test_who_stopped_by_itself_holds_the_run_no_longer(runs: Runs) -> None:
    """Until it says something more."""
    runs.create(run_record())
    runs.claim("r", "me", 2, anew=True)
    runs.append(entry(events=(NewEvent(kind=EventKind.STOPPED, step="1"),)))
    assert runs.held("r") == Claim(token=1, holder="me", at_ms=2, stopped=True)
    runs.append(entry(events=(NewEvent(kind=EventKind.NOTED, step="1"),)))
    with pytest.raises(Fenced):
        runs.claim("r", "you", 3, anew=True)
    runs.append(entry(events=(NewEvent(kind=EventKind.STOPPED, step="1"),)))
    assert runs.claim("r", "you", 3, anew=True) == 2
    assert runs.held("r") == Claim(token=2, holder="you", at_ms=3)
    runs.append(entry(token=2, state=RunState.MOVED))
    assert runs.claim("r", "third", 4, anew=True) == 3, "nobody holds what is over"


def test_an_entry_is_written_whole_and_in_order(runs: Runs) -> None:
    """Events are numbered; the last word on a step counts; any text comes back as it was."""
    runs.create(run_record())
    runs.claim("r", "me", 2, anew=True)
    first = a_step("1", intent={"former": {"segment.ms": None}})
    last = replace(first, state=StepState.DONE, at_ms=8, result={"said": [1, "ä\n'"]})
    noted = NewEvent(kind=EventKind.NOTED, step="1", body={"n": 1.5, "t": "ü"})
    runs.append(entry(steps=(a_step("2"), first), events=(noted, NewEvent(kind=EventKind.ACTED, step="2"))))
    runs.append(entry(at_ms=8, steps=(last,), state=RunState.RUNNING))
    assert runs.steps("r") == {"1": last, "2": a_step("2")}
    assert (runs.find("r").state, runs.find("r").updated_at_ms) == (RunState.RUNNING, 8)
    assert [each.seq for each in runs.events("r")] == [1, 2, 3, 4]
    assert [each.seq for each in runs.events("r", after=1)] == [2, 3, 4]
    (found,) = (each for each in runs.events("r") if each.step == "1")
    assert (found.kind, found.step, found.body, found.token, found.at_ms) == (
        EventKind.NOTED,
        "1",
        {"n": 1.5, "t": "ü"},
        1,
        7,
    )
    with pytest.raises(Conflict):
        runs.append(entry(steps=(a_step("3"),), events=(noted,), state=RunState.PLANNED))
    assert "3" not in runs.steps("r")
    assert len(runs.events("r")) == 4


@pytest.mark.parametrize("state", list(RunState))
def test_states_follow_their_table_and_steps_of_a_closed_run_stay(runs: Runs, state: RunState) -> None:
    """Nothing else may follow, and nothing is written where it is tried."""
    runs.create(run_record(state=state))
    token = runs.claim("r", "me", 2, anew=True)
    assert (state in OPEN) == (len(runs.in_the_way(GROUP)) == 1) == state.is_open
    for wanted in RunState:
        if wanted not in TRANSITIONS[state] and wanted is not state:
            with pytest.raises(Conflict, match=f"cannot become {wanted}"):
                runs.append(entry(token=token, state=wanted))
            assert runs.find("r").state is state
    if state.is_open:
        runs.append(entry(token=token, steps=(a_step(token=token),)))
    else:
        with pytest.raises(Conflict, match="its steps do not change"):
            runs.append(entry(token=token, steps=(a_step(token=token),)))
    for wanted in sorted(TRANSITIONS[state])[:1]:
        runs.append(entry(token=token, state=wanted))
        assert runs.find("r").state is wanted


def test_without_a_claim_only_the_history_of_a_closed_run_grows(runs: Runs) -> None:
    """Seals, audits and later judgements."""
    runs.create(run_record(state=RunState.RUNNING))
    judged = NewEvent(kind=EventKind.JUDGED, body={"outcome": "pass"})
    with pytest.raises(Conflict, match="only who holds it"):
        runs.append(entry(token=None, events=(judged,)))
    token = runs.claim("r", "me", 2, anew=True)
    runs.append(entry(token=token, state=RunState.MOVED))
    runs.append(entry(token=None, events=(judged,)))
    assert [(each.kind, each.token) for each in runs.events("r")][-1] == (EventKind.JUDGED, 0)
    with pytest.raises(Conflict, match="only who holds it"):
        runs.append(entry(token=None, events=(NewEvent(kind=EventKind.NOTED),)))
    with pytest.raises(Conflict, match="only who holds it"):
        runs.append(entry(token=None, state=RunState.ROLLING_BACK))


def test_lists_are_newest_first_and_of_one_moment_by_code_points(runs: Runs) -> None:
    """Whatever the database's language says."""
    for name in ("B", "a", "ä"):
        runs.create(run_record(name, target=Target(kind="group", name=name, within="c")))
    closed = {"state": RunState.REJECTED, "created_at_ms": 5, "move": "other"}
    runs.create(run_record("new", target=GROUP, **closed))
    assert [each.run for each in runs.recent(9)] == ["new", "ä", "a", "B"]
    assert [each.run for each in runs.recent(2)] == ["new", "ä"]
    assert [each.run for each in runs.recent(9, open_only=True)] == ["ä", "a", "B"]
    assert [each.run for each in runs.recent(9, move="other")] == ["new"]
    assert [each.run for each in runs.recent(9, target="ä")] == ["ä"]
    assert [each.run for each in runs.recent(9, target="ä", move="other")] == []


def test_u05_previews_push_no_run_out_of_a_list(runs: Runs) -> None:
    """They are asked for, or they do not count."""
    runs.create(run_record("old", state=RunState.MOVED))
    for number in range(3):
        runs.create(run_record(f"p{number}", state=RunState.PREVIEW, created_at_ms=2 + number))
    assert [each.run for each in runs.recent(2)] == ["p2", "p1"]
    assert [each.run for each in runs.recent(2, previews=False)] == ["old"]
