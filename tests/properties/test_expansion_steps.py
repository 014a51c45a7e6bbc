"""Each step of an expansion is needed: one that did nothing is caught by a later one, by what is looked at
afterwards, or did no harm."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from groupshift.application import run_engine
from groupshift.application.expansion_run import MOVE, begin, go_on, plan_run
from groupshift.application.expansion_watch import watch_expansion
from groupshift.application.run_engine import Ended
from groupshift.application.run_work import HOLDS, Handler
from groupshift.domain.cluster_run.steps import RunAct
from groupshift.domain.coordinator_log.releases import Coordinator
from groupshift.errors import GroupshiftError, Transient
from simulated_downgrade import yes
from simulated_expansion import Expansible, committed, tools_of

KINDS = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])
DENIED = "TOPIC_AUTHORIZATION_FAILED (29)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A step that does nothing, what happens right before it that it is there for, and who tells instead
    (the words of an outcome or an error)."""

    act: RunAct
    meanwhile: Callable[[Expansible], object]
    told: str


def _commit(world: Expansible) -> object:
    return world.commit_as_client("g7", 999, 1)


STEPS = (
    Skipped(
        act=RunAct.DRAIN, meanwhile=lambda world: world.members.add("g7"), told="members are in 1 group: g7"
    ),
    Skipped(act=RunAct.SNAPSHOT, meanwhile=lambda _: None, told="snapshot S of run .* was never taken"),
    Skipped(act=RunAct.COMPARE, meanwhile=_commit, told="offsets of g7 changed since the snapshot"),
    Skipped(act=RunAct.PROVE, meanwhile=lambda world: world.members.add("g7"), told="UNKNOWN_MEMBER_ID"),
    Skipped(
        act=RunAct.REHEARSE, meanwhile=lambda world: world.uncommitted.update(g7=DENIED), told="not committed"
    ),
    Skipped(
        act=RunAct.DELETE_GROUPS, meanwhile=lambda _: None, told="came or committed since groups were deleted"
    ),
    Skipped(act=RunAct.CREATE_PARTITIONS, meanwhile=lambda _: None, told="has 5 partitions, neither 5 nor 8"),
    Skipped(act=RunAct.RESTART, meanwhile=lambda _: None, told="count 8 not adopted by broker 2, 3"),
    Skipped(act=RunAct.RESTORE, meanwhile=lambda _: None, told="snapshot V is not equal to S"),
)


@pytest.mark.parametrize("step", STEPS, ids=lambda each: str(each.act))
@KINDS
def test_a_step_that_did_nothing_is_told_by_another(kind: Coordinator, step: Skipped) -> None:
    """The run does not come to its end, and says why; no commit is lost that snapshot S has not."""
    world = committed(kind)
    tools = tools_of(world)
    run = begin(tools, plan_run(tools, 8))
    before = frozenset(RunAct) - {step.act}
    assert go_on(tools, yes(acts=before), run).ended is Ended.PAUSED
    step.meanwhile(world)
    skipping = replace(MOVE, handlers={**MOVE.handlers, step.act: Handler(read_back=lambda *_: HOLDS)})
    try:
        outcome = run_engine.go_on(skipping, tools, yes(patience_s=5.0), run)
        said, ended = outcome.detail, outcome.ended
    except GroupshiftError as why:
        said, ended = str(why), Ended.FAILED
    assert ended in {Ended.FAILED, Ended.WAITING}, said
    assert re.search(step.told, said), said
    kept = {
        row.group: row.offset
        for name, state in world.snapshots.items()
        if "/S-" in name
        for row in state.offsets
    }
    lost = {
        group
        for group, offset in world.told.items()
        if offset not in {world.answered(group), kept.get(group)}
    }
    assert lost == set()


@KINDS
def test_placement_that_is_not_asked_for_is_told_by_coordinators(kind: Coordinator) -> None:
    """A broker that was not restarted, and nobody asks: coordinators that others name refuse what is
    committed again. Where they do not, the log tells: `tests/unit/application/test_expansion_counts.py`."""
    world = committed(kind)
    world.lies = {2}
    tools = tools_of(world)
    run = begin(tools, plan_run(tools, 8))
    skipping = replace(MOVE, handlers={**MOVE.handlers, RunAct.PLACE: Handler(read_back=lambda *_: HOLDS)})
    with pytest.raises(Transient, match="is not the coordinator of"):
        run_engine.go_on(skipping, tools, yes(patience_s=5.0), run)


@KINDS
def test_a_log_that_is_not_audited_is_told_by_the_watch(kind: Coordinator) -> None:
    """The last step of all: somebody makes partitions right before it."""
    world = committed(kind)
    tools = tools_of(world)
    run = begin(tools, plan_run(tools, 8))
    assert go_on(tools, yes(acts=frozenset(RunAct) - {RunAct.AUDIT}), run).ended is Ended.PAUSED
    world.world.expand(12)
    skipping = replace(MOVE, handlers={**MOVE.handlers, RunAct.AUDIT: Handler(read_back=lambda *_: HOLDS)})
    assert run_engine.go_on(skipping, tools, yes(), run).ended is Ended.DONE
    assert not watch_expansion(tools, tools.runs.find(run.run)).clean
