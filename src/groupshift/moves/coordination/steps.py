"""How each kind of step is done: the approvals of a coordination, its rehearsal, and writes of the mode node.

A write of the mode node is compare-and-set: the node that is met is journaled first, then only that one is
changed, and the node is read back through another path. What a process that was cut off may have written is
told from what somebody else wrote by the node's transaction ids: exactly one write of the wanted mode behind
the node that was met (docs/reference/zookeeper-coordination.md §8.10, F7). ZooKeeper knows besides whose
writes count: a claim takes the fence, and refuses those of every earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from groupshift.domain.foreign_json import shown
from groupshift.domain.group_rules import ask
from groupshift.domain.modes import Holder, Mode, ModeNode
from groupshift.domain.plan import PhaseName
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import (
    PASSED,
    Checked,
    Json,
    Outcome,
    Step,
    StepRecord,
    StepState,
    outcome_of,
)
from groupshift.engine.gates import fingerprint_of, fingerprint_parts, outdated
from groupshift.engine.group import ask_live, facts_now, group_of, settling
from groupshift.engine.group_move import group_handlers
from groupshift.engine.handlers import Approve, Series
from groupshift.engine.move import Handler, Run, Standing
from groupshift.errors import Conflict
from groupshift.moves.coordination.facts import CoordinationPorts
from groupshift.moves.coordination.plan_and_rollback import DELETE_MODE_NODE, REHEARSE, SET_MODE, WATCH
from groupshift.moves.coordination.rules import RULES, canary, rehearsed, sample
from groupshift.ports.runs import Event

_READ_BACK = "read_back"
_MAY_HEAL = frozenset({Outcome.FAIL, Outcome.ERROR})


def take_fence(run: Run[CoordinationPorts]) -> None:
    """Let ZooKeeper know whose writes of the mode node count. Raises `Conflict` when a later claim did."""
    run.ports.side.mode.take(group_of(run), _holder(run))


def _holder(run: Run[CoordinationPorts]) -> Holder:
    """Whose writes of the mode node count: this run, by the token of its claim."""
    return Holder(run=run.name, token=run.token)


class ApproveCoordination(Approve[CoordinationPorts]):
    """Asks for the plan until something was begun, for the toggle until the mode was written (of the same
    holder, such as one Airflow run, where something changed since), and for the end of the mode node as long
    as something changed since the answer."""

    def is_old(self, run: Run[CoordinationPorts], step: Step, answered: Event) -> bool:
        """See `Approve`."""
        if answered.token == run.token:
            return False
        if step.phase == PhaseName.FINALISE:
            return fingerprint_of(fingerprint_parts(run)) != str(answered.body["fingerprint"])
        if step.phase != PhaseName.TOGGLE:
            return super().is_old(run, step, answered)
        record = run.records.get(_toggle(run).key)
        if record is not None and record.state in {StepState.ACTED, StepState.DONE}:
            return False
        if run.holders.get(answered.token) != run.holders.get(run.token):
            return True
        is_yes = answered.body["choice"] == Choice.APPROVE.value
        return is_yes and bool(outdated(run, _toggle(run)))


def _toggle(run: Run[CoordinationPorts]) -> Step:
    """The step of the walked plan that writes the mode node."""
    return next(each for each in run.plan.steps if each.kind == SET_MODE)


class RehearseToggle(Handler[CoordinationPorts]):
    """Asks whether the toggle, and what takes it back, would be allowed now. Once the toggle was begun there
    is nothing to rehearse."""

    def check(self, run: Run[CoordinationPorts], step: Step, record: StepRecord) -> Checked:
        """Ask all preconditions of both writes and the own rights; what time may cure is asked again."""
        toggle = _toggle(run)
        if toggle.key in run.records:
            return PASSED
        findings = rehearsed(run, toggle)
        outcome = outcome_of(findings)
        return Checked(outcome=outcome, findings=findings, heals=outcome in _MAY_HEAL)


class _ModeNode(Handler[CoordinationPorts]):
    """What both changes of the mode node share: rules before, the fence, the node as it was met.

    They do not touch: after one that was cut off its approval is asked again, with what is met now."""

    alters = True

    def allowed(self, run: Run[CoordinationPorts], step: Step) -> Checked:
        """Ask the preconditions of the live group."""
        wanted = None if step.kind == DELETE_MODE_NODE else RULES.wanted(run, step)
        findings = ask_live(run, RULES.before(step), wanted)
        return Checked(outcome=outcome_of(findings), findings=findings)

    def fence(self, run: Run[CoordinationPorts], step: Step) -> None:
        """See `Handler`."""
        take_fence(run)

    def intend(self, run: Run[CoordinationPorts], step: Step) -> Json:
        """Keep the node that is met: only that one is changed."""
        return {**step.args, "expected": _node_data(run.ports.side.mode.read(group_of(run)))}

    def stands(self, run: Run[CoordinationPorts], step: Step, record: StepRecord) -> Standing:
        """As met where the node is the one of the intent; made where it is what this act makes of that
        one; else somebody else wrote it."""
        if record.state is not StepState.INTENDED:
            return Standing.MADE
        node, expected = run.ports.side.mode.read(group_of(run)), _node_from(record.intent["expected"])
        if _is(node, expected):
            return Standing.AS_MET
        deletes = step.kind == DELETE_MODE_NODE
        made = node.data is None if deletes else _written_after(node, expected, Mode(step.args["to"]))
        return Standing.MADE if made else Standing.OTHER


class SetMode(_ModeNode):
    """Writes the mode node by compare-and-set under the holder's fence (F7)."""

    def act(self, run: Run[CoordinationPorts], step: Step, intent: Json) -> Json:
        """Write it, unless it was written already. Raises `Conflict` when the node is neither as it was met
        nor as it is wanted, or when the run was fenced."""
        group, to, expected = group_of(run), Mode(step.args["to"]), _node_from(intent["expected"])
        run.hold(step)
        node = run.ports.side.mode.read(group)
        if _is(node, expected):
            node = run.ports.side.mode.compare_and_set(group, expected, to, holder=_holder(run))
        elif not _written_after(node, expected, to):
            raise Conflict(
                f"the mode node of group {group} was changed by someone else: it was met as version "
                f"{expected.version} and is now {_shown(node)}; look at the group and decide again"
            )
        return {"node": _node_data(node), "detail": f"the mode node holds {to} (write {node.identity})"}

    def check(self, run: Run[CoordinationPorts], step: Step, record: StepRecord) -> Checked:
        """Read the node back through another path, once; then see whether what only needs time holds."""
        facts = facts_now(run, RULES.wanted(run, step))
        if _READ_BACK not in record.result and not _is(facts.view.mode, _node_from(record.result["node"])):
            raise _other(run, facts.view.mode)
        return replace(settling(ask(RULES.settled(step), facts)), result={_READ_BACK: True})


