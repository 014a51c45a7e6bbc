"""Steps of a downgrade that measure before the first node, and that give a node another release."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.domain.cluster import BrokerView, ClusterView
from groupshift.domain.run import (
    PASSED,
    Checked,
    Findings,
    Instruction,
    Json,
    Outcome,
    Plan,
    Step,
    StepRecord,
    StepState,
    findings_data,
    outcome_of,
)
from groupshift.domain.versions import Version
from groupshift.engine.handlers import INSTRUCTION
from groupshift.engine.move import Handler, Standing
from groupshift.errors import Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.ports import DowngradePorts, Downgrading, brokers_of
from groupshift.moves.downgrade.releases import Standing as Order
from groupshift.moves.downgrade.releases import Target, line_of_version, standing, target_of
from groupshift.moves.downgrade.rules import ask, no_go
from groupshift.moves.downgrade.views import look_at
from groupshift.ports.driver import ForPerson, NodeState, NodeStatus, Replacement


class AwaitSnapshot(Handler[DowngradePorts]):
    """Waits for a metadata snapshot that holds the last change of a feature: older releases start from it."""

    def intend(self, run: Downgrading, step: Step) -> Json:
        """Up to where the metadata log is committed now. Raises `Transient`."""
        quorum = run.ports.views.look().quorum
        if quorum is None:
            raise Transient("no controller tells the metadata quorum; run it again")
        return {"offset": quorum.high_watermark}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """See `Handler`. Where the driver cannot see a node's snapshots, a person has to."""
        wanted = int(record.intent["offset"])
        nodes = [int(each.subject) for each in run.there.steps if each.kind == "replace"]
        found = {node: run.ports.nodes.observe(node).snapshot for node in nodes}
        offsets = {node: offset for node, offset in found.items() if offset is not None}
        there, known = all(each >= wanted for each in offsets.values()), len(offsets) == len(nodes)
        if there and (known or run.accepted(step)):
            by = {} if known else {"seen_by": run.options.who}
            result = {"offsets": {str(node): offset for node, offset in offsets.items()}, **by}
            return Checked(outcome=Outcome.PASS, result=result)
        said = f"a metadata snapshot up to offset {wanted} on nodes {', '.join(map(str, nodes))}"
        if known:
            return Checked(outcome=Outcome.WAIT, detail=f"waiting for {said}; there are {offsets}")
        detail = (
            f"look for __cluster_metadata-0/<offset>-<epoch>.checkpoint of {said}, then say so with: "
            f"groupshift continue {run.name} --accept '{step.key}' --execute"
        )
        return Checked(outcome=Outcome.PERSON, detail=detail)


class Prove(Handler[DowngradePorts]):
    """The go/no-go: every rule is asked again, and the log replayed as the older release would."""

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        facts = look_at(run.ports.views, run.ports.log, run.request)
        findings = ask(facts)
        bad: Findings = no_go(facts, findings)
        result = {
            "records": 0 if facts.log is None else facts.log.records,
            "findings": findings_data(findings),
        }
        if not bad:
            return Checked(outcome=Outcome.PASS, result=result)
        return Checked(outcome=outcome_of(bad), findings=bad, result=result)


def change_of(run: Downgrading, step: Step) -> Replacement:
    """Return the replacement that a step asks its driver for."""
    about, back = run.there.about, bool(step.args["back"])
    return Replacement(
        change_id=f"{run.name}/{step.key}".replace(" ", "_"),
        node_id=int(step.subject),
        release=about["now"] if back else about["release"],
        coordinator=Coordinator(about["running"] if back else about["coordinator"]),
        without=tuple(step.args["without"]),
        fence=run.name,
        token=run.token,
    )


def alike(plan: Plan) -> bool:
    """Return True where brokers answer the same before and after: both releases are of one line, with one
    coordinator."""
    about = plan.about
    before, after = (line_of_version(Version.parse(about[name])) for name in ("now", "release"))
    return before == after and about["running"] == about["coordinator"]


def answers_as(view: ClusterView, wanted: Replacement) -> bool:
    """Return whether the broker answers as one of the wanted release does, and has loaded all it
    coordinates."""
    found = next((each for each in view.brokers if each.node_id == wanted.node_id), None)
    target = target_of(wanted.release, wanted.coordinator)
    return found is not None and not found.loading and _runs(found, target)


def _runs(broker: BrokerView, target: Target) -> bool:
    """Whether a broker is of the line and has the coordinator; within a line brokers tell no release."""
    if broker.line is None:
        return standing(target.version, broker.coordinator, target) is not Order.OLDER
    return broker.line.holds(target.version) and broker.coordinator is target.coordinator


