"""What the journal tells of one run, for its page: whatever the move.

`history_of` reads a run once; `comparisons_of`, `decisions` and `node_intervals` are views of that. Nothing
here asks a server or the evidence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from groupshift.domain.run import (
    APPROVE,
    Json,
    Outcome,
    Plan,
    RunState,
    Step,
    StepState,
    findings_from,
    plan_from,
)
from groupshift.domain.verdict import Verdict
from groupshift.engine.move import Run, worst_verdict
from groupshift.engine.questions_and_approvers import words_of
from groupshift.engine.status import RunStatus, StepStatus, status_of, step_statuses
from groupshift.ports.runs import Event, EventKind, RunRecord
from groupshift.report.page import Headline

P = TypeVar("P")
_BAD = frozenset({Verdict.FAIL.value, Verdict.ERROR.value})
_WRONG = frozenset({Outcome.FAIL.value, Outcome.ERROR.value, Outcome.INCONCLUSIVE.value})
QUIET = frozenset({EventKind.NOTED, EventKind.SEALING, EventKind.WAITS, EventKind.SHOWN})
"""Kinds of events that pages leave out: the event after them tells it already."""
_ABOUT_EVIDENCE = frozenset({EventKind.SEALING, EventKind.SEALED, EventKind.AUDITED})
"""Kinds of events that tell of the evidence, not of the run."""
OVER = frozenset({RunState.FINALISED, RunState.MOVED, RunState.ROLLED_BACK})
"""States of a run that came to an end that was asked for."""
_SAID_YES = frozenset({"approve", "go_on"})
"""Answers that let a run go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One snapshot of a cluster compared with an earlier one, by the step that ``made`` it.

    ``verdict`` is None while it is not taken; a field that was not compared decides nothing. ``reasons`` are
    the first differences and what was not compared, ``groups`` how many it holds."""

    made: StepStatus
    verdict: Verdict | None
    reasons: tuple[str, ...]
    groups: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInterval:
    """What a node ran (a release, a count) from and to then (epoch ms); ``changing`` while it was being
    replaced or restarted, to run that."""

    node: str
    ran: str
    from_ms: int
    to_ms: int
    changing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Somebody let the run go on although ``step`` was not as it has to be, as ``reasons`` tell it."""

    step: Step
    reasons: tuple[str, ...]
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A run as its journal has it: ``there`` are the steps of its plan, ``back`` those of its rollbacks, each
    with how far it is."""

    record: RunRecord
    plan: Plan
    status: RunStatus
    there: tuple[StepStatus, ...]
    back: tuple[StepStatus, ...]
    events: tuple[Event, ...]

    @property
    def state(self) -> RunState:
        """The state in which the run is."""
        return self.record.state

    @property
    def about(self) -> Json:
        """What the move keeps in the plan besides its steps."""
        return self.plan.about

    @property
    def steps(self) -> tuple[StepStatus, ...]:
        """There, then back."""
        return (*self.there, *self.back)

    @property
    def ended_ms(self) -> int:
        """When something happened last (epoch ms); sealing or auditing is nothing that happens."""
        acts = (each.at_ms for each in self.events if each.kind not in _ABOUT_EVIDENCE)
        return max(acts, default=self.record.created_at_ms)

    @property
    def next(self) -> StepStatus | None:
        """The first step, of the plan that is walked, that was neither made nor left out; None when there is
        none."""
        steps = self.status.steps
        return next((e for e in steps if e.record is None or e.record.state is not StepState.DONE), None)

    def of_kind(self, kind: str) -> tuple[StepStatus, ...]:
        """The steps of the plan of this kind."""
        return tuple(each for each in self.there if each.step.kind == kind)

    @property
    def take_back(self) -> tuple[str, str]:
        """The words and the command that take the run back."""
        return "To take it back:", f"groupshift roll-back {self.record.run} --execute"

    @property
    def trouble(self) -> str:
        """Why an open run stopped, where something is wrong; else empty.

        Something is wrong where a look failed, or found what a person has to cure."""
        return self._stopped(wrong=True)

    @property
    def waiting(self) -> str:
        """What an open run waits for; empty where it does not, or there is `trouble`."""
        return self._stopped(wrong=False)

    def _stopped(self, *, wrong: bool) -> str:
        """What the last process said when it stopped; empty where another one has the run since. It is wrong
        where a look failed, or found what a person has to cure; else it only waits."""
        ends = [each for each in self.events if each.kind in {EventKind.STOPPED, EventKind.CLAIMED}]
        if not ends or ends[-1].kind is EventKind.CLAIMED or not self.state.is_open:
            return ""
        last = ends[-1].body
        bad = [each for each in findings_from(last["findings"]) if each.verdict is not Verdict.PASS]
        cure = last["outcome"] == Outcome.PERSON and any(each.verdict in _BAD for each in bad)
        if wrong is not (last["outcome"] in _WRONG or cure):
            return ""
        detail = str(last["detail"])
        sentences = [each.with_remedy for each in bad if each.with_remedy not in detail]
        return "; ".join(filter(None, [*sentences, detail]))

    @property
    def accepted(self) -> tuple[Accepted, ...]:
        """What was found wrong and accepted by somebody, in the order of the journal; the last answer for
        each step. A run with any of it ends red."""
        steps = {each.step.key: each.step for each in self.steps}
        by_step: dict[str, Accepted] = {}
        for event in self.events:
            if event.kind is EventKind.ACCEPTED and event.body["verdict"] in _BAD and event.step in steps:
                said = event.body.get("findings") or ()
                bad = tuple(f"{e['rule']}: {e['reason']}" for e in said if e["verdict"] != Verdict.PASS)
                who = str(event.body["who"])
                by_step[event.step] = Accepted(step=steps[event.step], reasons=bad, who=who)
        return tuple(by_step.values())


def history_of(run: Run[P]) -> History:
    """Return what the journal tells of a run: its plan, its rollbacks, and how far each step is.

    Raises:
        Rejected: the run is not in the journal, or its plan is of another version.
    """
    record, records, events = run.tools.runs.find(run.name), run.records, run.events()
    plan = plan_from(record.plan)
    rollbacks = (each.body["plan"] for each in events if each.kind is EventKind.ROLLBACK_BEGUN)
    back = {step.key: step for each in rollbacks for step in plan_from(json.dumps(each)).steps}
    return History(
        record=record,
        plan=plan,
        status=status_of(run.tools.runs, run.name),
        there=step_statuses(plan.steps, records, events),
        back=step_statuses(back.values(), records, events),
        events=events,
    )


def wrong_words(step: Step) -> str:
    """Return a clause: what it means that a step is not as it has to be."""
    if "base" in step.args and step.subject:
        return f"snapshot {step.subject} is not equal to {step.args['base']}"
    return f"step {step.key} is not as it has to be"


def comparisons_of(history: History) -> tuple[Comparison, ...]:
    """Return every snapshot of a cluster that is compared with another one, in the order of the steps; those
    that are not taken yet, too."""
    comparisons = []
    for each in history.steps:
        if each.step.kind != "compare" or not {"base", "move"} <= each.step.args.keys():
            continue
        journaled = each.result
        findings = findings_from(journaled.get("findings", ()))
        problems = tuple(map(str, journaled.get("problems", ())))
        verdict = Verdict.ERROR if problems else None
        if "findings" in journaled:
            judged = tuple(one for one in findings if one.verdict is not Verdict.INCONCLUSIVE)
            verdict = worst_verdict(judged) if findings else Verdict.PASS
        bad = tuple(f"{one.rule}: {one.reason}" for one in findings if one.verdict is not Verdict.PASS)
        groups = journaled.get("groups")
        comparisons.append(Comparison(made=each, verdict=verdict, reasons=bad or problems, groups=groups))
    return tuple(comparisons)


def decisions(
    history: History, wrong: Callable[[Step], str] = wrong_words
) -> Iterator[tuple[str, str, str | None, int]]:
    """Yield who approved, reviewed, accepted or took back what, in the order of the journal: of what, what
    was said, by whom, and when (epoch ms).

    A gate that waits for an answer is last. ``wrong`` says what it means that a step, over which somebody let
    the run go on, is not as it has to be."""
    steps = {each.step.key: each.step for each in history.steps}
    reasons = {each.step.key: f": {'; '.join(each.reasons)}" for each in history.accepted if each.reasons}
    for event in history.events:
        step, body, about, said = steps.get(event.step), event.body, "", "approved"
        if event.kind is EventKind.GATE_ANSWERED and step is not None:
            review = f"review of {step.key}: {str(body['choice']).replace('_', ' ')}"
            about = words_of(step) if step.kind == APPROVE else review
            said = "approved" if body["choice"] in _SAID_YES else "refused"
        elif event.kind is EventKind.ACCEPTED and step is not None:
            about = f"accept what step {step.key} showed"
            if body["verdict"] in _BAD:
                about = f"go on although {wrong(step)}{reasons.get(step.key, '')}"
        elif event.kind is EventKind.ROLLBACK_BEGUN:
            because = f": {body['because']}" if body["because"] else ""
            about = f"roll back to {str(body['to']).replace('_', ' ')}{because}"
        if about:
            yield about, said, body.get("who") or None, event.at_ms
    waits = steps.get(history.status.question)
    if waits is not None:
        at_ms = max((e.at_ms for e in history.events if e.kind is EventKind.GATE_SHOWN), default=0)
        yield waits.does or waits.name, "nobody has answered", None, at_ms


def node_intervals(
    history: History, kind: str, now: str, ran: Callable[[Step], str]
) -> tuple[NodeInterval, ...]:
    """Return what each node ran, from the plan until what was journaled last; nodes in the order of the plan.

    Each node ran ``now`` when the run was planned. Steps of this ``kind``, there and back, change it to what
    ``ran`` says of the step; the change lasts from the end of the step before it to its own end."""
    intervals: list[NodeInterval] = []
    planned_ms = history.record.created_at_ms
    for node in dict.fromkeys(each.step.subject for each in history.of_kind(kind)):
        last = NodeInterval(node=node, ran=now, from_ms=planned_ms, to_ms=history.ended_ms)
        before = planned_ms
        for each in history.steps:
            if (each.step.kind, each.step.subject) == (kind, node) and each.begun:
                until = each.at_ms if each.done else history.ended_ms
                changed = replace(last, ran=ran(each.step), from_ms=before, to_ms=until, changing=True)
                intervals += [replace(last, to_ms=before), changed]
                last = replace(changed, from_ms=until, to_ms=history.ended_ms, changing=False)
                if not each.done:
                    break
            before = max(before, each.at_ms)
        else:
            intervals.append(last)
    return tuple(intervals)


_WORDS = {
    RunState.PREVIEW: "planned only",
    RunState.PLANNED: "waiting for approval",
    RunState.APPROVED: "approved, not begun",
    RunState.RUNNING: "under way",
    RunState.MOVED: "moved",
    RunState.FINALISED: "finalised",
    RunState.ROLLING_BACK: "not back yet",
    RunState.ROLLED_BACK: "rolled back",
    RunState.REJECTED: "nothing changed",
}
"""The word of each state, for the badge of a page."""


def headline_of(history: History, sentence: str, now: Sequence[tuple[str, str]]) -> Headline:
    """Return the first lines of a page: the verdict with its word, the ``sentence``, and what to do ``now``.

    A run that is not over is inconclusive. One that stopped at something wrong has failed, and so has one
    that is being rolled back and is not proven to be there."""
    going_back, word = history.state is RunState.ROLLING_BACK, _WORDS[history.state]
    verdict = Verdict(history.status.verdict or Verdict.INCONCLUSIVE)
    if going_back or history.trouble:
        verdict, word = Verdict.FAIL, word if going_back else "stopped"
    return Headline(verdict=verdict, word=word, sentence=sentence, now=now)


def run_to_do(
    history: History, over: Sequence[tuple[str, str]], again: str, *, closed: str = "", halt: str = ""
) -> tuple[tuple[str, str], ...]:
    """Return what to do now about a run: (words, command or empty), the first thing first.

    ``over`` is what to do when it is over, ``again`` the command that plans it again, ``closed`` why there is
    only the way forward (empty: both ways are open), ``halt`` what nobody may do before it is done."""
    run, state, trouble = history.record.run, history.state, history.trouble
    go_on = f"groupshift continue {run} --execute"
    if state in OVER:
        check = ("To prove that nobody changed this evidence since:", f"groupshift verify-evidence {run}")
        return (*over, check)
    if state in {RunState.REJECTED, RunState.PREVIEW}:
        return (("To plan it again:", again),)
    if state is RunState.ROLLING_BACK:
        cure = "Correct what the first finding below names, then run this again:"
        return ((cure if trouble else "To go on with the rollback:", go_on),)
    if state in {RunState.PLANNED, RunState.APPROVED} and not halt:
        return (("Once the cause is understood, to run it:" if trouble else "To run it:", go_on),)
    if closed:
        return ((f"{closed}{'; once the cause is cured' if trouble else ''}:", go_on),)
    onwards = ("Once the cause is understood, to go on:" if trouble else "To go on where it stands:", go_on)
    both = (history.take_back, onwards) if trouble else (onwards, history.take_back)
    return ((halt, ""), *both) if halt else both


_SHOWN = ("holder", "why", "to", "detail", "verdict", "reason", "because")


def event_text(event: Event) -> str:  # noqa: PLR0911 - one sentence a kind
    """Return what an event says, in one line, empty where its kind says it all.

    Only keys that are known are shown, so nothing unexpected is."""
    body = event.body
    match event.kind:
        case EventKind.GATE_ANSWERED:
            return f"{str(body['choice']).replace('_', ' ')} by {body['who']}"
        case EventKind.ACCEPTED:
            return f"by {body['who']} ({body['verdict']})"
        case EventKind.VOIDED:
            return "; ".join(map(str, body["changes"]))
        case EventKind.JUDGED | EventKind.CHECKED | EventKind.STOPPED:
            bad = [f"{e['rule']}: {e['reason']}" for e in body["findings"] if e["verdict"] != Verdict.PASS]
            return " · ".join([str(body["outcome"]), *bad, *([body["detail"]] if body["detail"] else [])])
        case EventKind.SEALED:
            signed = "signed" if body["signed"] else "not signed"
            return f"{body['files']} files, {signed}, SHA-256 {str(body['digest'])[:12]}…"
        case EventKind.AUDITED:
            return f"{len(body['files'])} files of the audit of consumption"
        case _:
            return " · ".join(str(body[key]) for key in _SHOWN if body.get(key))
