"""What the journal must have of a step that is done, for the steps that nothing later would miss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from groupshift.domain.run import Json, Step, StepState
from groupshift.moves.expansion.ports import Expanding


def _restored(result: Json) -> bool:
    return result.get("left") == 0 or bool(result.get("accepted_by"))


def _verified(result: Json) -> bool:
    return result.get("verdict") == "pass" or bool(result.get("accepted_by"))


_SHOWS: Mapping[str, Callable[[Json], bool]] = {
    "approve": lambda result: bool(result.get("by")),
    "snapshot": lambda result: bool(result.get("folder")) and not result.get("problems"),
    "agree": lambda result: result.get("differing") == 0,
    "fence": lambda result: result.get("kept_out") is True,
    "compare": lambda result: bool(result.get("folder")) and "outcome" in result,
    "prove": lambda result: result.get("against") == [],
    "rehearse": _restored,
    "delete-groups": lambda result: result.get("refused") == [],
    "restore": _restored,
    "verify": _verified,
}
"""Whether what is journaled of a step shows that it was done, by its kind. Partitions, restarts and counts
are asked of the brokers themselves at the end."""


def unproven(run: Expanding, before: Step) -> Iterator[str]:
    """Yield a sentence for each step of the walked plan ahead of ``before`` that the journal does not show to
    be done, with what it came to."""
    records = run.records
    for step in run.plan.steps:
        if step.key == before.key:
            return
        record, shows = records.get(step.key), _SHOWS.get(step.kind)
        done = record is not None and record.state is StepState.DONE
        if shows is not None and not (done and record is not None and shows(record.result)):
            yield f"the journal does not show that step {step.key} was done: {step.does}"