class ReplaceNode(Handler[DowngradePorts]):
    """Gives a node another release, there and back, by the driver of nodes or a person."""

    touches = True

    def allowed(self, run: Downgrading, step: Step) -> Checked:
        """A node is only touched when all are in sync and no other voter is behind; in a rollback a dead one
        is started at once: nobody can wait for it."""
        lacks = self._lacks_before(run, step)
        if not lacks:
            return PASSED
        return Checked(outcome=Outcome.WAIT, detail=f"the cluster is not whole, no node is touched: {lacks}")

    def _lacks_before(self, run: Downgrading, step: Step) -> str:
        node, back = int(step.subject), bool(step.args["back"])
        if back and self._dead(run, node):
            return ""
        waited_for = [each for each in brokers_of(run) if not (back and each == node)]
        return run.ports.cluster.lacks(waited_for) or self._quorum_lacks(run, node)

    def _quorum_lacks(self, run: Downgrading, node: int) -> str:
        """Which other voters have not all of the metadata log: stopping one more could leave no majority. A
        controller of its own tells nothing else."""
        quorum = run.ports.views.look().quorum
        behind = [] if quorum is None else [each for each in quorum.behind if each != node]
        return f"voter {behind[0]} of the metadata quorum is behind" if behind else ""

    def _dead(self, run: Downgrading, node: int) -> bool:
        """Whether a node serves nobody: its driver says so, or it is a broker that is not registered, or the
        only one and does not answer. Raises `Transient` when brokers do not answer otherwise."""
        if run.ports.nodes.observe(node).state is NodeState.DOWN:
            return True
        if node not in brokers_of(run):
            return False
        try:
            return node not in {each.node_id for each in run.ports.views.look().brokers}
        except Transient:
            if len(brokers_of(run)) > 1:
                raise
            return True

    def stands(self, run: Downgrading, step: Step, record: StepRecord) -> Standing:
        """A process that was killed between its act and the journal left no word of it: the driver knows the
        change, or the broker answers as one of the release that it was to get."""
        if record.state is not StepState.INTENDED or record.result:
            return Standing.MADE
        wanted = change_of(run, step)
        status = run.ports.nodes.observe(wanted.node_id)
        if status.state is not NodeState.UNKNOWN:
            made = status.change_id == wanted.change_id
        else:
            made = not alike(run.there) and answers_as(run.ports.views.look(), wanted)
        return Standing.MADE if made else Standing.AS_MET

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json | Instruction:
        """See `Handler`. A driver makes a change once, by its id."""
        run.hold(step)
        started = run.ports.nodes.start(change_of(run, step))
        if isinstance(started, ForPerson):
            return Instruction(text=started.instruction)
        return {"change_id": started.change_id}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """By the driver, and by the cluster: the broker answers as the release does, replicas are in sync. By
        a person where neither can tell: what a controller runs, and releases that answer alike."""
        wanted, status = change_of(run, step), run.ports.nodes.observe(int(step.subject))
        lacks, asked_for = self._lacks(run, wanted, status), record.result.get(INSTRUCTION)
        if status.state is NodeState.DOWN and not asked_for:
            return Checked(outcome=Outcome.FAIL, detail=lacks)
        if lacks and asked_for and status.state in {NodeState.RUNNING, NodeState.DOWN}:
            return Checked(outcome=Outcome.PERSON, detail=f"{asked_for} ({lacks})")
        if status.state is not NodeState.UNKNOWN:
            if lacks:
                return Checked(outcome=Outcome.WAIT, detail=lacks)
            return Checked(outcome=Outcome.PASS, result={"release": wanted.release})
        mute = wanted.node_id not in brokers_of(run) or alike(run.there)
        if not lacks and mute and not run.accepted(step):
            lacks = (
                f"only its own log tells whether it runs {wanted.release}: look there, then say so with: "
                f"groupshift continue {run.name} --accept '{step.key}' --execute"
            )
        if lacks:
            return Checked(outcome=Outcome.PERSON, detail=f"{asked_for or step.does} ({lacks})")
        by = {"seen_by": run.options.who} if mute else {}
        return Checked(outcome=Outcome.PASS, result={"release": wanted.release, **by})

    def _lacks(self, run: Downgrading, wanted: Replacement, status: NodeStatus) -> str:
        under_way = {
            NodeState.CHANGING: f"node {wanted.node_id} is being replaced",
            NodeState.DOWN: f"node {wanted.node_id} does not run: {status.trouble or 'no reason'}",
        }
        if status.state in under_way:
            return under_way[status.state]
        ran = (status.change_id, status.release) == (wanted.change_id, wanted.release)
        if status.state is NodeState.RUNNING and not ran:
            return f"node {wanted.node_id} runs {status.release or 'another release'}, not by this change"
        if wanted.node_id not in brokers_of(run):
            return ""
        try:
            if not answers_as(run.ports.views.look(), wanted):
                return f"broker {wanted.node_id} does not answer as {wanted.release} yet"
            return run.ports.cluster.lacks(brokers_of(run))
        except Transient as silent:
            return str(silent)


HANDLERS: Mapping[str, Handler[DowngradePorts]] = {
    "await-snapshot": AwaitSnapshot(),
    "prove": Prove(),
    "replace": ReplaceNode(),
}
"""By the kind of a step."""
