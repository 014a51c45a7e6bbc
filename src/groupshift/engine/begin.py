"""Begin a run, and claim one that lies in the journal."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from groupshift.domain.run import APPROVE, CHECKS, Findings, RunState, Target, canonical, findings_data
from groupshift.engine.move import Move, P, Run, RunOptions, Tools, changes, request_data
from groupshift.engine.run import give_up
from groupshift.errors import Conflict, Fenced, GroupshiftError, Rejected, Transient
from groupshift.ports.run_claims import require_free
from groupshift.ports.runs import RunRecord, Runs

_LOOK_AGAIN_S = 2.0
_SAID = 3
_NEVER_ACTS = frozenset({RunState.PREVIEW, RunState.PLANNED, RunState.REJECTED, RunState.FINALISED})
"""States in which no former process can still be about to act: nothing outside the journal is fenced."""


def assess(
    move: Move[P], tools: Tools, ports: P, request: Any, *, patience_s: float = 0
) -> tuple[Any, Findings]:
    """Return the facts and the findings; looked at again as long as only rules fail that time may heal."""
    until = tools.clock.now_ms() + patience_s * 1000
    while True:
        facts = move.look(ports, request)
        findings = move.assess(request, facts)
        failed = move.obstacles(request, facts, findings)
        heals = bool(failed) and all(each.rule in move.heals for each in failed)
        if not heals or tools.clock.now_ms() >= until:
            return facts, findings
        tools.clock.sleep(_LOOK_AGAIN_S)


def begin(
    move: Move[P],
    tools: Tools,
    ports: P,
    request: Any,
    options: RunOptions,
    *,
    execute: bool,
    origin: str = "",
) -> RunRecord:
    """Plan a run and journal it; without ``execute`` as a preview, which locks nothing and never acts. The
    same ``origin`` gets its run again.

    Raises:
        Conflict: an open run is in the way: the sentence names it.
        Rejected: the target is not ready, or nothing is left to do; nothing is journaled. Or evidence could
            not be sealed.
    """
    known = tools.runs.of_origin(origin) if origin else None
    if known is not None:
        return known
    target = move.target(ports, request)
    if execute:
        require_free(target, tools.runs.in_the_way(target))
    patience_s = options.patience_s or move.heals_s(ports)
    facts, findings = assess(move, tools, ports, request, patience_s=patience_s)
    failed = [each.with_remedy for each in move.obstacles(request, facts, findings)]
    if failed:
        raise Rejected(f"{target} is not ready, nothing was journaled: {'; '.join(failed[:_SAID])}")
    plan = move.plan(request, facts)
    if not any(changes(move, each) for each in plan.steps):
        raise Rejected(f"there is nothing to do for {target}: the plan of {move.name} has no step that acts")
    if CHECKS not in plan.about:  # who approves the plan sees what was asked before it
        plan = replace(plan, about={**plan.about, CHECKS: findings_data(findings)})
    tools.may_seal()
    asks = any(each.kind == APPROVE for each in plan.steps)  # else it is approved by whoever runs it
    first = RunState.PLANNED if asks else RunState.APPROVED
    now = tools.clock.now_ms()
    record = RunRecord(
        run=f"{move.name}-{re.sub(r'[^A-Za-z0-9._-]', '_', target.name)[:80]}-{now}",
        move=move.name,
        target=target,
        state=first if execute else RunState.PREVIEW,
        plan=plan.text,
        plan_hash=plan.hash,
        request=canonical(request_data(request)),
        requester=options.requester or options.who,
        origin=origin,
        created_at_ms=now,
        updated_at_ms=now,
    )
    tools.runs.create(record)
    return record


def request_differences(record: RunRecord, request: Any) -> tuple[str, ...]:
    """Return how a request differs from that of a run, by field; empty: the run is what was asked for."""
    then, now = json.loads(record.request), request_data(request)
    return tuple(
        f"{name}: the run has {then.get(name)!r}, asked for is {now.get(name)!r}"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    )


def run_to_resume(move: Move[P], runs: Runs, target: Target, request: Any) -> RunRecord | None:
    """Return the open run of this move and target, None where there is none.

    Raises:
        Rejected: it was asked for otherwise.
        Conflict: it is being taken back.
    """
    own = (each for each in runs.in_the_way(target) if (each.move, each.target) == (move.name, target))
    record = next(own, None)
    if record is None:
        return None
    if record.state.goes_back:
        raise Conflict(f"run {record.run} of {target} is being rolled back: groupshift continue {record.run}")
    differs = request_differences(record, request)
    if differs:
        raise Rejected(
            f"run {record.run} of {target} is open and was asked for otherwise: {'; '.join(differs)}; go on "
            f"with it: groupshift continue {record.run}, or take it back: groupshift roll-back {record.run}"
        )
    return record


def claim(
    move: Move[P],
    tools: Tools,
    ports: P,
    run: RunRecord,
    options: RunOptions,
    *,
    anew: bool = True,
    take_over: bool = False,
) -> Run[P]:
    """Claim a run that was read from the journal; ``anew`` and ``take_over`` as `Runs.claim`.

    Raises:
        Rejected: it is of another move or target; nothing was changed.
        Conflict: its state changed since it was read, and this holder did not have it: tasks of one holder go
            on with a run side by side.
        Fenced: another holder has it.
        Transient: the target cannot tell which it is. Then only a rollback goes on (``direction`` "back", or
            a run that is rolling back).
    """
    if run.move != move.name:
        raise Rejected(f"run {run.run} is of move {run.move}, not of {move.name}; nothing was changed")
    try:
        met = move.target(ports, move.request_from(json.loads(run.request)))
    except Transient:
        if run.state is not RunState.ROLLING_BACK and options.direction != "back":
            raise
        met = run.target
    if met != run.target:
        raise Rejected(
            f"run {run.run} is of {run.target} in {run.target.cluster!r}, and what answers is {met} in "
            f"{met.cluster!r}: name the servers of the run, or the run of these servers; nothing was changed"
        )
    held = tools.runs.held(run.run)
    token = tools.runs.claim(run.run, options.holder, tools.clock.now_ms(), anew=anew, take_over=take_over)
    claimed = Run(move, tools, ports, options, (run.run, token))
    try:
        now = claimed.refresh().state
        ours = held and held.holder == options.holder and token <= held.token + 1
        if now is not run.state and not ours:
            since = f"run {run.run} was {run.state} and is {now} by another process since"
            raise Conflict(f"{since}; nothing was changed here; see: groupshift status {run.run}")
        # One that is over takes no fence while another run is in the way, which would be fenced off. What it
        # may still begin asks for a free target first, and its acts take fences of their own. What a former
        # process of it was about to write is held up by compare-and-set alone.
        others = () if now.is_open else tools.runs.in_the_way(run.target)
        if now not in _NEVER_ACTS and not any(each.run != run.run for each in others):
            move.fence(claimed, "claimed")
    except (GroupshiftError, KeyboardInterrupt) as why:
        give_up(claimed, str(why) or "interrupted")
        raise
    return claimed


def require_held(runs: Runs, run: str, holder: str) -> None:
    """Raise `Fenced` when another holder has an open run and did not stop by itself, or brought the run to
    its end: what it came to is not to be told as this holder's own. Claims nothing."""
    held, state = runs.held(run), runs.find(run).state
    if held is not None and held.holder != holder and not (held.stopped and state.is_open):
        end = "" if state.is_open else f" and brought it to its end, {state}"
        raise Fenced(f"run {held.holder} took run {run} over{end}: nothing more is done or asked here")
