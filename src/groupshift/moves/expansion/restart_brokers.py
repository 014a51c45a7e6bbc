"""Steps of an expansion that make partitions, restart brokers, and ask each by which count it coordinates.

A broker reads the count of the offsets topic when it starts and never again. So a new count is in force at a
broker from its restart on, and between the first restart and the last one two brokers may serve one group:
nobody may use a group meanwhile. Before the first restart all can be taken back; afterwards there is only the
way forward, and every act can be repeated. A broker that died is started again by whatever step meets it.

Source: docs/reference/group-coordinator.md §3 (KIP-895), §3.4 steps 6 to 9.
"""

from __future__ import annotations

from collections.abc import Collection

from groupshift.domain.cluster import COUNT
from groupshift.domain.run import PASSED, Checked, Instruction, Json, Outcome, Step, StepRecord, StepState
from groupshift.domain.verdict import Verdict
from groupshift.engine.handlers import INSTRUCTION
from groupshift.engine.move import Handler, Standing
from groupshift.errors import Conflict, Transient
from groupshift.moves.expansion.ports import (
    COUNTED,
    SNAPSHOT,
    Counts,
    Expanding,
    ExpansionPorts,
    count_of,
    counts_of,
    hidden,
    movers_now,
    naming,
    require_drained,
)
from groupshift.moves.expansion.steps import Listed, back, waits
from groupshift.ports.driver import ForPerson, NodeState, NodeStatus, Replacement

_GROWN = "grown"
_KEPT = (COUNTED, "accepted_by", "reasons", _GROWN)
_NOT_WHOLE = "the cluster is not whole, no broker is restarted: {}; bring up what does not run"


def _other(run: Expanding, plan: Counts, count: int) -> str:
    """What to do about a count of somebody else, while no broker counts it."""
    return (
        f"the offsets topic has {count} partitions, neither {plan.partitions} nor {plan.to}: somebody else "
        f"changed it; restart no broker, take the run back with {back(run)}, and plan anew from what there is"
    )


class CreatePartitions(Listed):
    """Makes the partitions. A count never shrinks, so nothing undoes it. Whether the rollback is still open
    is asked of the brokers (`ExpansionMove.may_roll_back`): somebody else may have made more."""

    alters = True

    def stands(self, run: Expanding, step: Step, record: StepRecord) -> Standing:
        """By the topic itself."""
        made = run.ports.views.look().count == counts_of(run.there).to
        return Standing.MADE if made else Standing.AS_MET

    def act(self, run: Expanding, step: Step, intent: Json) -> Json:
        """See `Handler`. Raises `Conflict` when somebody else gave the topic another count."""
        view, plan = run.ports.views.look(), counts_of(run.there)
        if view.count not in {plan.partitions, plan.to}:
            raise Conflict(_other(run, plan, view.count))
        if view.count == plan.partitions:  # the last look before there is only the way forward
            require_drained(run, view)
            if new := movers_now(run, view):
                raise Conflict(
                    f"{naming(new)} came or committed since groups were deleted, and would move: no broker "
                    f"uses {plan.to} partitions yet; stop these clients, take the run back with {back(run)}, "
                    "and begin anew"
                )
        if view.count != plan.to:  # else made long before the run: brokers take it up when they restart
            run.hold(step)
            run.ports.topic.expand(plan.to)
        return {}

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """Whether every broker tells the new count, and each partition is led with all replicas in sync.
        More than that count was made by somebody else: then only the rollback helps."""
        view, plan = run.ports.views.look(), counts_of(run.there)
        if view.count > plan.to:
            detail = _other(run, plan, view.count)
            return Checked(outcome=Outcome.FAIL, detail=detail, only_rollback_helps=True)
        if view.count != plan.to or view.differing:
            odd = (
                f"broker {', '.join(map(str, view.differing))} tells another count" if view.differing else ""
            )
            return waits(odd or f"the offsets topic has {view.count} partitions, not {plan.to}")
        lacks = run.ports.topic.lacks(plan.brokers)
        return waits(lacks) if lacks else PASSED


def _change_id(run: Expanding, step: Step, *more: object) -> str:
    """The id of a change of its own, so that a driver makes it once; spaces are none of an id."""
    return "/".join(map(str, (run.name, step.key, *more))).replace(" ", "_")


def _start(run: Expanding, step: Step, node: int, count: int, change_id: str) -> Json:
    """Ask the driver to start this node with this count in its file; returns the change, or what a person has
    to do. Raises `Fenced`."""
    run.hold(step)
    started = run.ports.nodes.start(
        Replacement(
            change_id=change_id,
            node_id=node,
            properties={COUNT: str(count)},
            fence=run.name,
            token=run.token,
        )
    )
    if isinstance(started, ForPerson):
        return {INSTRUCTION: started.instruction}
    return {"change_id": started.change_id}


