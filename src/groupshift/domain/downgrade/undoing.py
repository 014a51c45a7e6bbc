"""What undoes the steps of a downgrade that were begun, last one first.

Source: specs/group-coordinator.md §8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from groupshift.domain.downgrade.run_plan import RunPlan
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.step import OnDifference, RunAct, RunStep, compare_step, numbered


def way_back(plan: RunPlan, begun: Iterable[str]) -> tuple[RunStep, ...]:
    """What undoes the steps with these keys, last one first, after an approval of its own; steps that are
    forward only, or change nothing, are left out."""
    known = frozenset(begun)
    undoing = [undo for each in reversed(plan.steps) if each.key in known for undo in _undo(plan, each)]
    if not undoing:
        return ()
    nodes = [each for each in undoing if each.act is RunAct.REPLACE]
    compared = compare_step("D", "C0", Comparison.DOWNGRADE, OnDifference.ANEW)
    undoing[len(nodes) : len(nodes)] = [compared] if nodes else []
    approve = RunStep(
        key="", act=RunAct.APPROVE, subject="back", does=f"approve to undo {len(undoing)} steps"
    )
    return tuple(replace(each, key=f"back {each.key}") for each in numbered([approve, *undoing]))


def _undo(plan: RunPlan, step: RunStep) -> Iterator[RunStep]:
    match step.act:
        case RunAct.REPLACE:
            does = f"stop node {step.subject} cleanly, start {plan.now} over the same folder"
            yield replace(step, does=does, proof="it is registered and in sync", args={"back": True})
        case RunAct.LOWER:
            yield replace(step, act=RunAct.RAISE, does=step.inverse, args={"to": step.args["from"]})
        case RunAct.DELETE_CONFIGS:
            yield replace(step, act=RunAct.SET_CONFIGS, does=step.inverse)
        case RunAct.QUICKEN:
            settle = next(each for each in plan.steps if each.act is RunAct.SETTLE)
            yield settle
        case _:
            return
