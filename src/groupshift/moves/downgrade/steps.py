"""Steps of a downgrade: those that change groups, their configurations and features, that measure before the
first node, and that give a node another release; `compaction_steps` has others.

Each step acts once and looks until it sees the effect. What a step read before it changed anything is in its
intent in the journal: the configurations of a group, those of the offsets topic. Their inverses take it from
there, so what is set back is what was met, not what a plan of days ago had. A node is only touched when every
replica is in sync and no other voter of the metadata quorum is behind.
"""

from __future__ import annotations

from groupshift.domain.cluster import ClusterView
from groupshift.domain.facts import sentence_list
from groupshift.domain.group_protocol import Kind
from groupshift.domain.run import (
    PASSED,
    Checked,
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
from groupshift.errors import Conflict, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.facts import (
    DowngradePorts,
    Downgrading,
    InventoryGroup,
    brokers_of,
    hidden,
    inventory,
    look_at,
)
from groupshift.moves.downgrade.releases import (
    GROUP,
    SHARE,
    STREAMS,
    line_of_version,
    standing,
    target_of,
)
from groupshift.moves.downgrade.releases import ReleaseOrder as Order
from groupshift.moves.downgrade.rules import ask, no_go
from groupshift.ports.driver import ForPerson, NodeState, NodeStatus, Replacement

_SERVED_BY = {GROUP: Kind.CONSUMER, SHARE: Kind.SHARE, STREAMS: Kind.STREAMS}
"""Without this feature no broker serves groups of this type."""


def waits(why: str, *, again: bool = False) -> Checked:
    """A look that has to be repeated, with why; ``again``: the act is repeated before it."""
    return Checked(outcome=Outcome.WAIT, detail=why, act_again=again)


class _Listed(Handler[DowngradePorts]):
    """A step that needs a list of all groups: an empty one proves nothing while a broker loads."""

    def allowed(self, run: Downgrading, step: Step) -> Checked:
        """Whether every broker lists all its groups."""
        why = hidden(run, run.ports.views.look())
        return waits(why) if why else PASSED

    def listed(self, run: Downgrading, step: Step) -> tuple[InventoryGroup | None, str]:
        """Return the group as listed now, and why that may not be all."""
        view = run.ports.views.look()
        group = next((each for each in inventory(view, None) if each.group == step.subject), None)
        return group, hidden(run, view)


class Convert(_Listed):
    """A person restarts the members as classic ones; where somebody stopped all of them, and of a group that
    had none when the plan was made (``convert-empty``), one classic member of our own joins and leaves,
    without committing."""

    alters = True

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json | Instruction:
        """Convert an empty group; one with members is a person's to restart. Nothing where the group is
        classic already, or a broker does not list all its groups yet. Raises `Conflict` for members of a
        group that had none when the plan was approved."""
        group, why = self.listed(run, step)
        if why or group is None or Kind.CONSUMER not in group.kinds:
            return {}
        if group.empty:
            run.hold(step)
            run.ports.cluster.convert_empty(step.subject)
            return {}
        if step.kind == "convert-empty":
            raise Conflict(
                f"group {step.subject} had no members when the plan was approved and has some now: stop "
                "them, or restart them with group.protocol=classic, then run it again"
            )
        return Instruction(text=self._busy(step))

    def _busy(self, step: Step) -> str:
        """What to do about members."""
        return f"group {step.subject} has members and is of type consumer: {step.does}"

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """Whether every broker lists the group as classic, or nobody lists it any more. A person is asked
        while it has members; an empty one that is still listed as before is converted again. In a step
        ``convert-empty`` our member has to be gone, too: a process that was cut off may have left it."""
        group, why = self.listed(run, step)
        ours = step.kind == "convert-empty"
        if why:
            return waits(why, again=ours)
        if group is None or (Kind.CONSUMER not in group.kinds and (group.empty or not ours)):
            return PASSED
        if group.empty:
            return waits(f"group {step.subject} is still listed as consumer", again=True)
        if ours:
            return waits(f"group {step.subject} still has a member")
        return Checked(outcome=Outcome.PERSON, detail=self._busy(step))


class DeleteConfigs(_Listed):
    """Deletes the configurations of a group: the older release knows none."""

    def intend(self, run: Downgrading, step: Step) -> Json:
        """What the group is configured with now: the plan's may be days old."""
        return {"configs": dict(run.ports.views.look().group_configs.get(step.subject, {}))}

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """Only what is written down. Raises `Conflict` when somebody changed it since."""
        view = run.ports.views.look()
        present = dict(view.group_configs.get(step.subject, {}))
        new = sorted(name for name, value in present.items() if intent["configs"].get(name) != value)
        if new:
            raise Conflict(
                f"{', '.join(new)} of group {step.subject} was set while it was being deleted: delete it "
                "there, then run it again"
            )
        if present:
            run.hold(step)
            run.ports.cluster.configure_group(step.subject, dict.fromkeys(present))
        return {"deleted": present}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """Whether no broker tells a configuration of the group, and every one tells all."""
        view = run.ports.views.look()
        left = view.group_configs.get(step.subject, {})
        still = f"brokers still tell {', '.join(left)} of group {step.subject}" if left else ""
        why = still or view.configs_problem or hidden(run, view)
        return waits(why) if why else PASSED


class SetConfigs(Handler[DowngradePorts]):
    """Sets again what was deleted: what the group was configured with right before."""

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """See `Handler`. Setting the same values again changes nothing."""
        run.hold(step)
        run.ports.cluster.configure_group(step.subject, dict(run.records[step.undoes].intent["configs"]))
        return {}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """Whether brokers tell exactly what was deleted."""
        configs = run.ports.views.look().group_configs.get(step.subject, {})
        same = dict(configs) == dict(run.records[step.undoes].intent["configs"])
        return PASSED if same else waits(f"brokers do not tell all of {step.subject}'s configurations yet")


class SetLevel(_Listed):
    """Lowers a feature (step ``lower``), or raises it again (``raise``), which needs no list of groups."""

    def allowed(self, run: Downgrading, step: Step) -> Checked:
        """See `Handler`."""
        return PASSED if step.kind == "raise" else super().allowed(run, step)

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """See `Handler`. Raises `Conflict` where a group that needs the feature came since the plan was
        approved: no broker would serve it, and the log would hold its records again."""
        to, cluster, view = step.args["to"], run.ports.cluster, run.ports.views.look()
        level = view.finalised.get(step.subject, 0)
        if step.kind == "raise":
            if level < to:
                run.hold(step)
                cluster.raise_feature(step.subject, to)
            return {}
        kind = _SERVED_BY.get(step.subject) if to == 0 else None
        if came := [each.group for each in inventory(view, None) if kind in each.kinds]:
            restart = "restart its members with group.protocol=classic, or " if kind is Kind.CONSUMER else ""
            raise Conflict(
                f"group {sentence_list(came)} is of type {kind}, and {step.subject} 0 serves none: "
                f"{restart}stop its members and delete it, then run it again"
            )
        if level > to:
            run.hold(step)
            cluster.lower_feature(step.subject, to)
        return {}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """Whether every broker tells the level."""
        level = run.ports.views.look().finalised.get(step.subject, 0)
        return PASSED if level == step.args["to"] else waits(f"a broker tells {step.subject} at {level}")


class AwaitSnapshot(Handler[DowngradePorts]):
    """Waits for a metadata snapshot that holds the last change of a feature: older releases start from it."""

    def intend(self, run: Downgrading, step: Step) -> Json:
        """Up to where the metadata log is committed now. Raises `Transient`."""
        if (quorum := run.ports.views.look().quorum) is None:
            raise Transient("no controller tells the metadata quorum; run it again")
        return {"offset": quorum.high_watermark}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """See `Handler`. Where the driver cannot see a node's snapshots, a person has to."""
        wanted = int(record.intent["offset"])
        nodes = [int(each.subject) for each in run.there.steps if each.kind == "replace"]
        newest = ((node, run.ports.nodes.observe(node).snapshot) for node in nodes)
        offsets = {node: offset for node, offset in newest if offset is not None}
        there, known = all(each >= wanted for each in offsets.values()), len(offsets) == len(nodes)
        if there and (known or run.accepted(step)):
            by = {} if known else {"seen_by": run.options.who}
            result = {"offsets": {str(node): offset for node, offset in offsets.items()}, **by}
            return Checked(outcome=Outcome.PASS, result=result)
        said = f"a metadata snapshot up to offset {wanted} on nodes {', '.join(map(str, nodes))}"
        if known:
            return waits(f"waiting for {said}; there are {offsets}")
        detail = (
            f"look for __cluster_metadata-0/<offset>-<epoch>.checkpoint of {said}, then say so with: "
            f"groupshift continue {run.name} --accept '{step.key}' --execute"
        )
        return Checked(outcome=Outcome.PERSON, detail=detail)


class Prove(Handler[DowngradePorts]):
    """The go/no-go: every rule is asked again, and the log replayed as the older release would."""

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """Ask all rules of the cluster and of its log as they are now. Findings and the number of records
        are journaled; what no file leaves out stops the run before its first node."""
        facts = look_at(run.ports.views, run.ports.log, run.request)
        findings = ask(facts)
        bad, records = no_go(facts, findings), 0 if facts.log is None else facts.log.records
        result = {"records": records, "findings": findings_data(findings)}
        return Checked(outcome=outcome_of(bad) if bad else Outcome.PASS, findings=bad, result=result)


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
    coordinates. Within a line brokers tell no release."""
    broker = next((each for each in view.brokers if each.node_id == wanted.node_id), None)
    if broker is None or broker.loading:
        return False
    target = target_of(wanted.release, wanted.coordinator)
    if broker.line is None:
        return standing(target.version, broker.coordinator, target) is not Order.OLDER
    return broker.line.holds(target.version) and broker.coordinator is target.coordinator


class ReplaceNode(Handler[DowngradePorts]):
    """Gives a node another release, there and back, by the driver of nodes or a person."""

    touches = True

    def allowed(self, run: Downgrading, step: Step) -> Checked:
        """A node is only touched when all are in sync and no other voter is behind: stopping one more could
        leave no majority. In a rollback a dead one is started at once: nobody can wait for it."""
        node, back = int(step.subject), bool(step.args["back"])
        if back and self._dead(run, node):
            return PASSED
        lacks = run.ports.cluster.lacks([each for each in brokers_of(run) if not (back and each == node)])
        if not lacks:  # a controller of its own tells nothing else
            quorum = run.ports.views.look().quorum
            behind = [] if quorum is None else [each for each in quorum.behind if each != node]
            lacks = f"voter {behind[0]} of the metadata quorum is behind" if behind else ""
        return waits(f"the cluster is not whole, no node is touched: {lacks}") if lacks else PASSED

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
            done = Checked(outcome=Outcome.PASS, result={"release": wanted.release})
            return waits(lacks) if lacks else done
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
        """What is still missing, as the driver and the cluster tell it; empty: nothing."""
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
