"""Each step of an expansion is needed: one that did nothing is caught by a later one, by what is looked at
afterwards, or did no harm."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.run import PASSED, Checked, Outcome, Step
from groupshift.engine.move import Handler, handler_of
from groupshift.engine.watch import watch
from groupshift.errors import GroupshiftError, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.move import ExpansionMove
from support.driven_expansion import BOTH, begun, killed
from support.driven_moves import Driver, detail, where
from support.simulated_expansion import GROUPS, Expansible, committed, driver_of

DENIED = "TOPIC_AUTHORIZATION_FAILED (29)"
COUNTS = ((5, 8), (5, 10), (3, 4), (4, 10), (7, 8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A step that does nothing (``subject``: only that one), what happens right before it that it is there
    for (to the first group that moves), and who says so instead (the words of a process or an error)."""

    kind: str
    subject: str = ""
    meanwhile: Callable[[Expansible, str], object] = lambda _world, _group: None
    said: str


def _commit(world: Expansible, group: str) -> object:
    return world.commit_as_client(group, 999, 1)


def _join(world: Expansible, group: str) -> object:
    return world.members.add(group)


def _deny(world: Expansible, group: str) -> object:
    return world.uncommitted.update({group: DENIED})


STEPS = (
    Skipped(kind="drain", meanwhile=_join, said="members are in 1 group: {group}"),
    Skipped(kind="snapshot", said="snapshot S of run .* was never taken"),
    Skipped(kind="agree", said="does not show that step 03 snapshot/agree S was done"),
    Skipped(kind="approve", said="does not show that step 04 approve/approve plan was done"),
    Skipped(
        kind="compare",
        subject="S0",
        meanwhile=_commit,
        said="does not show that step 05 go/compare S0 was done",
    ),
    Skipped(kind="prove", meanwhile=_join, said="UNKNOWN_MEMBER_ID"),
    Skipped(kind="rehearse", meanwhile=_deny, said="not committed"),
    Skipped(kind="delete-groups", said="came or committed since groups were deleted"),
    Skipped(kind="create-partitions", said="has {before} partitions, neither {before} nor {to}"),
    Skipped(kind="restart", said="broker 2, 3 still uses another partition count than {to}"),
    Skipped(kind="restore", said="snapshot V is not equal to S|(EX02|EX03): g"),
    Skipped(kind="compare", subject="V", said="snapshot V of run .* was never taken|compare V was done"),
    Skipped(kind="verify", said="does not show that step 16 prove/verify V was done"),
)


class Skips(Handler[Any]):
    """Does nothing where the step is the skipped one, and says that it did."""

    def __init__(self, real: Handler[Any], step: Skipped, meanwhile: Callable[[], object]) -> None:
        self._real, self._step, self._meanwhile = real, step, meanwhile
        self.touches, self.alters = real.touches, real.alters

    def __getattribute__(self, name: str) -> Any:
        own = {"_real", "_step", "_meanwhile", "_is", "allowed", "act", "check", "evidence"}
        own |= {"touches", "alters", "__class__", "__dict__"}
        return object.__getattribute__(self, name) if name in own else getattr(self._real, name)

    def _is(self, step: Step) -> bool:
        return self._step.subject in {"", step.subject}

    def allowed(self, run: Any, step: Step) -> Checked:
        """See `Handler`."""
        return PASSED if self._is(step) else self._real.allowed(run, step)

    def act(self, run: Any, step: Step, intent: Any) -> Any:
        """See `Handler`."""
        if not self._is(step):
            return self._real.act(run, step, intent)
        self._meanwhile()
        return {}

    def check(self, run: Any, step: Step, record: Any) -> Checked:
        """See `Handler`."""
        return PASSED if self._is(step) else self._real.check(run, step, record)

    def evidence(self, run: Any, step: Step, record: Any) -> Any:
        """See `Handler`."""
        return {} if self._is(step) else self._real.evidence(run, step, record)


def skipping(driver: Driver, step: Skipped, meanwhile: Callable[[], object] = lambda: None) -> None:
    """From now on this step does nothing."""
    move = ExpansionMove()
    real = handler_of(move, Step(phase="p", kind=step.kind))
    move.handlers = {**move.handlers, step.kind: Skips(real, step, meanwhile)}  # type: ignore[misc]
    driver.move = move


@pytest.mark.parametrize("step", STEPS, ids=lambda each: f"{each.kind} {each.subject}".strip())
@given(kind=st.sampled_from(Coordinator), counts=st.sampled_from(COUNTS))
@settings(max_examples=6, deadline=None)
def test_a_step_that_did_nothing_is_caught_by_another(
    step: Skipped, kind: Coordinator, counts: tuple[int, int]
) -> None:
    """The run does not come to its end, and says why; no commit is lost that snapshot S has not."""
    before, to = counts
    moving = next(each for each in GROUPS if partition_of(each, before) != partition_of(each, to))
    world = committed(kind, count=before)
    driver = driver_of(world)
    skipping(driver, step, lambda: step.meanwhile(world, moving))
    try:
        found = driver.go_on(begun(driver, to), patience_s=5.0)
        said, how = detail(found), where(found)[0]
    except GroupshiftError as why:
        said, how = str(why), "failed"
    assert how in {"failed", "waiting"}, said
    assert re.search(step.said.format(group=moving, before=before, to=to), said), said
    kept = {
        row.group: row.offset
        for name, state in world.snapshots.items()
        if "-S-" in name
        for row in state.offsets
    }
    lost = {
        group
        for group, offset in world.told.items()
        if offset not in {world.answered(group), kept.get(group)}
    }
    assert lost == set(), (kept, list(world.snapshots))


@BOTH
def test_placement_that_is_not_asked_for_is_shown_by_coordinators(kind: Coordinator) -> None:
    """A broker that was not restarted, and nobody asks: coordinators that others name refuse what is
    committed again. Where they do not, the log shows it."""
    world = committed(kind)
    world.lies = {2}
    driver = driver_of(world)
    skipping(driver, Skipped(kind="place", said=""))
    with pytest.raises(Transient, match="is not the coordinator of"):
        driver.go_on(begun(driver), patience_s=5.0)


@BOTH
def test_a_log_that_is_not_audited_is_shown_by_the_watch(kind: Coordinator) -> None:
    """The last step of all: somebody makes partitions right before it."""
    world = committed(kind)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "audit")
    world.world.expand(12)
    skipping(driver, Skipped(kind="audit", said=""))
    assert where(driver.go_on(run)) == ("finalised", "")
    assert watch(driver.move, driver.tools(), driver.ports, run).outcome is Outcome.FAIL
