"""The contract of the journal of cluster runs, as tests that every such journal has to pass: a module imports
them all and gives a fixture ``runs``, an empty one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.errors import Conflict, Rejected
from groupshift.ports.journal import NEXT, ClusterRun, ClusterRuns, RunState, RunStepRecord, StepState


def cluster_run(name: str = "r", cluster: str = "c", at_ms: int = 1) -> ClusterRun:
    """A run to store."""
    return ClusterRun(
        run=name,
        cluster_id=cluster,
        state=RunState.OPEN,
        plan_hash="a" * 64,
        plan='{"steps": []}',
        created_at_ms=at_ms,
        updated_at_ms=at_ms,
    )


def run_step(step: str = "1", token: int = 1, **values: object) -> RunStepRecord:
    """A step to store."""
    return RunStepRecord(**{"step": step, "state": StepState.INTENDED, "token": token, "at_ms": 7, **values})


def test_a_run_is_found_again_as_it_was_stored(runs: ClusterRuns) -> None:
    """By its id and as the open one of its cluster; nothing of another cluster."""
    runs.create(cluster_run())
    assert runs.find("r") == cluster_run()
    assert runs.open_of("c") == cluster_run()
    assert runs.open_of("elsewhere") is None
    with pytest.raises(Rejected, match="'none' is not in the journal"):
        runs.find("none")


def test_a_cluster_has_one_open_run(runs: ClusterRuns) -> None:
    """Another one may begin when the first is closed, and never under the same id."""
    runs.create(cluster_run())
    with pytest.raises(Conflict, match="open run"):
        runs.create(cluster_run("s"))
    runs.create(cluster_run("t", cluster="other"))
    runs.move("r", runs.claim("r", "me", 2), RunState.ENDED, 3)
    runs.create(cluster_run("s", at_ms=9))
    assert runs.open_of("c") == cluster_run("s", at_ms=9)
    assert [each.run for each in runs.recent(9)] == ["s", "t", "r"]
    assert [each.run for each in runs.recent(1)] == ["s"]
    runs.create(cluster_run("expansion-e-1", cluster="e", at_ms=8))
    assert [each.run for each in runs.recent(9, move="expansion")] == ["expansion-e-1"]
    assert runs.recent(9, move="down") == ()
    with pytest.raises(Conflict):
        runs.create(cluster_run("s", cluster="third"))


def test_tokens_rise_and_only_the_latest_may_write(runs: ClusterRuns) -> None:
    """Also where the same process claims again: a step cut off is looked at anew."""
    runs.create(cluster_run())
    assert [runs.claim("r", "me", 2), runs.claim("r", "me", 3), runs.claim("r", "you", 4)] == [1, 2, 3]
    with pytest.raises(Conflict, match="token 2 of run r is void"):
        runs.put("r", run_step(token=2))
    with pytest.raises(Conflict, match="void"):
        runs.move("r", 2, RunState.DONE, 5)
    assert runs.steps("r") == {}
    runs.put("r", run_step(token=3))
    assert runs.find("r").updated_at_ms == 7
    with pytest.raises(Rejected, match="not in the journal"):
        runs.claim("none", "me", 1)


def test_the_last_word_on_a_step_counts(runs: ClusterRuns) -> None:
    """With everything in it."""
    runs.create(cluster_run())
    runs.claim("r", "me", 2)
    first = run_step(intent={"former": {"segment.ms": None}})
    last = replace(first, state=StepState.DONE, at_ms=8, result={"seen": [1, "ä"]})
    runs.put("r", run_step("2"))
    runs.put("r", first)
    runs.put("r", last)
    assert runs.steps("r") == {"1": last, "2": run_step("2")}
    assert runs.steps("none") == {}


@pytest.mark.parametrize("state", list(RunState))
def test_states_follow_their_table_and_a_closed_run_stays(runs: ClusterRuns, state: RunState) -> None:
    """Nothing is written to a run that is closed."""
    runs.create(replace(cluster_run(), state=state))
    token = runs.claim("r", "me", 2)
    for wanted in RunState:
        if wanted not in NEXT[state]:
            with pytest.raises(Conflict):
                runs.move("r", token, wanted, 3)
            assert runs.find("r").state is state
    if NEXT[state]:
        runs.put("r", run_step(token=token))
        runs.move("r", token, min(NEXT[state]), 4)
        assert (runs.find("r").state, runs.find("r").updated_at_ms) == (min(NEXT[state]), 4)
    else:
        with pytest.raises(Conflict, match="nothing of it may change"):
            runs.put("r", run_step(token=token))
