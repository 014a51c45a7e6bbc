"""By which count groups are placed at a step, and what becomes of steps that are done when somebody else
changes it: they are done again.

Source: specs/group-coordinator.md §3.4 steps 9 to 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from groupshift.application.expansion_work import COUNTED, Expanding
from groupshift.application.run_work import Handler
from groupshift.domain.cluster_run.steps import RunAct, RunStep
from groupshift.errors import Conflict
from groupshift.ports.cluster_runs import RunStepRecord
from groupshift.ports.journal import StepState


def placing(work: Expanding) -> int:
    """By which count groups are placed now. On the way back as before, unless somebody else changed the topic
    and every broker was restarted since. Raises `Conflict` where only some were."""
    if not work.goes_back:
        return work.count
    view, before = work.tools.views.look(), work.plan.before
    kept, changed = (
        {node for node, told in view.counted.items() if each in told} for each in (before, view.count)
    )
    if len(kept) == len(view.counted):
        return before
    if len(changed) == len(view.counted):
        return view.count
    left = ", ".join(str(node) for node in sorted(view.counted) if node not in changed)
    raise Conflict(
        f"somebody else gave the offsets topic {view.count} partitions: broker {left} does not count them, "
        f"and another one does; let no client start, restart broker {left}, then run it again: every group "
        "gets back what the snapshot has, where that count puts it"
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
    found, known = _found(work), int(asked.result.get(COUNTED, _planned(work)))
    if found == known:
        return
    for step in reversed(
        work.steps[since[0] :]
    ):  # the first of them last: who is cut off here comes here again
        if record := records.get(step.key):
            _begin_again(work, record, keeps=step.key == asked.step)
    raise Conflict(
        f"groups are placed by {found} partitions, not by {known}: somebody else changed the offsets topic "
        f"since step {asked.step} was done; run it again: it goes back to that step"
    )


def _planned(work: Expanding) -> int:
    return work.plan.before if work.goes_back else work.plan.to


def _found(work: Expanding) -> int:
    """Forward by the topic, for who starts again takes that up; a broker that tells fewer is only late."""
    return placing(work) if work.goes_back else max(work.tools.views.look().count, work.count)


def _begin_again(work: Expanding, record: RunStepRecord, *, keeps: bool) -> None:
    result = record.result if keeps else {}
    again = replace(record, state=StepState.INTENDED, token=work.token, result=result)
    work.tools.runs.put(work.run, replace(again, at_ms=work.tools.clock.now_ms()))
