"""The step of a downgrade that gives a node another release, there and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.application.downgrade_plan import RunPlan
from groupshift.application.downgrade_work import Work
from groupshift.application.run_work import Handler, Look
from groupshift.domain.cluster import BrokerView, ClusterView
from groupshift.domain.step import RunAct, RunStep, Seen
from groupshift.domain.versions import Version
from groupshift.errors import Transient
from groupshift.moves.downgrade.releases import Standing, Target, line_of_version, standing, target_of
from groupshift.ports.driver import ForPerson, NodeState, NodeStatus, Replacement
from groupshift.ports.journal import RunStepRecord


def change_of(work: Work, step: RunStep) -> Replacement:
    """The replacement that a step asks its driver for."""
    back = bool(step.args.get("back"))
    return Replacement(
        change_id=f"{work.run}/{step.key}".replace(" ", "_"),
        node_id=int(step.subject),
        release=work.plan.now if back else work.plan.release,
        coordinator=work.plan.running if back else work.plan.coordinator,
        without=tuple(step.args.get("without", ())),
        fence=work.run,
        token=work.token,
    )


def alike(plan: RunPlan) -> bool:
    """Whether brokers tell the same before and after: both releases are of one line, with one coordinator."""
    before, after = (line_of_version(Version.parse(release)) for release in (plan.now, plan.release))
    return before == after and plan.running is plan.coordinator


def tells(view: ClusterView, wanted: Replacement) -> bool:
    """Whether the broker answers as one of the wanted release does, and has loaded all it coordinates."""
    found = next((each for each in view.brokers if each.node_id == wanted.node_id), None)
    target = target_of(wanted.release, wanted.coordinator)
    return found is not None and not found.loading and _runs(found, target)


def _runs(broker: BrokerView, target: Target) -> bool:
    """Whether a broker is of the line and has the coordinator; within a line brokers tell no release."""
    if broker.line is None:
        return standing(target.version, broker.coordinator, target) is not Standing.OLDER
    return broker.line.holds(target.version) and broker.coordinator is target.coordinator


def _await_whole(work: Work, step: RunStep) -> Mapping[str, Any]:
    """A node is only touched when all are in sync and no other voter is behind; on the way back a dead one is
    started at once: nobody can wait for it. Raises `Transient` when they are not in time."""
    end = work.tools.clock.now_ms() + work.terms.patience_s * 1000
    while lacks := _lacks_before(work, step):
        if work.tools.clock.now_ms() > end:
            raise Transient(f"the cluster is not whole, no node is touched: {lacks}; run it again")
        work.tools.clock.sleep(work.terms.every_s)
    return {}


def _lacks_before(work: Work, step: RunStep) -> str:
    node, back = int(step.subject), bool(step.args.get("back"))
    if back and _dead(work, node):
        return ""
    waited_for = [each for each in work.plan.brokers if not (back and each == node)]
    return work.tools.cluster.lacks(waited_for) or _quorum_lacks(work, node)


def _quorum_lacks(work: Work, node: int) -> str:
    """Which other voters have not all of the metadata log: stopping one more could leave no majority. A
    controller of its own tells nothing else."""
    quorum = work.tools.views.look().quorum
    behind = [] if quorum is None else [each for each in quorum.behind if each != node]
    return f"voter {behind[0]} of the metadata quorum is behind" if behind else ""


def _dead(work: Work, node: int) -> bool:
    """Whether a node serves nobody: its driver says so, or it is a broker that is not registered, or the only
    one and does not answer. Raises `Transient` when brokers do not answer otherwise."""
    if work.tools.nodes.observe(node).state is NodeState.DOWN:
        return True
    if node not in work.plan.brokers:
        return False
    try:
        return node not in {each.node_id for each in work.tools.views.look().brokers}
    except Transient:
        if len(work.plan.brokers) > 1:
            raise
        return True


def _replace(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is journaled says that it was begun."""
    asked, started = work.asking(step), work.tools.nodes.start(change_of(work, step))
    if isinstance(started, ForPerson):
        return {"instruction": started.instruction, **asked}
    return {"change_id": started.change_id}


def _replaced(work: Work, step: RunStep, record: RunStepRecord) -> Look:
    """By the driver, and by the cluster: the broker tells the release, replicas are in sync. By a person
    where neither can tell: what a controller runs, and releases that brokers do not tell apart."""
    wanted, status = change_of(work, step), work.tools.nodes.observe(int(step.subject))
    lacks, told = _node_lacks(work, wanted, status), record.result.get("instruction")
    if status.state is NodeState.DOWN and not told:
        return Look(seen=Seen.FAILED, detail=lacks)
    if lacks and told and status.state in {NodeState.RUNNING, NodeState.DOWN}:
        return Look(seen=Seen.PERSON, detail=f"{told} ({lacks})")
    if status.state is not NodeState.UNKNOWN:
        done = Look(seen=Seen.HOLDS, result={"release": wanted.release})
        return Look(seen=Seen.NOT_YET, detail=lacks) if lacks else done
    mute = wanted.node_id not in work.plan.brokers or alike(work.plan)
    if not lacks and mute and not work.said(record):
        lacks = f"nobody but its own log tells whether it runs {wanted.release}: look there, then say --seen"
    if lacks:
        return Look(seen=Seen.PERSON, detail=f"{told or step.does} ({lacks})")
    by = {"seen_by": work.terms.who} if mute else {}
    return Look(seen=Seen.HOLDS, result={"release": wanted.release, **by})


def _node_lacks(work: Work, wanted: Replacement, status: NodeStatus) -> str:
    under_way = {
        NodeState.CHANGING: f"node {wanted.node_id} is being replaced",
        NodeState.DOWN: f"node {wanted.node_id} does not run: {status.trouble or 'no reason'}",
    }
    if status.state in under_way:
        return under_way[status.state]
    ran = (status.change_id, status.release) == (wanted.change_id, wanted.release)
    if status.state is NodeState.RUNNING and not ran:
        return f"node {wanted.node_id} runs {status.release or 'another release'}, not by this change"
    if wanted.node_id not in work.plan.brokers:
        return ""
    try:
        if not tells(work.tools.views.look(), wanted):
            return f"broker {wanted.node_id} does not tell {wanted.release} yet"
        return work.tools.cluster.lacks(work.plan.brokers)
    except Transient as silent:
        return str(silent)


HANDLERS: Mapping[RunAct, Handler[Work]] = {
    RunAct.REPLACE: Handler(intend=_await_whole, act=_replace, read_back=_replaced),
}
"""By what a step does."""