def _require_quiet(run: Expanding) -> None:
    """Raise `Transient` while a replica of any topic is not in sync, `Conflict` while somebody uses a group:
    no broker is restarted then."""
    if lacks := run.ports.topic.cluster_lacks(counts_of(run.there).brokers):
        raise Transient(f"{_NOT_WHOLE.format(lacks)}, then run it again")
    require_drained(run, run.ports.views.look())


def _down(run: Expanding) -> list[int]:
    """Brokers of the plan of which the driver says that they do not run."""
    brokers = counts_of(run.there).brokers
    return [node for node in brokers if run.ports.nodes.observe(node).state is NodeState.DOWN]


def _deviating(run: Expanding, count: int) -> list[int]:
    """Every broker that by its own answers coordinates by another count, also one that joined meanwhile. What
    fits several counts is told by where commits go, right after."""
    counted = run.ports.views.look().counted
    nodes = sorted({*counts_of(run.there).brokers, *counted})
    return [node for node in nodes if count not in counted.get(node, ())]


def _dead(status: NodeStatus) -> Checked:
    """What a node is that does not run."""
    said = f"broker {status.node_id} does not run: {status.trouble or 'no reason'}"
    detail = f"{said}; bring it up, or run it again: it is started again"
    return Checked(outcome=Outcome.FAIL, detail=detail)


class Restart(Handler[ExpansionPorts]):
    """Restarts a broker with the count in its file. The first restart closes the rollback."""

    def allowed(self, run: Expanding, step: Step) -> Checked:
        """Whether the cluster is whole and drained; a broker that is down is started at once: nobody can wait
        for it. Raises `Conflict` while the rollback is open and somebody else gave the topic another
        count."""
        if run.ports.nodes.observe(int(step.subject)).state is NodeState.DOWN:
            return PASSED
        plan, records = counts_of(run.there), run.records
        closed = any(each.kind == "restart" and each.key in records for each in run.there.steps)
        if not closed:
            count = run.ports.views.look().count
            if count != plan.to:
                raise Conflict(_other(run, plan, count))
        if _down(run):
            return PASSED  # what died is started again first, by the act
        lacks = run.ports.topic.cluster_lacks(plan.brokers) or hidden(run, run.ports.views.look())
        return waits(_NOT_WHOLE.format(lacks)) if lacks else PASSED

    def stands(self, run: Expanding, step: Step, record: StepRecord) -> Standing:
        """By the driver; where it cannot know, a restart that was written down may have been made."""
        if record.state is not StepState.INTENDED or record.result:
            return Standing.MADE
        status = run.ports.nodes.observe(int(step.subject))
        if status.state is NodeState.UNKNOWN:
            return Standing.OTHER
        return Standing.MADE if status.change_id == _change_id(run, step) else Standing.AS_MET

    def act(self, run: Expanding, step: Step, intent: Json) -> Json | Instruction:
        """See `Handler`. A driver makes a change once: what died since is started by another one. So are
        brokers of the plan that died meanwhile, those before their own restart, too: the count is in their
        file then, or is read from the topic."""
        node, to = int(step.subject), counts_of(run.there).to
        status = run.ports.nodes.observe(node)
        down = status.state is NodeState.DOWN
        change_id = _change_id(run, step, *([run.token] if down else []))
        for other in (each for each in _down(run) if each != node):
            _start(run, step, other, to, _change_id(run, step, other, run.token))
        if not down and status.change_id != change_id:
            _require_quiet(run)
        begun = _start(run, step, node, to, change_id)
        return Instruction(text=begun[INSTRUCTION]) if INSTRUCTION in begun else begun

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """By the driver and by the cluster; where the driver cannot know, by the count that the broker uses
        now, and where its answers fit several counts, by a person."""
        node, plan = int(step.subject), counts_of(run.there)
        status, asked_for = run.ports.nodes.observe(node), record.result.get(INSTRUCTION)
        if status.state is NodeState.DOWN and not asked_for:
            return _dead(status)
        lacks = self._lacks(run, status, str(record.result.get("change_id", "")))
        if not lacks and (asked_for or status.state is NodeState.UNKNOWN):
            view = run.ports.views.look()
            counts = view.counted.get(node, ())
            if not {plan.to, view.count}.intersection(counts):
                lacks = f"broker {node} counts {' or '.join(map(str, counts)) or 'otherwise'}"
            elif len(counts) > 1 and not run.accepted(step):
                said = (
                    f"what broker {node} answers fits several counts: say that it was started again with: "
                    f"groupshift continue {run.name} --accept '{step.key}' --execute"
                )
                return Checked(outcome=Outcome.PERSON, detail=f"{asked_for} ({said})" if asked_for else said)
        if not lacks:
            return PASSED
        return Checked(outcome=Outcome.PERSON, detail=f"{asked_for} ({lacks})") if asked_for else waits(lacks)

    def _lacks(self, run: Expanding, status: NodeStatus, change_id: str) -> str:
        """What is still missing after a restart, as the driver and the cluster tell it; empty: nothing.
        Brokers that do not answer are waited for, too."""
        node = status.node_id
        if status.state is NodeState.CHANGING:
            return f"broker {node} is being restarted"
        if status.state is NodeState.RUNNING and status.change_id != change_id:
            return f"broker {node} runs, not by this change"
        try:
            loading = [each.node_id for each in run.ports.views.look().cluster.brokers if each.loading]
            if loading:
                return f"broker {loading[0]} loads"
            return run.ports.topic.lacks(counts_of(run.there).brokers)
        except Transient as silent:
            return str(silent)


