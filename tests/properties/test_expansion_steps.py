"""Each step of an expansion is needed: one that did nothing is caught by a later one, by what is looked at
afterwards, or did no harm."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.application import run_engine
from groupshift.application.expansion_run import MOVE, begin, go_on, plan_run
from groupshift.application.expansion_watch import watch_expansion
from groupshift.application.expansion_work import Expanding
from groupshift.application.run_engine import Ended, Move
from groupshift.application.run_work import HOLDS, Handler, Look
from groupshift.domain.placement import partition_of
from groupshift.domain.step import RunAct, RunStep
from groupshift.errors import GroupshiftError, Transient
from groupshift.log.releases import Coordinator
from groupshift.ports.journal import RunStepRecord
from support.simulated_downgrade import yes
from support.simulated_expansion import GROUPS, Expansible, committed, tools_of

KINDS = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])
DENIED = "TOPIC_AUTHORIZATION_FAILED (29)"
COUNTS = ((5, 8), (5, 10), (3, 4), (4, 10), (7, 8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A step that does nothing (``subject``: only that one), what happens right before it that it is there
    for (to the first group that moves), and who tells instead (the words of an outcome or an error)."""

    act: RunAct
    subject: str = ""
    meanwhile: Callable[[Expansible, str], object] = lambda _world, _group: None
    told: str

    def of(self, step: RunStep) -> bool:
        """Whether it is this step."""
        return step.act is self.act and self.subject in {"", step.subject}


def _commit(world: Expansible, group: str) -> object:
    return world.commit_as_client(group, 999, 1)


def _join(world: Expansible, group: str) -> object:
    return world.members.add(group)


def _deny(world: Expansible, group: str) -> object:
    return world.uncommitted.update({group: DENIED})


STEPS = (
    Skipped(act=RunAct.DRAIN, meanwhile=_join, told="members are in 1 group: {group}"),
    Skipped(act=RunAct.SNAPSHOT, told="snapshot S of run .* was never taken"),
    Skipped(act=RunAct.AGREE, told="does not show that step 03 agree S was done"),
    Skipped(act=RunAct.APPROVE, told="does not show that step 04 approve plan was done"),
    Skipped(
        act=RunAct.COMPARE,
        subject="S0",
        meanwhile=_commit,
        told="does not show that step 05 compare S0 was done",
    ),
    Skipped(act=RunAct.PROVE, meanwhile=_join, told="UNKNOWN_MEMBER_ID"),
    Skipped(act=RunAct.REHEARSE, meanwhile=_deny, told="not committed"),
    Skipped(act=RunAct.DELETE_GROUPS, told="came or committed since groups were deleted"),
    Skipped(act=RunAct.CREATE_PARTITIONS, told="has {before} partitions, neither {before} nor {to}"),
    Skipped(act=RunAct.RESTART, told="count {to} not adopted by broker 2, 3"),
    Skipped(act=RunAct.RESTORE, told="snapshot V is not equal to S"),
    Skipped(act=RunAct.COMPARE, subject="V", told="does not show that step 15 compare V was done"),
    Skipped(act=RunAct.VERIFY, told="does not show that step 16 verify V was done"),
)


def skipping(step: Skipped, meanwhile: Callable[[], object]) -> Move[Expanding]:
    """The move, in which this step does nothing and says that it did."""
    real = MOVE.handlers[step.act]

    def act(work: Expanding, this: RunStep, intent: Mapping[str, Any]) -> Mapping[str, Any]:
        if not step.of(this):
            return real.act(work, this, intent)
        meanwhile()
        return {}

    def read_back(work: Expanding, this: RunStep, record: RunStepRecord) -> Look:
        return HOLDS if step.of(this) else real.read_back(work, this, record)

    handler = Handler(intend=real.intend, act=act, read_back=read_back)
    return replace(MOVE, handlers={**MOVE.handlers, step.act: handler})


@pytest.mark.parametrize("step", STEPS, ids=lambda each: f"{each.act} {each.subject}".strip())
@given(kind=st.sampled_from(Coordinator), counts=st.sampled_from(COUNTS))
@settings(max_examples=6)
def test_a_step_that_did_nothing_is_told_by_another(
    step: Skipped, kind: Coordinator, counts: tuple[int, int]
) -> None:
    """The run does not come to its end, and says why; no commit is lost that snapshot S has not."""
    before, to = counts
    moving = next(each for each in GROUPS if partition_of(each, before) != partition_of(each, to))
    world = committed(kind, count=before)
    tools = tools_of(world)
    move = skipping(step, lambda: step.meanwhile(world, moving))
    try:
        outcome = run_engine.go_on(move, tools, yes(patience_s=5.0), begin(tools, plan_run(tools, to)))
        said, ended = outcome.detail, outcome.ended
    except GroupshiftError as why:
        said, ended = str(why), Ended.FAILED
    assert ended in {Ended.FAILED, Ended.WAITING}, said
    assert re.search(step.told.format(group=moving, before=before, to=to), said), said
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
