"""Steps of an expansion that keep clients out while brokers count differently, and let them in again.

Source: docs/reference/group-coordinator.md §3.4 step 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.application.expansion_work import Expanding
from groupshift.application.run_work import HOLDS, Handler, Look
from groupshift.domain.step import RunAct, RunStep
from groupshift.errors import Rejected
from groupshift.ports.driver import ClientFence
from groupshift.ports.journal import RunStepRecord


def fence_of(nodes: object) -> ClientFence | None:
    """The driver's fence, where it has one."""
    return nodes if isinstance(nodes, ClientFence) else None


def _fence(work: Expanding) -> ClientFence:
    """Raises `Rejected` where the plan has a fence, and this process none."""
    found = fence_of(work.tools.nodes)
    if found is None:
        raise Rejected("this run keeps clients out by the [fence] of a file: name that file with --nodes")
    return found


def _keep_out(work: Expanding, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    _fence(work).keep_out(work.run)
    return {"kept_out": True}


def _let_in(work: Expanding, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    _fence(work).let_in(work.run)
    return {"let_in": True}


def _done(_work: Expanding, _step: RunStep, _record: RunStepRecord) -> Look:
    """The programs say so themselves; that nobody is there is asked of every broker before each step."""
    return HOLDS


HANDLERS: Mapping[RunAct, Handler[Expanding]] = {
    RunAct.FENCE: Handler(act=_keep_out, read_back=_done),
    RunAct.REOPEN: Handler(act=_let_in, read_back=_done),
}
"""By what a step does."""
