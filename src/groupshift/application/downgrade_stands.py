"""How far every step of a run is: by its journal, or, where a node's end was not written down, its driver."""

from __future__ import annotations

from groupshift.application.downgrade_replace import alike, change_of, tells
from groupshift.application.downgrade_work import Work
from groupshift.domain.step import Journaled, RunAct, RunStep, Stand
from groupshift.ports.driver import NodeState
from groupshift.ports.journal import RunStepRecord, StepState


def journaled(work: Work) -> dict[str, Journaled]:
    """Every step that was begun, by key. Raises `Transient` when a driver does not answer."""
    records = work.tools.runs.steps(work.run)
    known = {each.key: each for each in work.steps}
    return {
        key: Journaled(
            stand=Stand(each.state.value), token=each.token, taken=_taken(work, known.get(key), each)
        )
        for key, each in records.items()
    }


def _taken(work: Work, step: RunStep | None, record: RunStepRecord) -> bool:
    """Whether the replacement of a node was begun, or a person was told to: only then can it be under way.

    A process that was killed between its act and the journal left no word of it: the driver knows the
    change, or the broker tells the release that it was to get."""
    if step is None or step.act is not RunAct.REPLACE:
        return False
    if record.state is not StepState.INTENDED or record.result:
        return True
    if record.token == work.token:
        return False
    wanted = change_of(work, step)
    status = work.tools.nodes.observe(wanted.node_id)
    if status.state is not NodeState.UNKNOWN:
        return status.change_id == wanted.change_id
    return not alike(work.plan) and tells(work.tools.views.look(), wanted)
