"""What the journal tells of one downgrade: steps there and back, comparisons, and who ran what when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.application.run_engine import StepStatus
from groupshift.domain.cluster_run.progress import Stand
from groupshift.domain.cluster_run.steps import RunAct, RunStep
from groupshift.domain.downgrade.run_plan import RunPlan, from_json
from groupshift.domain.downgrade.undoing import way_back
from groupshift.domain.verdict import Verdict
from groupshift.ports.cluster_runs import ClusterRun, RunState, RunStepRecord

_BACK = frozenset({RunState.GOING_BACK, RunState.TAKEN_BACK})


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGroups:
    """One snapshot held against an earlier one: ``verdict`` is None while it is not taken, ``reasons`` are
    the first differences, ``groups`` how many it holds, ``folder`` the name of its folder, ``accepted_by``
    who let the way back go on in spite of them (empty: nobody)."""

    subject: str
    base: str
    rules: str
    verdict: Verdict | None
    reasons: tuple[str, ...]
    groups: int | None
    at_ms: int
    folder: str
    accepted_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A node ran this release from and to then (epoch ms); ``changing`` while it was being replaced."""

    node: str
    release: str
    from_ms: int
    to_ms: int
    changing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An approval: of what, what was said (None: nobody yet), by whom, when (epoch ms)."""

    subject: str
    approved: bool | None
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeAccount:
    """A run and its plan; ``there`` are the steps of the plan, ``back`` those that undo it (empty while
    nobody asked for it), each with how far it is."""

    run: ClusterRun
    plan: RunPlan
    there: tuple[StepStatus, ...]
    back: tuple[StepStatus, ...]

    @property
    def steps(self) -> tuple[StepStatus, ...]:
        """There, then back."""
        return (*self.there, *self.back)

    @property
    def ended_ms(self) -> int:
        """The last time at which anything was journaled (epoch ms)."""
        return max([self.run.created_at_ms, *(each.at_ms for each in self.steps)])

    @property
    def next(self) -> StepStatus | None:
        """The first step that is not done, of the way that is walked; None when all are."""
        walked = self.back if self.run.state in _BACK else self.there
        return next((each for each in walked if each.stand is not Stand.DONE), None)


def account_of(run: ClusterRun, records: Mapping[str, RunStepRecord]) -> DowngradeAccount:
    """From the journal alone. Raises `ValueError` for a plan of another version."""
    plan = from_json(run.plan)
    back = way_back(plan, records) if run.state in _BACK else ()
    return DowngradeAccount(
        run=run,
        plan=plan,
        there=tuple(_status(step, records) for step in plan.steps),
        back=tuple(_status(step, records) for step in back),
    )


def _status(step: RunStep, records: Mapping[str, RunStepRecord]) -> StepStatus:
    record = records.get(step.key)
    if record is None:
        return StepStatus(step=step, stand=Stand.UNTOUCHED)
    stand = Stand(record.state.value)
    return StepStatus(step=step, stand=stand, at_ms=record.at_ms, result=record.result)


def compared(account: DowngradeAccount) -> tuple[ComparedGroups, ...]:
    """Every snapshot that is held against another one, in order; those that are not taken yet too."""
    return tuple(
        ComparedGroups(
            subject=each.step.subject,
            base=str(each.step.args["base"]),
            rules=str(each.step.args["move"]),
            verdict=Verdict(found["verdict"]) if "verdict" in found else None,
            reasons=tuple(map(str, found.get("reasons", ()))),
            groups=found.get("groups"),
            at_ms=each.at_ms,
            folder=folder_of(found),
            accepted_by=str(found.get("accepted_by", "")),
        )
        for each, found in ((each, _result(each)) for each in account.steps)
        if each.step.act is RunAct.COMPARE
    )


def folder_of(result: Mapping[str, Any]) -> str:
    """The name of the folder of a snapshot, below that of the run; empty where there is none."""
    return str(result.get("folder", "")).rpartition("/")[2]


def decisions(account: DowngradeAccount) -> tuple[Decision, ...]:
    """Who approved or accepted what, in order; what nobody was asked yet is left out."""
    approved = [
        Decision(
            subject=each.step.does,
            approved=_result(each).get("approved"),
            who=str(_result(each).get("by", "")),
            at_ms=each.at_ms,
        )
        for each in account.steps
        if each.step.act is RunAct.APPROVE and each.stand is not Stand.UNTOUCHED
    ]
    differing = [
        Decision(
            subject=f"go on although snapshot {each.subject} is not equal to {each.base}",
            approved=True,
            who=each.accepted_by,
            at_ms=each.at_ms,
        )
        for each in accepted(account)
    ]
    return tuple(sorted([*approved, *differing], key=lambda each: each.at_ms))


def accepted(account: DowngradeAccount) -> tuple[ComparedGroups, ...]:
    """The comparisons that found a difference which somebody accepted."""
    return tuple(each for each in compared(account) if each.accepted_by)


def trouble(account: DowngradeAccount) -> str:
    """Why the run stopped, where the step that is next was read back as failed; else empty."""
    found = account.next
    if found is None:
        return ""
    result = _result(found)
    if result.get("against"):
        return "; ".join(map(str, result["against"]))
    if result.get("verdict", Verdict.PASS) != Verdict.PASS:
        said = "; ".join(map(str, result["reasons"])) or str(result["verdict"])
        return f"snapshot {found.step.subject} is not equal to {found.step.args['base']}: {said}"
    return "; ".join(map(str, result.get("problems", ())))


def stretches(account: DowngradeAccount) -> tuple[Stretch, ...]:
    """What each node ran, from the plan to what was journaled last; nodes in the order of the plan."""
    nodes = dict.fromkeys(each.step.subject for each in account.there if each.step.act is RunAct.REPLACE)
    return tuple(one for node in nodes for one in _of_node(account, node))


def _of_node(account: DowngradeAccount, node: str) -> Iterator[Stretch]:
    now, since, before = account.plan.now, account.run.created_at_ms, account.run.created_at_ms
    for each in account.steps:
        if (
            each.step.act is RunAct.REPLACE
            and each.step.subject == node
            and each.stand is not Stand.UNTOUCHED
        ):
            to = account.plan.now if each.step.args.get("back") else account.plan.release
            yield Stretch(node=node, release=now, from_ms=since, to_ms=before)
            done = each.stand is Stand.DONE
            until = each.at_ms if done else account.ended_ms
            yield Stretch(node=node, release=to, from_ms=before, to_ms=until, changing=True)
            if not done:
                return
            now, since = to, each.at_ms
        before = max(before, each.at_ms)
    yield Stretch(node=node, release=now, from_ms=since, to_ms=account.ended_ms)


def _result(status: StepStatus) -> Mapping[str, Any]:
    return status.result or {}