class CheckCounts(Handler[ExpansionPorts]):
    """Asks each broker directly by which count it coordinates; each claim starts one broker again: one that
    is down at once, else the first that deviates."""

    def act(self, run: Expanding, step: Step, intent: Json) -> Json:
        """Restart one broker that is down, else one that uses another count; returns which. Nothing is
        restarted while a person has to accept that somebody else made more partitions."""
        down = _down(run)
        agreed = self._agreed(run, step, down)
        count = int(agreed.get(COUNTED, count_of(run)))
        brokers, chosen = counts_of(run.there).brokers, down
        if not down and _GROWN not in agreed:
            chosen = [node for node in _deviating(run, count) if node in brokers]
        if not chosen:
            return {"restarted": [], **agreed}
        node = chosen[0]
        if not down:
            _require_quiet(run)
        begun = _start(run, step, node, count, _change_id(run, step, node, run.token))
        return {"restarted": [node], **begun, **agreed}

    def _agreed(self, run: Expanding, step: Step, down: Collection[int]) -> Json:
        """What is journaled of the count that brokers are to use, where it is not the plan's: somebody gave
        the topic more, and a person accepts that, or did. Raises `Transient` where none can be asked, unless
        it is because some are ``down``."""
        known = {name: value for name, value in run.records[step.key].result.items() if name in _KEPT}
        try:
            count = run.ports.views.look().count
        except Transient:
            if not down:
                raise
            return known
        if count <= count_of(run):
            return {name: known[name] for name in _KEPT if COUNTED in known and name != _GROWN}
        reason = (
            f"the offsets topic has {count} partitions, not {counts_of(run.there).to}: somebody else changed "
            f"it when there was only the way forward, and brokers that start again count {count}"
        )
        if run.accepted(step, [reason], verdict=Verdict.FAIL):
            return {COUNTED: count, "accepted_by": run.options.who, "reasons": [reason]}
        if down:
            run.to_show.pop(step.key, None)  # nothing is shown while a broker is down
            return known
        return {_GROWN: count, "reasons": [reason]}

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """Whether every broker runs and uses the count that was agreed on; a higher one that somebody made
        is shown to a person, who may accept it."""
        if down := _down(run):
            return _dead(run.ports.nodes.observe(down[0]))
        if grown := record.result.get(_GROWN):
            reason = record.result["reasons"][0]
            run.accepted(step, [reason])
            detail = (
                f"{reason}; more groups move then, snapshot {SNAPSHOT} has them; no client may start; to go "
                f"on to {grown}: groupshift continue {run.name} --accept '{step.key}' --execute"
            )
            return Checked(outcome=Outcome.PERSON, detail=detail)
        return self._placed(run, record)

    def _placed(self, run: Expanding, record: StepRecord) -> Checked:
        """Whether every broker uses the count now. What deviates is waited for once it was restarted by
        this claim; else the next claim restarts it, and one that joined since the plan is a person's."""
        brokers, count = counts_of(run.there).brokers, count_of(run)
        lacks = run.ports.topic.lacks(brokers)
        deviating = [] if lacks else _deviating(run, count)
        if not lacks and not deviating:
            return PASSED
        said = (
            lacks
            or f"broker {', '.join(map(str, deviating))} still uses another partition count than {count}"
        )
        if asked_for := record.result.get(INSTRUCTION):
            return Checked(outcome=Outcome.PERSON, detail=f"{said}: {asked_for}")
        made = 0 if lacks else run.ports.views.look().count
        if lacks or (deviating == record.result["restarted"] and made <= count):
            return waits(f"{said}; keep clients stopped")
        joined = set(deviating) - set(brokers)
        how = "one that joined since the plan is restarted by hand; " if joined else ""
        how += f"the offsets topic has {made} partitions by now; " if made > count else ""
        detail = f"{said}; keep clients stopped; {how}run it again for the next one"
        return Checked(outcome=Outcome.FAIL, detail=detail)