class DeleteModeNode(_ModeNode):
    """Removes the mode node, after which there is no rollback."""

    def act(self, run: Run[CoordinationPorts], step: Step, intent: Json) -> Json:
        """Delete it; one that is gone is fine. Raises `Conflict` when it is another one, or when the run was
        fenced."""
        run.hold(step)
        expected = _node_from(intent["expected"])
        run.ports.side.mode.delete(group_of(run), expected, holder=_holder(run))
        return {"detail": "the mode node is gone"}

    def check(self, run: Run[CoordinationPorts], step: Step, record: StepRecord) -> Checked:
        """Read back through another path that it is gone."""
        node = run.ports.side.groups.read(group_of(run)).mode
        if node.data is not None:
            raise _other(run, node)
        return PASSED


def _other(run: Run[CoordinationPorts], node: ModeNode) -> Conflict:
    """The error for a node that reads back otherwise than it was written."""
    return Conflict(
        f"the mode node of group {group_of(run)} reads back as {_shown(node)}, not as it was written; "
        "someone else writes it: look at the group and decide again"
    )


def _is(node: ModeNode, expected: ModeNode) -> bool:
    """Whether both are one and the same write of the node: transaction and version."""
    return (node.identity, node.version) == (expected.identity, expected.version)


def _written_after(node: ModeNode, expected: ModeNode, to: Mode) -> bool:
    """Whether the node is what exactly one write of ``to`` made of ``expected``: the lost act."""
    same = expected.data is None or node.czxid == expected.czxid
    newer = node.mzxid > expected.mzxid and node.version == expected.version + 1
    return same and newer and node.data == to.value.encode()


def _shown(node: ModeNode) -> str:
    """What the node holds, for people: what a terminal cannot show is written by its code point."""
    return "absent" if node.data is None else f"{shown(node.data)} (version {node.version})"


def _node_data(node: ModeNode) -> Json:
    """A node as JSON, for the journal; its bytes as Latin-1, so that any are kept."""
    return {**asdict(node), "data": None if node.data is None else node.data.decode("latin-1")}


def _node_from(data: Json) -> ModeNode:
    """The node of `_node_data`."""
    text = data["data"]
    return ModeNode(**{**data, "data": None if text is None else str(text).encode("latin-1")})


HANDLERS: Mapping[str, Handler[Any]] = {
    **group_handlers(RULES, ApproveCoordination()),
    WATCH: Series(sample, canary),
    REHEARSE: RehearseToggle(),
    SET_MODE: SetMode(),
    DELETE_MODE_NODE: DeleteModeNode(),
}
