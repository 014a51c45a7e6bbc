"""The plan of an expansion as it is executed: every step as data with what undoes it, in one order, hashed.

Source: docs/reference/group-coordinator.md §3.4; the count of each broker's file is set while it is
restarted, which is before it is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from groupshift.domain.cluster import COUNT
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.plan import parts_of, written
from groupshift.domain.step import OnDifference, RunAct, RunStep, compare_step, numbered
from groupshift.domain.verdict import Finding, Verdict
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.facts import PlacementFacts
from groupshift.moves.expansion.load import Mover
from groupshift.moves.expansion.rules import TOPIC

MOVE = "expansion"
SNAPSHOT, BEFORE_DELETE, VERIFIED, BACK = "S", "S0", "V", "D"
"""The snapshots of a run: after the drain, right before groups are deleted, at the end, on the way back."""
IRREVERSIBLE = "forward only: a count never shrinks"


@dataclass(frozen=True, kw_only=True)
class ExpansionPlan:
    """``before`` is the count by which brokers coordinate, ``partitions`` how many the topic has (more where
    somebody changed it and restarted nobody), ``to`` how many it is to have; ``brokers`` are those that
    serve clients, with what each runs (``kinds``, by node id as text); ``movers`` are the groups that move.
    """

    cluster_id: str
    before: int
    partitions: int
    to: int
    brokers: tuple[int, ...]
    kinds: Mapping[str, str]
    movers: tuple[Mover, ...]
    steps: tuple[RunStep, ...]

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, in hex: what people approve."""
        return hashlib.sha256(to_json(self).encode()).hexdigest()

    @cached_property
    def moving_names(self) -> frozenset[str]:
        """The names of the groups that move, to be looked up."""
        return frozenset(self.moving)

    @property
    def moving(self) -> tuple[str, ...]:
        """The names of the groups that move, sorted."""
        return tuple(each.group for each in self.movers)

    @property
    def met(self) -> Mapping[str, str]:
        """What an approval is given for: counts, brokers, and the groups that move, each with its way."""
        return {
            "partitions in use": str(self.before),
            "partitions of the topic": str(self.partitions),
            **{f"broker {node}": kind for node, kind in self.kinds.items()},
            **{f"group {each.group}": f"moves from {each.before} to {each.after}" for each in self.movers},
        }


def asked_for(plan: ExpansionPlan) -> str:
    """What a plan was asked for, as the options of the verb."""
    return f"--to {plan.to}"


def run_plan(facts: PlacementFacts, to: int, *, fenced: bool = False) -> ExpansionPlan:
    """The whole run from what is now; ``fenced`` where something keeps clients out. Never raises."""
    brokers = facts.view.cluster.brokers
    plan = ExpansionPlan(
        cluster_id=facts.view.cluster.cluster_id,
        before=facts.before,
        partitions=facts.view.count,
        to=to,
        brokers=tuple(each.node_id for each in brokers),
        kinds={str(each.node_id): f"{each.line}, {each.coordinator.value}" for each in brokers},
        movers=facts.movers,
        steps=(),
    )
    controller = facts.view.cluster.quorum.leader if facts.view.cluster.quorum else None
    last = facts.view.cluster.controller if controller is None else controller
    old = Coordinator.OLD.value in _runs(facts)
    steps = [*_steps(plan, old=old, last=last), *([_reopen()] if fenced else [])]
    kept = steps if fenced else [each for each in steps if each.act is not RunAct.FENCE]
    return replace(plan, steps=numbered(kept))


def _runs(facts: PlacementFacts) -> frozenset[str]:
    return frozenset(each.coordinator.value for each in facts.view.cluster.brokers)


def _steps(plan: ExpansionPlan, *, old: bool, last: int) -> Iterator[RunStep]:
    yield from _looking()
    yield from _approved(plan)
    yield from _changing(plan, old=old)
    for node in sorted(plan.brokers, key=lambda each: (each == last, each)):
        yield RunStep(
            key="",
            act=RunAct.RESTART,
            subject=str(node),
            does=f"restart broker {node} with {COUNT}={plan.to} in its file",
            proof="it is registered, replicas are in sync, its partitions are led again",
            inverse=IRREVERSIBLE,
        )
    yield from _proving(plan)


def _looking() -> Iterator[RunStep]:
    yield RunStep(
        key="",
        act=RunAct.DRAIN,
        does="wait until every group is without members, on every broker (Connect, Streams and MirrorMaker "
        "too), and no transaction writes offsets",
        proof="every broker lists every group as Empty",
    )
    yield RunStep(
        key="",
        act=RunAct.SNAPSHOT,
        subject=SNAPSHOT,
        does=f"snapshot {SNAPSHOT} of all groups, with the bytes of their records",
        proof="the snapshot has no problems",
    )
    yield RunStep(
        key="",
        act=RunAct.AGREE,
        subject=SNAPSHOT,
        does="hold what brokers answered against what the log has",
        proof="every offset, epoch and metadata is the same in both",
    )


