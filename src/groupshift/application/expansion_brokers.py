"""Steps of an expansion that make partitions, restart brokers, and ask each by which count it coordinates.

Source: docs/reference/group-coordinator.md §3.4 steps 6 to 9.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from groupshift.application.expansion_groups import await_listed, movers_now, undrained
from groupshift.application.expansion_plan import SNAPSHOT, ExpansionPlan
from groupshift.application.expansion_work import COUNTED, Expanding, naming
from groupshift.application.run_work import HOLDS, Handler, Look
from groupshift.domain.cluster import COUNT
from groupshift.domain.step import RunAct, RunStep, Seen
from groupshift.errors import Conflict, Transient
from groupshift.ports.driver import ForPerson, NodeState, NodeStatus, Replacement
from groupshift.ports.journal import RunStepRecord

_GROWN = "grown"
_ACCEPTED = (COUNTED, "accepted_by", "reasons")
_KEPT = (*_ACCEPTED, _GROWN, "asked_by", "shown", "shown_before")


def _create(work: Expanding, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises `Conflict` when somebody else gave the topic another count."""
    count, plan = work.tools.views.look().count, work.plan
    if count == plan.to:
        if plan.partitions == plan.to:  # made long before the run: brokers take it up when they restart
            _demand_nothing_new(work)
        return {}
    if count != plan.partitions:
        raise Conflict(_other(plan, count))
    _demand_nothing_new(work)
    work.hold_again(step)
    work.tools.topic.expand(plan.to)
    return {}


def _other(plan: ExpansionPlan, count: int) -> str:
    """What to do about a count of somebody else, while no broker counts it."""
    return (
        f"the offsets topic has {count} partitions, neither {plan.partitions} nor {plan.to}: somebody else "
        "changed it; restart no broker, take the run back with groupshift expansion back --execute, and plan "
        "anew from what there is"
    )


def _demand_nothing_new(work: Expanding) -> None:
    """The last look before there is only the way forward. Raises `Conflict` when somebody is there, or
    committed for a group that moves since these were deleted."""
    view = await_listed(work)
    if busy := undrained(work, view):
        raise Conflict(f"{busy}, then run it again")
    if new := movers_now(work, view):
        raise Conflict(
            f"{naming(new)} came or committed since groups were deleted, and would move: no broker counts "
            f"{work.plan.to} yet; stop these clients, take the run back with groupshift expansion back "
            "--execute, and begin anew"
        )


def _created(work: Expanding, _step: RunStep, _record: RunStepRecord) -> Look:
    view = work.tools.views.look()
    if view.count > work.plan.to:
        return Look(seen=Seen.FAILED, detail=_other(work.plan, view.count), hopeless=True)
    if view.count != work.plan.to or view.differing:
        told = f"broker {', '.join(map(str, view.differing))} tells another count" if view.differing else ""
        detail = told or f"the offsets topic has {view.count} partitions, not {work.plan.to}"
        return Look(seen=Seen.NOT_YET, detail=detail)
    lacks = work.tools.topic.lacks(work.plan.brokers)
    return Look(seen=Seen.NOT_YET, detail=lacks) if lacks else HOLDS


def _change(work: Expanding, change_id: str, node: int, count: int) -> Replacement:
    return Replacement(
        change_id=change_id.replace(" ", "_"),
        node_id=node,
        properties={COUNT: str(count)},
        fence=work.run,
        token=work.token,
    )


def _await_whole(work: Expanding) -> None:
    """A broker is only restarted when all are in sync, with every topic. Raises `Transient` when they are not
    in time."""
    end = work.tools.clock.now_ms() + work.terms.patience_s * 1000
    while lacks := work.tools.topic.cluster_lacks(work.plan.brokers):
        if work.tools.clock.now_ms() >= end:
            said = f"the cluster is not whole, no broker is restarted: {lacks}"
            raise Transient(f"{said}; bring up what does not run, then run it again")
        work.tools.clock.sleep(work.terms.every_s)


def _demand_undrained(work: Expanding) -> None:
    """While brokers count differently two may serve one group: nobody may be there. Raises `Conflict`, and
    `Transient` where a broker does not list all its groups in time."""
    busy = undrained(work, await_listed(work))
    if busy:
        raise Conflict(f"{busy}, then run it again: while brokers restart two of them may serve one group")


