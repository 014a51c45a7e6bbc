"""What the journal must have of a step that is done, for the steps that nothing later would miss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from groupshift.domain.step import RunAct, RunStep
from groupshift.domain.verdict import Verdict

Result = Mapping[str, Any]


def _passed(result: Result) -> bool:
    return result.get("verdict") == Verdict.PASS or bool(result.get("accepted_by"))


def _restored(result: Result) -> bool:
    return result.get("left") == 0 or bool(result.get("accepted_by"))


PROVEN: Mapping[RunAct, Callable[[Result], bool]] = {
    RunAct.APPROVE: lambda result: result.get("approved") is True,
    RunAct.SNAPSHOT: lambda result: bool(result.get("folder")) and not result.get("problems"),
    RunAct.AGREE: lambda result: result.get("differing") == 0,
    RunAct.FENCE: lambda result: result.get("kept_out") is True,
    RunAct.COMPARE: _passed,
    RunAct.PROVE: lambda result: result.get("against") == [],
    RunAct.REHEARSE: _restored,
    RunAct.DELETE_GROUPS: lambda result: result.get("refused") == [],
    RunAct.RESTORE: _restored,
    RunAct.VERIFY: _passed,
}
"""Whether what is journaled of a step of an expansion shows that it was done, and what it came to.
Partitions, restarts and counts are asked of the brokers themselves at the end."""


def unproven(steps: Iterable[RunStep], before: RunStep, results: Mapping[str, Result]) -> Iterator[str]:
    """A sentence for each of ``steps`` ahead of ``before`` whose result (by key; none: it was not done) does
    not show what it is there for. Never raises."""
    for step in steps:
        if step.key == before.key:
            return
        shows = PROVEN.get(step.act)
        if shows is not None and not shows(results.get(step.key, {})):
            yield f"the journal does not show that step {step.key} was done: {step.does}"