def _approved(plan: ExpansionPlan) -> Iterator[RunStep]:
    moving = f"{len(plan.movers):,} groups"
    yield RunStep(
        key="",
        act=RunAct.APPROVE,
        subject="plan",
        does=f"approve {plan.before} to {plan.to} partitions of {TOPIC}: {moving} move",
    )
    yield _fence()
    changed = OnDifference.HOPELESS, OnDifference.ACCEPTABLE  # an offset may have expired meanwhile
    yield compare_step(BEFORE_DELETE, SNAPSHOT, Comparison.EXPANSION, *changed, fresh=True)
    yield RunStep(
        key="",
        act=RunAct.PROVE,
        subject=str(plan.to),
        does="ask every rule again, and let the controller check the new count without making it",
        proof="no rule fails, the plan is still that of the cluster",
        fresh=True,
    )
    yield RunStep(
        key="",
        act=RunAct.REHEARSE,
        subject=SNAPSHOT,
        does=f"commit snapshot {SNAPSHOT} of the groups that move once, where it is already: may this login, "
        "and does every coordinator take it",
        proof="each is read back as it was: groups may be deleted",
        fresh=True,
    )


def _changing(plan: ExpansionPlan, *, old: bool) -> Iterator[RunStep]:
    moving = f"{len(plan.movers):,} groups"
    why = "an OLD coordinator would answer what stays there" if old else "nothing is left there to expire"
    yield RunStep(
        key="",
        act=RunAct.DELETE_GROUPS,
        subject=TOPIC,
        does=f"delete the {moving} that move at their coordinators of now ({why})",
        proof="no broker lists them, none answers an offset, all replicas have their tombstones",
        inverse=f"commit snapshot {SNAPSHOT} of them again",
    )
    yield RunStep(
        key="",
        act=RunAct.CREATE_PARTITIONS,
        subject=TOPIC,
        does=f"create partitions of {TOPIC}: {plan.to} in all",
        proof=f"every broker tells {plan.to}, each with a leader and all replicas in sync",
        inverse=IRREVERSIBLE,
    )


def _proving(plan: ExpansionPlan) -> Iterator[RunStep]:
    yield RunStep(
        key="",
        act=RunAct.PLACE,
        subject=str(plan.to),
        does="ask each broker directly by which count it coordinates; one that deviates is restarted again",
        proof=f"each broker counts {plan.to}",
        inverse=IRREVERSIBLE,
    )
    yield restore_step(SNAPSHOT)
    yield compare_step(VERIFIED, SNAPSHOT, Comparison.EXPANSION, OnDifference.ACCEPTABLE)
    yield RunStep(
        key="",
        act=RunAct.VERIFY,
        subject=VERIFIED,
        does=f"hold snapshot {VERIFIED}, what coordinators answer, against the bytes of the log, in Spark",
        proof=f"every offset lies where {plan.to} partitions put its group, as answered, and no other does",
    )
    yield _audit()


def _audit() -> RunStep:
    return RunStep(
        key="",
        act=RunAct.AUDIT,
        subject=TOPIC,
        does="read the whole log: every group's records lie in its own partition, one broker serves it",
        proof="the rules of groupshift audit placement do not fail; then clients may start",
    )


def _fence() -> RunStep:
    return RunStep(
        key="",
        act=RunAct.FENCE,
        does="keep clients out, by the programs of [fence], also those that start again by themselves",
        proof="its program says so; every broker is asked for members before each step",
        inverse="let them in again",
    )


def _reopen() -> RunStep:
    return RunStep(
        key="",
        act=RunAct.REOPEN,
        does="let clients in again, by the programs of [fence]",
        proof="its program says so; then clients may start",
    )


def restore_step(snapshot: str) -> RunStep:
    """Committing again what a snapshot has of the groups that move; it has no key yet."""
    return RunStep(
        key="",
        act=RunAct.RESTORE,
        subject=snapshot,
        does=f"commit snapshot {snapshot} of the groups that move, with epochs and metadata",
        proof="each is read back as it was",
    )


def way_back(plan: ExpansionPlan, begun: Iterable[str]) -> tuple[RunStep, ...]:
    """What undoes the steps with these keys, before brokers restart: groups that were deleted are committed
    again, after an approval of its own, and clients are let in again. Nothing undoes a restart."""
    acts = {each.act for each in plan.steps if each.key in frozenset(begun)}
    if RunAct.RESTART in acts:
        return ()
    steps = [*(_restoring() if RunAct.DELETE_GROUPS in acts else ())]
    steps += [_reopen()] if RunAct.FENCE in acts else []
    return tuple(replace(each, key=f"back {each.key}") for each in numbered(steps))


def _restoring() -> Iterator[RunStep]:
    yield RunStep(
        key="", act=RunAct.APPROVE, subject="back", does="approve to commit the deleted groups again"
    )
    yield restore_step(SNAPSHOT)
    yield compare_step(BACK, SNAPSHOT, Comparison.EXPANSION, OnDifference.ACCEPTABLE)
    yield _audit()


def against(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings for which nothing may begin."""
    return tuple(each for each in findings if each.verdict in {Verdict.FAIL, Verdict.ERROR})


def to_json(plan: ExpansionPlan) -> str:
    """Canonical JSON: equal plans have equal bytes."""
    return written(MOVE, asdict(plan))


def from_json(text: str) -> ExpansionPlan:
    """The plan that `to_json` wrote. Raises `Rejected` for another version or another move."""
    _, data = parts_of(text, MOVE)
    data["steps"] = tuple(RunStep(**{**each, "act": RunAct(each["act"])}) for each in data["steps"])
    data["movers"] = tuple(Mover(**each) for each in data["movers"])
    data["brokers"] = tuple(data["brokers"])
    return ExpansionPlan(**data)