def _may_restart(work: Expanding, step: RunStep) -> Mapping[str, Any]:
    """The first restart closes the way back. Raises `Conflict` while it is open and somebody else gave the
    topic another count; a broker that is down is started all the same."""
    begun = work.tools.runs.steps(work.run)
    closed = any(each.act is RunAct.RESTART and each.key in begun for each in work.steps)
    if not closed and work.tools.nodes.observe(int(step.subject)).state is not NodeState.DOWN:
        count = work.tools.views.look().count
        if count != work.plan.to:
            raise Conflict(_other(work.plan, count))
    return {}


def _restart(work: Expanding, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """A broker that is down already is started at once: nobody can wait for it."""
    node, change_id = int(step.subject), f"{work.run}/{step.key}"
    status = work.tools.nodes.observe(node)
    down = status.state is NodeState.DOWN
    # a driver makes a change once: what died since is started by another one
    change = _change(work, f"{change_id}/{work.token}" if down else change_id, node, work.plan.to)
    _start_others(work, step)
    if not down and status.change_id != change.change_id:
        _await_whole(work)
        _demand_undrained(work)
    work.hold_again(step)
    started = work.tools.nodes.start(change)
    if isinstance(started, ForPerson):
        return {"instruction": started.instruction, **work.asking(step)}
    return {"change_id": started.change_id, **work.asking(step)}


def _start_others(work: Expanding, step: RunStep) -> None:
    """Brokers of the plan that died meanwhile are started again, those before their own restart, too: the
    count is in their file then, or is read from the topic."""
    for node in (each for each in _down(work) if each != int(step.subject)):
        work.hold_again(step)
        work.tools.nodes.start(
            _change(work, f"{work.run}/{step.key}/{node}/{work.token}", node, work.plan.to)
        )


def _restarted(work: Expanding, step: RunStep, record: RunStepRecord) -> Look:
    """By the driver and by the cluster; where the driver cannot know, by the count that the broker uses now,
    and where its answers fit several counts, by a person."""
    node = int(step.subject)
    status, instruction = work.tools.nodes.observe(node), record.result.get("instruction")
    if status.state is NodeState.DOWN and not instruction:
        said = f"broker {node} does not run: {status.trouble or 'no reason'}"
        return Look(seen=Seen.FAILED, detail=f"{said}; bring it up, or run it again: it is started again")
    lacks = _lacks(work, status, str(record.result.get("change_id", "")))
    if not lacks and (instruction or status.state is NodeState.UNKNOWN):
        view = work.tools.views.look()
        counts = view.counted.get(node, ())
        if not {work.plan.to, view.count}.intersection(counts):
            lacks = f"broker {node} counts {' or '.join(map(str, counts)) or 'otherwise'}"
        elif len(counts) > 1 and not work.said(record):
            said = f"what broker {node} answers fits several counts: say --seen when it was started again"
            return Look(seen=Seen.PERSON, detail=f"{instruction} ({said})" if instruction else said)
    if not lacks:
        return HOLDS
    if instruction:
        return Look(seen=Seen.PERSON, detail=f"{instruction} ({lacks})")
    return Look(seen=Seen.NOT_YET, detail=lacks)


def _lacks(work: Expanding, status: NodeStatus, change_id: str) -> str:
    node = status.node_id
    if status.state is NodeState.CHANGING:
        return f"broker {node} is being restarted"
    if status.state is NodeState.RUNNING and status.change_id != change_id:
        return f"broker {node} runs, not by this change"
    try:
        loading = [each.node_id for each in work.tools.views.look().cluster.brokers if each.loading]
        return f"broker {loading[0]} loads" if loading else work.tools.topic.lacks(work.plan.brokers)
    except Transient as silent:
        return str(silent)


def _deviating(work: Expanding, count: int) -> list[int]:
    """Every broker that by its own answers coordinates by another count, also one that joined meanwhile. What
    fits several counts is told by where commits go, right after."""
    counted = work.tools.views.look().counted
    nodes = sorted({*work.plan.brokers, *counted})
    return [node for node in nodes if count not in counted.get(node, ())]


def _down(work: Expanding) -> list[int]:
    return [node for node in work.plan.brokers if work.tools.nodes.observe(node).state is NodeState.DOWN]


def _place(work: Expanding, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Starts one broker again, each claim: one that is down at once, else the first that deviates."""
    down = _down(work)
    agreed = _agreed(work, step, down)
    count = int(agreed.get(COUNTED, work.count))
    if _GROWN in agreed and not down:
        return {"restarted": [], **agreed}
    known = [node for node in ([] if down else _deviating(work, count)) if node in work.plan.brokers]
    if not down and not known:
        return {"restarted": [], **agreed}
    node = (down or known)[0]
    if not down:
        _await_whole(work)
        _demand_undrained(work)
    change_id = f"{work.run}/{step.key}/{node}/{work.token}"
    work.hold_again(step)
    started = work.tools.nodes.start(_change(work, change_id, node, count))
    told = {"instruction": started.instruction} if isinstance(started, ForPerson) else {}
    return {"restarted": [node], **told, **agreed}


def _accepted(work: Expanding, step: RunStep) -> Mapping[str, Any]:
    """What a claim before this one journaled of another count than the plan's, if it was accepted."""
    result = work.tools.runs.steps(work.run)[step.key].result
    return {name: result[name] for name in _ACCEPTED if COUNTED in result}


def _agreed(work: Expanding, step: RunStep, down: Collection[int]) -> Mapping[str, Any]:
    """What is journaled of the count that brokers are to use, where it is not the plan's: somebody gave the
    topic more (``grown``), and a person accepts that, or did. Raises `Transient` where none can be asked,
    unless it is because some are ``down``."""
    record = work.tools.runs.steps(work.run)[step.key]
    try:
        found = work.tools.views.look().count
    except Transient:
        if not down:
            raise
        return _kept(record)
    if found <= work.count:
        return _accepted(work, step)
    reason = (
        f"the offsets topic has {found} partitions, not {work.plan.to}: somebody else changed it when there "
        f"was only the way forward, and brokers that start again count {found}"
    )
    asked = work.asking(step, [reason])
    if work.said(replace(record, result={**record.result, **asked})):
        return {COUNTED: found, "accepted_by": work.terms.who, "reasons": [reason]}
    return _kept(record) if down else {_GROWN: found, "reasons": [reason], **asked}


def _kept(record: RunStepRecord) -> Mapping[str, Any]:
    """What a claim before this one journaled: while a broker is down, nothing else is shown."""
    return {name: record.result[name] for name in _KEPT if name in record.result}


def _placed(work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    if down := _down(work):
        trouble = work.tools.nodes.observe(down[0]).trouble or "no reason"
        said = f"broker {down[0]} does not run: {trouble}; bring it up, or run it again: it is started again"
        return Look(seen=Seen.FAILED, detail=said)
    if found := record.result.get(_GROWN):
        how = f"more groups move then, snapshot {SNAPSHOT} has them; no client may start; to go on to {found}"
        return Look(seen=Seen.PERSON, detail=f"{record.result['reasons'][0]}; {how}: --seen")
    lacks = work.tools.topic.lacks(work.plan.brokers)
    deviating = [] if lacks else _deviating(work, work.count)
    if not lacks and not deviating:
        return HOLDS
    said = lacks or f"count {work.count} not adopted by broker {', '.join(map(str, deviating))}"
    if instruction := record.result.get("instruction"):
        return Look(seen=Seen.PERSON, detail=f"{said}: {instruction}")
    made = 0 if lacks else work.tools.views.look().count
    if lacks or (deviating == record.result["restarted"] and made <= work.count):
        return Look(seen=Seen.NOT_YET, detail=f"{said}; no client may start")
    joined = set(deviating) - set(work.plan.brokers)
    how = "one that joined since the plan is restarted by hand; " if joined else ""
    how += f"the offsets topic has {made} partitions by now; " if made > work.count else ""
    return Look(seen=Seen.FAILED, detail=f"{said}; no client may start; {how}run it again for the next one")


HANDLERS: Mapping[RunAct, Handler[Expanding]] = {
    RunAct.CREATE_PARTITIONS: Handler(act=_create, read_back=_created),
    RunAct.RESTART: Handler(intend=_may_restart, act=_restart, read_back=_restarted),
    RunAct.PLACE: Handler(act=_place, read_back=_placed),
}
"""By what a step does."""
