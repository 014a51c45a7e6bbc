"""The plan of a downgrade as data: the steps from what is now to the target, and what undoes them.

Nothing here acts. ``steps.toml`` beside this module says what each step does. Source of the order:
docs/reference/group-coordinator.md §6.1. Consumers come before brokers: only the newer coordinator writes the
tombstones of its own records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from groupshift.domain.cluster import ClusterView
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC as TOPIC
from groupshift.domain.group_protocol import Kind
from groupshift.domain.run import (
    OnDifference,
    Plan,
    Step,
    StepRecord,
    findings_data,
    make_plan,
    make_rollback,
)
from groupshift.domain.step_table import StepTable
from groupshift.domain.versions import METADATA
from groupshift.engine.move import undo_of
from groupshift.engine.snapshots import compare_step
from groupshift.errors import Rejected
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.facts import DowngradeFacts, DowngradeRequest, of_kind
from groupshift.moves.downgrade.releases import GROUP, INTER_BROKER, Compaction, misfits, speaks_newer
from groupshift.moves.downgrade.rules import ask

_step = StepTable("moves/downgrade/steps.toml").step
COMPACTING: Mapping[str, str] = {
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "100",
    "min.compaction.lag.ms": "0",
}
"""What makes the offsets topic compact soon (docs/reference/coordinator-on-real-brokers.md §D)."""
BEFORE_NODES, CONVERTED, LEFT = "C0", "B", "A"
"""Snapshots before the first node is replaced, after conversions, and of what is left."""
BEGUN = ("convert", "compact", "features", "replace")
"""Phases whose begun steps change what the plan was approved for."""
_BY_HAND = "by-hand"
"""The phase of what only a person does: the plan that is shown has it, the plan of a run has not."""
FORWARD_ONLY = "forward only"
_INVERSE: Mapping[str, str] = {
    "convert": "restart the members one by one with group.protocol=consumer",
    "convert-empty": "a native member that joins converts it again",
    "compact": FORWARD_ONLY,
    "lower-inter-broker": "set it back and restart the broker",
    "edit-properties": "start with the file of now",
}
"""By kind, what undoes a step that no rollback undoes."""


def inverse(step: Step) -> str:
    """Return what undoes a step, for people; `FORWARD_ONLY` where nothing can, empty where nothing has to."""
    return step.undo.does if isinstance(step.undo, Step) else _INVERSE.get(step.kind, "")


def way(request: DowngradeRequest, facts: DowngradeFacts) -> Iterator[Step]:
    """Yield every step from what is now to the target, in order, with those that a person does outside of a
    run. None where there is no way."""
    if not facts.path.possible:
        return
    nodes = ", ".join(map(str, facts.controllers))
    staying = f": only brokers are replaced, controllers ({nodes}) keep their release"
    yield _step("approve", "plan", {"staying": staying if facts.brokers_only else ""})
    yield _step("snapshot", LEFT)
    converted = () if facts.serves_consumers else of_kind(facts.groups, Kind.CONSUMER)
    for each in converted:
        yield _step("convert-empty" if each.empty else "convert", each.group)
    if converted:
        yield compare_step("convert", (CONVERTED, LEFT), Comparison.PROTOCOL_BACK, live=request.live)
    if facts.path.compaction in {Compaction.NEEDED, Compaction.UNKNOWN}:
        gate = "compact/approve forward-only"
        settings = ", ".join(f"{name}={value}" for name, value in COMPACTING.items())
        settle, wanted = _step("settle-compaction", TOPIC), {"wanted": dict(COMPACTING)}
        yield _step("approve-compaction", "forward-only", {"topic": TOPIC})
        yield _step("quicken-compaction", TOPIC, {"settings": settings}, args=wanted, undo=settle, gate=gate)
        yield _step("compact", TOPIC, gate=gate)
        yield replace(settle, gate=gate)
    yield from _features(facts)
    yield from _files(facts)
    yield from _nodes(facts, CONVERTED if converted else LEFT, live=request.live)
    if request.soak_s:
        args = {"seconds": request.soak_s, "every_s": 60}
        yield _step("soak", said=args, args=args)


def _features(facts: DowngradeFacts) -> Iterator[Step]:
    """Configurations of groups, then features, ``metadata.version`` last; then the metadata snapshot that the
    older release starts from."""
    configured = {} if facts.target.line.supports(GROUP) else facts.view.group_configs
    for group, configs in sorted(configured.items()):
        said = {"configs": ", ".join(f"{name}={value}" for name, value in sorted(configs.items()))}
        undo = _step("set-configs", group, said)
        yield _step("delete-configs", group, said, args={"configs": dict(configs)}, undo=undo)
    for each in sorted(facts.path.lowered, key=lambda each: (each.feature == METADATA, each.feature)):
        levels = {"lowering": each, "level": each.level, "to": each.to}
        undo = _step("raise", each.feature, levels, args={"to": each.level})
        yield _step("lower", each.feature, levels, args={"to": each.to}, undo=undo)
    if facts.path.snapshot:
        brokers = "every broker (controllers keep their release: theirs do not matter)"
        readers = brokers if facts.brokers_only else "every node with process.roles"
        yield _step("await-snapshot", "__cluster_metadata", {"readers": readers})


def _files(facts: DowngradeFacts) -> Iterator[Step]:
    """What is to be changed in the brokers' files. With ZooKeeper no run begins before the inter-broker
    version is lowered (W14); what is left out is told to whoever replaces the node."""
    said = {"release": facts.target.release, "line": facts.target.line.name}
    if not facts.view.kraft:
        for broker in facts.view.brokers:
            if speaks_newer(broker.properties, facts.target):
                yield _step("lower-inter-broker", str(broker.node_id), said)
    for broker in facts.view.brokers:
        misfitting = (each.name for each in misfits(broker.properties, facts.target))
        names = [name for name in misfitting if facts.view.kraft or name != INTER_BROKER]
        if names:
            yield _step("edit-properties", str(broker.node_id), {**said, "names": ", ".join(names)})


def _nodes(facts: DowngradeFacts, base: str, *, live: bool) -> Iterator[Step]:
    """The go or no go, then each node with a comparison of all groups behind it; ``base`` is the snapshot
    that the first comparison has."""
    release, now = facts.target.release, facts.said or "the release of now"
    yield _step("prove", release, {"target": facts.target})
    yield compare_step("go", (BEFORE_NODES, base), Comparison.DOWNGRADE, live=live, repeat=True)
    files = {broker.node_id: broker.properties for broker in facts.view.brokers}
    for node in node_order(facts.view, brokers_only=facts.brokers_only):
        said = {"kind": "broker" if node in files else "controller", "release": release, "now": now}
        without = [each.name for each in misfits(files.get(node, {}), facts.target)]
        undo = _step("replace-back", str(node), said, args={"back": True, "without": []})
        yield _step("replace", str(node), said, args={"back": False, "without": without}, undo=undo)
        yield compare_step("replace", (f"C{node}", BEFORE_NODES), Comparison.DOWNGRADE, live=live)


def node_order(view: ClusterView, *, brokers_only: bool = False) -> tuple[int, ...]:
    """Return node ids in the order of their replacement: brokers that do not vote, then voters (controllers
    of their own among them, unless only brokers are replaced), the leader of the metadata quorum last."""
    voters = set(view.quorum.voters) if view.quorum else set()
    leader = view.quorum.leader if view.quorum else view.controller
    nodes = {broker.node_id for broker in view.brokers} | (set() if brokers_only else voters)
    return tuple(sorted(nodes, key=lambda node: (node == leader, node in voters, node)))


def planned(request: DowngradeRequest, facts: DowngradeFacts) -> Plan:
    """Return the plan that the engine walks; it has no steps where there is no way.

    Raises:
        Rejected: nobody said what the brokers run: a rollback needs it. Or a copy of the log was named.
    """
    if not request.from_:
        raise Rejected("say what the brokers run with --from, such as --from 4.3.1: a rollback needs it")
    if request.segments:
        raise Rejected("a run reads the log at its brokers; leave --segments out, it is only for: assess")
    new = any(each.coordinator is Coordinator.NEW for each in facts.view.brokers)
    about = {
        "cluster_id": facts.view.cluster_id,
        "release": facts.target.release,
        "coordinator": facts.target.coordinator.value,
        "now": str(facts.said or ""),
        "running": (Coordinator.NEW if new else Coordinator.OLD).value,
        "brokers": [each.node_id for each in facts.view.brokers],
        "checks": findings_data(ask(facts)),
    }
    return make_plan((each for each in way(request, facts) if each.phase != _BY_HAND), about)


def aspects(facts: DowngradeFacts) -> dict[str, dict[str, str]]:
    """Return what an approval is given for: consumer groups, features and brokers."""
    groups = {
        each.group: "consumer, " + ("without members" if each.empty else "with members")
        for each in of_kind(facts.groups, Kind.CONSUMER)
    }
    brokers = {str(each.node_id): f"{each.line}, {each.coordinator.value}" for each in facts.view.brokers}
    features = {name: str(level) for name, level in facts.view.finalised.items()}
    return {"group": groups, "feature": features, "broker": brokers}


def rollback(there: Plan, begun: Mapping[str, StepRecord], number: int) -> Plan:
    """Return what undoes the begun steps, last one first, after an approval of its own; conversions and a
    compaction stay. What the nodes have then is compared before features are raised: a difference is a
    person's to accept."""
    undone = undo_of(there, begun)
    if not undone:
        return make_rollback((), number)
    nodes = [each for each in undone if each.kind == "replace"]
    compared = compare_step(
        "replace", ("D", BEFORE_NODES), Comparison.DOWNGRADE, live=True, then=OnDifference.ACCEPTABLE
    )
    walked = [*nodes, *([compared] if nodes else []), *undone[len(nodes) :]]
    approve = _step("approve-back", "back", {"many": len(walked)})
    return make_rollback((approve, *(replace(each, gate=approve.name) for each in walked)), number)
