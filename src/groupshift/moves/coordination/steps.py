"""How each kind of step is done."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from groupshift.domain.foreign_json import shown
from groupshift.domain.group_rules import ask
from groupshift.domain.modes import Holder, Mode, ModeNode
from groupshift.domain.plan import StageName
from groupshift.domain.reactions import Choice
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
from groupshift.domain.verdict import Judgement, Verdict
from groupshift.engine.gates import current, fingerprint_of, outdated
from groupshift.engine.group import ask_live, facts_now, group_of
from groupshift.engine.group_move import group_handlers
from groupshift.engine.handlers import Approve, Series
from groupshift.engine.move import Handler, Run, Standing
from groupshift.errors import Conflict
from groupshift.moves.coordination.facts import CoordinationPorts
from groupshift.moves.coordination.plan import DELETE_MODE_NODE, REHEARSE, SET_MODE, WATCH
from groupshift.moves.coordination.rules import RULES, canary, rehearsed, sample
from groupshift.ports.runs import Event

_READ_BACK = "read_back"
_MAY_HEAL = frozenset({Outcome.FAIL, Outcome.ERROR})


def take_fence(run: Run[CoordinationPorts]) -> None:
    """Let ZooKeeper know whose writes of the mode node count. Raises `Conflict` when a later claim did."""
    run.ports.side.mode.take(group_of(run), _holder(run))


def _holder(run: Run[CoordinationPorts]) -> Holder:
    return Holder(migration=run.name, token=run.token)


class ApproveCoordination(Approve[CoordinationPorts]):
    """Asks for the plan until something was begun, for the toggle until the mode was written (of the same
    holder, such as one Airflow run, where something changed since), and for the end of the mode node as long
    as something changed since the answer."""

    def is_old(self, run: Run[CoordinationPorts], step: Step, answered: Event) -> bool:
        """See `Approve`."""
        if answered.token == run.token:
            return False
        if step.phase == StageName.FINALISE:
            return fingerprint_of(current(run)) != str(answered.body["fingerprint"])
        if step.phase != StageName.TOGGLE:
            return super().is_old(run, step, answered)
        record = run.records.get(_toggle(run).key)
        if record is not None and record.state in {StepState.ACTED, StepState.DONE}:
            return False
        if run.holders.get(answered.token) != run.holders.get(run.token):
            return True
        is_yes = answered.body["choice"] == Choice.APPROVE.value
        return is_yes and bool(outdated(run, _toggle(run)))


def _toggle(run: Run[CoordinationPorts]) -> Step:
    return next(each for each in run.plan.steps if each.kind == SET_MODE)


class RehearseToggle(Handler[CoordinationPorts]):
    """Asks whether the toggle, and what takes it back, would be allowed now. Once the toggle was begun there
    is nothing to rehearse."""

    def check(self, run: Run[CoordinationPorts], step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        toggle = _toggle(run)
        if toggle.key in run.records:
            return PASSED
        found = rehearsed(run, toggle)
        outcome = outcome_of(found)
        return Checked(outcome=outcome, findings=found, heals=outcome in _MAY_HEAL)


class _ModeNode(Handler[CoordinationPorts]):
    """What both changes of the mode node share: rules before, the fence, the node as it was met.

    They do not touch: after one that was cut off its approval is asked again, with what is met now."""

    alters = True

    def allowed(self, run: Run[CoordinationPorts], step: Step) -> Checked:
        """Ask the preconditions of the live group."""
        findings = ask_live(run, RULES.before(step), _wanted(run, step))
        return Checked(outcome=outcome_of(findings), findings=findings)

    def fence(self, run: Run[CoordinationPorts], step: Step) -> None:
        """See `Handler`."""
        take_fence(run)

    def intend(self, run: Run[CoordinationPorts], step: Step) -> Json:
        """Keep the node that is met: only that one is changed."""
        return {**step.args, "expected": _node_data(run.ports.side.mode.read(group_of(run)))}

    def stands(self, run: Run[CoordinationPorts], step: Step, record: StepRecord) -> Standing:
        """See `Handler`."""
        if record.state is not StepState.INTENDED:
            return Standing.MADE
        node = run.ports.side.mode.read(group_of(run))
        if _is(node, _node_from(record.intent["expected"])):
            return Standing.AS_MET
        return Standing.MADE if self._made(step, node, record.intent) else Standing.OTHER

    @abstractmethod
    def _made(self, step: Step, node: ModeNode, intent: Json) -> bool:
        """Whether the node is what the act made of the one that was met."""


def _wanted(run: Run[CoordinationPorts], step: Step) -> Mode | None:
    return None if step.kind == DELETE_MODE_NODE else RULES.wanted(run, step)


class SetMode(_ModeNode):
    """Writes the mode node by compare-and-set under the holder's fence (F7)."""

    def _made(self, step: Step, node: ModeNode, intent: Json) -> bool:
        return _written_after(node, _node_from(intent["expected"]), Mode(step.args["to"]))

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
        judged = Judgement(findings=ask(RULES.settled(step), facts))
        met = {_READ_BACK: True}
        if judged.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}:
            return Checked(outcome=Outcome.PASS, result=met)
        return Checked(outcome=Outcome.WAIT, detail=judged.reasons[0], result=met)


class DeleteModeNode(_ModeNode):
    """Removes the mode node, after which there is no rollback."""

    def _made(self, step: Step, node: ModeNode, intent: Json) -> bool:
        return node.data is None

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
    return Conflict(
        f"the mode node of group {group_of(run)} reads back as {_shown(node)}, not as it was written; "
        "someone else writes it: look at the group and decide again"
    )


def _is(node: ModeNode, expected: ModeNode) -> bool:
    return (node.identity, node.version) == (expected.identity, expected.version)


def _written_after(node: ModeNode, expected: ModeNode, to: Mode) -> bool:
    """Whether the node is what exactly one write of ``to`` made of ``expected``: the lost act."""
    same = expected.data is None or node.czxid == expected.czxid
    newer = node.mzxid > expected.mzxid and node.version == expected.version + 1
    return same and newer and node.data == to.value.encode()


def _shown(node: ModeNode) -> str:
    return "absent" if node.data is None else f"{shown(node.data)} (version {node.version})"


def _node_data(node: ModeNode) -> Json:
    return {**asdict(node), "data": None if node.data is None else node.data.decode("latin-1")}


def _node_from(data: Json) -> ModeNode:
    text = data["data"]
    return ModeNode(**{**data, "data": None if text is None else str(text).encode("latin-1")})


HANDLERS: Mapping[str, Handler[Any]] = {
    **group_handlers(RULES, ApproveCoordination()),
    WATCH: Series(sample, canary),
    REHEARSE: RehearseToggle(),
    SET_MODE: SetMode(),
    DELETE_MODE_NODE: DeleteModeNode(),
}
