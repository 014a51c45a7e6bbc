"""The plan of a downgrade as data: the steps as an assessment shows them, the plan that the engine walks, and
what undoes it.

Nothing here acts. Source of the order: docs/reference/group-coordinator.md §6.1. Consumers come before
brokers: only the newer coordinator writes the tombstones of its own records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from groupshift.domain.cluster import ClusterView
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.group_counts import CountView
from groupshift.domain.group_protocol import Kind
from groupshift.domain.run import (
    NOTHING,
    Json,
    NoUndo,
    OnDifference,
    Plan,
    Step,
    StepRecord,
    findings_data,
    make_plan,
    make_rollback,
)
from groupshift.domain.versions import METADATA
from groupshift.engine.move import undo_of
from groupshift.engine.questions import Observed, Section
from groupshift.engine.snapshots import compare_step, snapshot_step
from groupshift.errors import Rejected
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.facts import DowngradeFacts, DowngradeRequest, InventoryGroup, of_kind
from groupshift.moves.downgrade.releases import (
    GROUP,
    INTER_BROKER,
    Compaction,
    misfits,
    name_of,
    speaks_newer,
)
from groupshift.moves.downgrade.rules import ask

FORWARD_ONLY = "forward only"


class Act(StrEnum):
    """What a step does."""

    SNAPSHOT = "snapshot"
    CONVERT = "convert"
    CONVERT_EMPTY = "convert-empty"
    COMPACT = "compact"
    COMPARE = "compare"
    DELETE_CONFIGS = "delete-configs"
    LOWER = "lower"
    AWAIT_SNAPSHOT = "await-snapshot"
    EDIT_PROPERTIES = "edit-properties"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeStep:
    """One step: ``subject`` is the group, feature or node, ``does`` the instruction, ``proof`` what must
    be seen before the next one, ``inverse`` what undoes it: `FORWARD_ONLY`, or empty where there is
    nothing to undo."""

    act: Act
    subject: str = ""
    does: str
    proof: str
    inverse: str = ""


_Walked = Iterator[tuple[DowngradeStep, tuple[Step, ...]]]
"""Steps as they are shown, each with those that a run makes of it: none where a person does it outside."""


def steps(facts: DowngradeFacts) -> tuple[DowngradeStep, ...]:
    """The plan from what is now to the target, in its order; empty where there is no way."""
    return tuple(shown for shown, _ in _way(facts))


def _way(facts: DowngradeFacts, *, live: bool = False) -> _Walked:
    if not facts.path.possible:
        return
    shown = DowngradeStep(
        act=Act.SNAPSHOT,
        does="snapshot A of all groups: groupshift snapshot --all --output A",
        proof="the snapshot has no problems",
    )
    yield shown, (snapshot_step("prepare", LEFT, does=f"snapshot {LEFT} of all groups"),)
    converted = () if facts.serves_consumers else of_kind(facts.groups, Kind.CONSUMER)
    yield from _conversions(converted, live=live)
    yield from _compaction(facts)
    yield from _configs(facts)
    yield from _features(facts)
    yield from _files(facts)
    yield from _nodes(facts, CONVERTED if converted else LEFT, live=live)


def node_order(view: ClusterView, *, brokers_only: bool = False) -> tuple[int, ...]:
    """Node ids in the order of their replacement: brokers that do not vote, then voters (controllers of
    their own among them, unless only brokers are replaced), the leader of the metadata quorum last."""
    voters = set(view.quorum.voters) if view.quorum else set()
    leader = view.quorum.leader if view.quorum else view.controller
    nodes = {broker.node_id for broker in view.brokers} | (set() if brokers_only else voters)
    return tuple(sorted(nodes, key=lambda node: (node == leader, node in voters, node)))


def _conversions(found: Sequence[InventoryGroup], *, live: bool) -> _Walked:
    for each in found:
        joins = f"let one classic member join group {each.group!r} and leave, without committing"
        restarts = f"restart the members of group {each.group!r} one by one with group.protocol=classic"
        shown = DowngradeStep(
            act=Act.CONVERT_EMPTY if each.empty else Act.CONVERT,
            subject=each.group,
            does=joins if each.empty else f"{restarts} and one common assignor",
            proof="every broker lists it as classic",
            inverse="a native member that joins converts it again"
            if each.empty
            else "restart the members one by one with group.protocol=consumer",
        )
        yield shown, (_step("convert", shown),)
    if found:
        shown = DowngradeStep(
            act=Act.COMPARE,
            does="snapshot B: groupshift snapshot --all --output B; groupshift compare A B --move "
            "protocol-back",
            proof="no difference",
        )
        yield shown, (compare_step("convert", (CONVERTED, LEFT), Comparison.PROTOCOL_BACK, live=live),)


def _compaction(facts: DowngradeFacts) -> _Walked:
    if facts.path.compaction not in {Compaction.NEEDED, Compaction.UNKNOWN}:
        return
    shown = DowngradeStep(
        act=Act.COMPACT,
        subject="__consumer_offsets",
        does="set segment.ms=1000, min.cleanable.dirty.ratio=0.001, delete.retention.ms=100 and commit "
        "once a second to "
        "every partition; set them back afterwards",
        proof=f"a copy of the log holds no key of type 3 or above: groupshift downgrade assess --to "
        f"{facts.target.release} --segments COPY",
        inverse=FORWARD_ONLY,
    )
    yield shown, tuple(_compacting(shown.subject))


def _configs(facts: DowngradeFacts) -> _Walked:
    if facts.target.line.supports(GROUP):
        return
    for group, configs in sorted(facts.view.group_configs.items()):
        said = ", ".join(f"{name}={value}" for name, value in sorted(configs.items()))
        shown = DowngradeStep(
            act=Act.DELETE_CONFIGS,
            subject=group,
            does=f"delete the configurations of group {group!r} ({said})",
            proof="no broker tells one of source GROUP_CONFIG",
            inverse=f"set the configurations of group {group!r} again: {said}",
        )
        undo = Step(phase="features", kind="set-configs", subject=group, does=shown.inverse)
        yield shown, (_step("features", shown, args={"configs": dict(configs)}, undo=undo),)


def _features(facts: DowngradeFacts) -> _Walked:
    for each in sorted(facts.path.lowered, key=lambda each: (each.feature == METADATA, each.feature)):
        shown = DowngradeStep(
            act=Act.LOWER,
            subject=each.feature,
            does=f"lower {each} (safe downgrade)",
            proof=f"every broker tells {each.feature} at {each.to}",
            inverse=f"upgrade {each.feature} to {each.level}",
        )
        undo = Step(
            phase="features",
            kind="raise",
            subject=each.feature,
            does=shown.inverse,
            args={"to": each.level},
        )
        yield shown, (_step("features", shown, args={"to": each.to}, undo=undo),)
    if facts.path.snapshot:
        shown = DowngradeStep(
            act=Act.AWAIT_SNAPSHOT,
            subject="__cluster_metadata",
            does="wait for a metadata snapshot that is newer than the last change of a feature",
            proof=f"{_readers(facts)} has a checkpoint at or above the high watermark of that change",
        )
        yield shown, (_step("features", shown),)


def _readers(facts: DowngradeFacts) -> str:
    """Whose metadata snapshots the older release starts from."""
    if facts.brokers_only:
        return "every broker (controllers keep their release: theirs do not matter)"
    return "every node with process.roles"


def _files(facts: DowngradeFacts) -> _Walked:
    release, line, kraft = facts.target.release, facts.target.line.name, facts.view.kraft
    for broker in facts.view.brokers:
        if not kraft and speaks_newer(broker.properties, facts.target):
            shown = DowngradeStep(
                act=Act.LOWER,
                subject=INTER_BROKER,
                does=f"set it to {line} at broker {broker.node_id} and restart the broker",
                proof="it is registered and its replicas are in sync",
                inverse="set it back and restart the broker",
            )
            yield shown, ()  # no run begins before it is lowered (W14)
    for broker in facts.view.brokers:
        found = (each.name for each in misfits(broker.properties, facts.target))
        names = [name for name in found if kraft or name != INTER_BROKER]
        if names:
            shown = DowngradeStep(
                act=Act.EDIT_PROPERTIES,
                subject=str(broker.node_id),
                does=f"leave {', '.join(names)} out of the file for {release}; keep the file of now",
                proof=f"the file for {release} does not name them",
                inverse="start with the file of now",
            )
            yield shown, ()  # told to whoever replaces the node


def _nodes(facts: DowngradeFacts, base: str, *, live: bool) -> _Walked:
    release = facts.target.release
    shown = DowngradeStep(
        act=Act.SNAPSHOT,
        does="snapshot C0 before the first node: groupshift snapshot --all --output C0",
        proof="the snapshot has no problems",
    )
    prove = Step(
        phase="go",
        kind="prove",
        subject=release,
        does=f"ask every rule again and replay the log as {facts.target} would",
        proof="no rule fails: the first broker may be touched",
        repeat=True,
    )
    before = (BEFORE_NODES, base)
    yield shown, (prove, compare_step("go", before, Comparison.DOWNGRADE, live=live, repeat=True))
    files = {broker.node_id: broker.properties for broker in facts.view.brokers}
    for node in node_order(facts.view, brokers_only=facts.brokers_only):
        kind = "broker" if node in files else "controller"
        shown = DowngradeStep(
            act=Act.REPLACE,
            subject=str(node),
            does=f"stop {kind} {node} cleanly, start {release} over the same folder",
            proof=f"it is registered, replicas are in sync, its partitions are led again; snapshot C{node}: "
            f"groupshift compare C0 C{node} --move downgrade has no difference",
            inverse="stop it cleanly, start the release of now over the same folder",
        )
        undo = Step(
            phase="replace",
            kind="replace",
            subject=str(node),
            args={"back": True, "without": []},
            does=f"stop node {node} cleanly, start {facts.said} over the same folder",
            proof="it is registered and in sync",
        )
        unknown = [each.name for each in misfits(files.get(node, {}), facts.target)]
        replaced = _step("replace", shown, args={"back": False, "without": unknown}, undo=undo)
        compared = compare_step("replace", (f"C{node}", BEFORE_NODES), Comparison.DOWNGRADE, live=live)
        yield shown, (replaced, compared)


COMPACTING: Mapping[str, str] = {
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "100",
    "min.compaction.lag.ms": "0",
}
"""What makes the offsets topic compact soon (docs/reference/coordinator-on-real-brokers.md §D)."""
APPROVE_BACK = "back"
BEFORE_NODES, CONVERTED, LEFT = "C0", "B", "A"
"""Snapshots before the first node is replaced, after conversions, and of what is left."""
BEGUN = ("convert", "compact", "features", "replace")
"""Phases whose begun steps change what the plan was approved for."""


def planned(request: DowngradeRequest, facts: DowngradeFacts) -> Plan:
    """Return the plan that the engine walks; it has no steps where there is no way.

    Raises:
        Rejected: nobody said what the brokers run: a rollback needs it. Or a copy of the log was named.
    """
    if not request.from_:
        raise Rejected("say what the brokers run with --from, such as --from 4.3.1: a rollback needs it")
    if request.segments:
        raise Rejected("a run reads the log at its brokers; leave --segments out, it is only for: assess")
    newest = max((each.coordinator for each in facts.view.brokers), default=Coordinator.OLD, key=_is_new)
    about = {
        "cluster_id": facts.view.cluster_id,
        "release": facts.target.release,
        "coordinator": facts.target.coordinator.value,
        "now": str(facts.said or ""),
        "running": newest.value,
        "brokers": [each.node_id for each in facts.view.brokers],
        "checks": findings_data(ask(facts)),
    }
    return make_plan(_executed(facts, request) if facts.path.possible else (), about)


def observed(facts: DowngradeFacts) -> Observed:
    """Return what was found of the cluster and its log, and every step there, also where a rule forbids it
    now."""
    view, log = facts.view, facts.log
    return Observed(
        sections=tuple(_sections(facts)),
        data={
            "to": facts.target.release,
            "coordinator": facts.target.coordinator,
            "brokers": {
                str(each.node_id): {"line": str(each.line or "unknown"), "coordinator": each.coordinator}
                for each in view.brokers
            },
            "quorum": view.quorum,
            "features": view.finalised,
            "group_configs": view.group_configs,
            "path": facts.path,
            "groups": {
                each.group: {"types": each.kinds, "state": each.state, "protocol_type": each.protocol_type}
                for each in facts.groups
            },
            "log": {
                "records": None if log is None else log.records,
                "new_types": {} if log is None else log.new_types,
            },
            "steps": steps(facts),
            "counts": [] if facts.counts is None else facts.counts.rows,
        },
    )


def _sections(facts: DowngradeFacts) -> Iterator[Section]:
    levels = (
        f"{name} {name_of(level) if name == METADATA else level}"
        for name, level in sorted(facts.view.finalised.items())
    )
    kinds = Counter("+".join(sorted(each.kinds)) or "unknown" for each in facts.groups)
    groups = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    read = "not read" if facts.log is None else f"{facts.log.records:,} records read"
    said = f"features: {', '.join(levels) or 'none'}; groups: {groups}; log of the offsets topic: {read}"
    yield Section(title="The cluster", sentences=(said,))
    if facts.counts is not None:
        yield _counts(facts.counts)
    rows = tuple(
        (str(number), each.act.value, each.subject or "-", each.does, each.proof, each.inverse or "-")
        for number, each in enumerate(steps(facts), 1)
    )
    if rows:
        head = ("#", "step", "of", "what is done", "proof before the next", "rollback")
        yield Section(title=f"the way to {facts.target}", head=head, rows=rows)


def _counts(view: CountView) -> Section:
    """What each broker counts of its groups beside what it lists."""
    rows = tuple(
        (
            str(each["node"]),
            *(str(each[name] or "-") for name in ("release", "coordinator")),
            *(_of_types(each[name]) for name in ("counted", "listed")),
        )
        for each in view.rows
    )
    head = ("broker", "release", "coordinator", "counts", "lists")
    return Section(title="groups by type", head=head, rows=rows)


def _of_types(counts: Mapping[str, int] | None) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted((counts or {}).items())) or "-"


def _is_new(coordinator: Coordinator) -> bool:
    return coordinator is Coordinator.NEW


def met(facts: DowngradeFacts) -> dict[str, dict[str, str]]:
    """Return what an approval is given for: consumer groups, features and brokers."""
    groups = {
        each.group: "consumer, " + ("without members" if each.empty else "with members")
        for each in of_kind(facts.groups, Kind.CONSUMER)
    }
    brokers = {str(each.node_id): f"{each.line}, {each.coordinator.value}" for each in facts.view.brokers}
    features = {name: str(level) for name, level in facts.view.finalised.items()}
    return {"group": groups, "feature": features, "broker": brokers}


def _executed(facts: DowngradeFacts, request: DowngradeRequest) -> Iterator[Step]:
    nodes = ", ".join(map(str, facts.controllers))
    staying = f": only brokers are replaced, controllers ({nodes}) keep their release"
    which = staying if facts.brokers_only else ""
    yield Step(phase="approve", kind="approve", subject="plan", does=f"approve this plan{which}")
    for _, walked in _way(facts, live=request.live):
        yield from walked
    if request.soak_s:
        yield Step(
            phase="soak",
            kind="soak",
            args={"seconds": request.soak_s, "every_s": 60},
            does=f"look for {request.soak_s} s whether every group answers what it had",
            proof="no offset is lower than before the first node",
        )


def _step(
    phase: str, shown: DowngradeStep, *, args: Json | None = None, undo: Step | NoUndo = NOTHING
) -> Step:
    return Step(
        phase=phase,
        kind=shown.act.value,
        subject=shown.subject,
        args=args or {},
        undo=undo,
        does=shown.does,
        proof=shown.proof,
    )


def _compacting(topic: str) -> Iterator[Step]:
    said = ", ".join(f"{name}={value}" for name, value in COMPACTING.items())
    settle = Step(
        phase="compact",
        kind="settle-compaction",
        subject=topic,
        does="set it back to what was written down; delete groupshift's own groups",
        proof="the broker tells what it told before; no broker lists those groups",
    )
    gate = "compact/approve forward-only"
    yield Step(
        phase="compact",
        kind="approve",
        subject="forward-only",
        does=f"approve compacting {topic}: {FORWARD_ONLY}",
    )
    yield Step(
        phase="compact",
        kind="quicken-compaction",
        subject=topic,
        args={"wanted": dict(COMPACTING)},
        undo=settle,
        gate=gate,
        does=f"write down what {topic} is configured with, then set {said}",
        proof="the broker tells them",
    )
    yield Step(
        phase="compact",
        kind="compact",
        subject=topic,
        gate=gate,
        does="commit to every partition, by groups of groupshift's own, until the cleaner is through",
        proof="the log, read whole, holds no key of type 3 or above",
    )
    yield replace(settle, gate=gate)


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
    approve = Step(
        phase="approve",
        kind="approve",
        subject=APPROVE_BACK,
        does=f"approve to undo {len(walked)} steps",
    )
    gate = f"approve/approve {APPROVE_BACK}"
    return make_rollback((approve, *(replace(each, gate=gate) for each in walked)), number)
