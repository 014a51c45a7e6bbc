"""By which count groups are placed at a step, and what becomes of steps that are done when somebody else
changes it: they are done again.

Source: docs/reference/group-coordinator.md §3.4 steps 9 to 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from groupshift.application.expansion_work import COUNTED, Expanding
from groupshift.application.run_work import Handler
from groupshift.domain.step import RunAct, RunStep
from groupshift.errors import Conflict
from groupshift.ports.journal import RunStepRecord, StepState


def placing(work: Expanding) -> tuple[int, ...]:
    """The counts by which groups may be placed now, to be tried in this order. There are two on the way back
    where somebody else changed the topic and all that brokers answer fits both: the log tells. Raises
    `Conflict` where somebody restarted some brokers and not all."""
    if not work.goes_back:
        return (work.count,)
    view, before = work.tools.views.look(), work.plan.before
    took_up = [node for node, told in view.counted.items() if view.count in told and before not in told]
    left = sorted(node for node, told in view.counted.items() if view.count not in told)
    if not took_up:
        return (before,) if left or view.count == before else (before, view.count)
    if not left:
        return (view.count,)
    named = ", ".join(map(str, left))
    raise Conflict(
        f"the offsets topic has {view.count} partitions, and somebody restarted a broker, which counts them; "
        f"broker {named} does not: let no client start, restart broker {named}, then run it again, and every "
        "group gets back what the snapshot has, where that count puts it"
    )


def still_placed(handler: Handler[Expanding]) -> Handler[Expanding]:
    """The same, where brokers count as they did when it was asked for; else the run goes back to there.
    Raises `Conflict` then, with nothing changed."""

    def act(work: Expanding, step: RunStep, intent: Mapping[str, Any]) -> Mapping[str, Any]:
        _demand_counted(work)
        return handler.act(work, step, intent)

    return replace(handler, act=act)


def _demand_counted(work: Expanding) -> None:
    """Raises `Conflict` where the count is another one than when the step that depends on it was done: that
    step, and all after it, are to be done again."""
    asking = RunAct.RESTORE if work.goes_back else RunAct.PLACE
    since = [at for at, each in enumerate(work.steps) if each.act is asking]
    records = work.tools.runs.steps(work.run)
    asked = records.get(work.steps[since[0]].key) if since else None
    if asked is None or asked.state is not StepState.DONE:
        return
    known = int(asked.result.get(COUNTED, work.plan.before if work.goes_back else work.plan.to))
    counts = placing(work) if work.goes_back else (max(work.tools.views.look().count, known),)
    if known in counts:  # forward the topic tells: a broker that tells fewer is only late
        return
    for step in reversed(
        work.steps[since[0] :]
    ):  # the first of them last: who is cut off here comes here again
        if record := records.get(step.key):
            _begin_again(work, record, keeps=step.key == asked.step)
    raise Conflict(
        f"groups are placed by {counts[0]} partitions, not by {known}: somebody else changed the offsets "
        f"topic since step {asked.step} was done; run it again: it goes back to that step"
    )


def _begin_again(work: Expanding, record: RunStepRecord, *, keeps: bool) -> None:
    result = record.result if keeps else {}
    again = replace(record, state=StepState.INTENDED, token=work.token, result=result)
    work.tools.runs.put(work.run, replace(again, at_ms=work.tools.clock.now_ms()))
