"""The plan of a downgrade as the old engine executes it, and what undoes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.group_protocol import Kind
from groupshift.domain.plan import parts_of, written
from groupshift.domain.step import OnDifference, RunAct, RunStep, compare_step, numbered
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.facts import DowngradeFacts, of_kind
from groupshift.moves.downgrade.plan import FORWARD_ONLY, Act, DowngradeStep, steps
from groupshift.moves.downgrade.properties import INTER_BROKER, misfits
from groupshift.moves.downgrade.releases import target_of

COMPACTING: Mapping[str, str] = {
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "100",
    "min.compaction.lag.ms": "0",
}
"""What makes the offsets topic compact soon (docs/reference/coordinator-on-real-brokers.md §D)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """``release`` and ``coordinator`` are the target's, ``now`` and ``running`` what is left; ``brokers`` are
    the nodes that serve clients; ``met`` is what was approved: consumer groups, features and brokers;
    ``live`` says that commits go on, ``brokers_only`` that controllers keep their release."""

    cluster_id: str
    release: str
    coordinator: Coordinator
    now: str
    running: Coordinator
    brokers: tuple[int, ...]
    met: Mapping[str, str]
    steps: tuple[RunStep, ...]
    live: bool = False
    brokers_only: bool = False

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, in hex: what people approve."""
        return hashlib.sha256(to_json(self).encode()).hexdigest()


def asked_for(plan: RunPlan) -> str:
    """What a plan was asked for, as the options of the verb."""
    usual = target_of(plan.release).coordinator
    flags = {
        f" --coordinator {plan.coordinator}": plan.coordinator is not usual,
        " --live": plan.live,
        " --brokers-only": plan.brokers_only,
    }
    given = "".join(flag for flag, given in flags.items() if given)
    return f"--to {plan.release} --from {plan.now}{given}"


def run_plan(facts: DowngradeFacts, *, live: bool = False) -> RunPlan:
    """The whole run from what is now; the steps are empty where there is no way. Never raises."""
    found = steps(facts)
    newest = max((broker.coordinator for broker in facts.view.brokers), default=Coordinator.OLD, key=_is_new)
    return RunPlan(
        cluster_id=facts.view.cluster_id,
        release=facts.target.release,
        coordinator=facts.target.coordinator,
        now=str(facts.said or ""),
        running=newest,
        brokers=tuple(broker.node_id for broker in facts.view.brokers),
        met=met(facts),
        steps=numbered(_executed(found, facts)) if found else (),
        live=live,
        brokers_only=facts.brokers_only,
    )


def met(facts: DowngradeFacts) -> dict[str, str]:
    """What an approval is given for; when any of it changes, the approval is void."""
    groups = {
        f"group {each.group}": "consumer, " + ("without members" if each.empty else "with members")
        for each in of_kind(facts.groups, Kind.CONSUMER)
    }
    features = {f"feature {name}": str(level) for name, level in facts.view.finalised.items()}
    brokers = {
        f"broker {each.node_id}": f"{each.line}, {each.coordinator.value}" for each in facts.view.brokers
    }
    return groups | features | brokers


def _is_new(coordinator: Coordinator) -> bool:
    return coordinator is Coordinator.NEW


def _executed(found: tuple[DowngradeStep, ...], facts: DowngradeFacts) -> Iterator[RunStep]:
    base = ""
    yield RunStep(key="", act=RunAct.APPROVE, subject="plan", does=f"approve this plan{_staying(facts)}")
    for each in found:
        if each.act is Act.SNAPSHOT and not base:
            base = "A"
            yield _step(each, RunAct.SNAPSHOT, "A")
        elif each.act is Act.SNAPSHOT:
            yield _prove(facts)
            yield compare_step("C0", base, Comparison.DOWNGRADE, fresh=True)
        elif each.act is Act.COMPARE:
            yield compare_step("B", base, Comparison.PROTOCOL_BACK)
            base = "B"
        else:
            yield from _one(each, facts)


def _staying(facts: DowngradeFacts) -> str:
    """Which nodes keep their release, where only brokers are replaced."""
    nodes = ", ".join(map(str, facts.controllers))
    return (
        f": only brokers are replaced, controllers ({nodes}) keep their release" if facts.brokers_only else ""
    )


def _one(each: DowngradeStep, facts: DowngradeFacts) -> Iterator[RunStep]:
    match each.act:
        case Act.COMPACT:
            yield from _compaction(each)
        case Act.DELETE_CONFIGS:
            configs = dict(facts.view.group_configs[each.subject])
            yield _step(each, RunAct.DELETE_CONFIGS, args={"configs": configs})
        case Act.LOWER if each.subject == INTER_BROKER:
            return  # with ZooKeeper: no run begins before it is lowered (W14)
        case Act.LOWER:
            yield _step(each, RunAct.LOWER, args=_levels(facts, each.subject))
        case Act.EDIT_PROPERTIES:
            return  # told to whoever replaces the node
        case Act.REPLACE:
            yield _step(each, RunAct.REPLACE, args={"without": _unknown(facts, int(each.subject))})
            yield compare_step(f"C{each.subject}", "C0", Comparison.DOWNGRADE)
        case _:
            yield _step(each, RunAct(each.act.value))


def _step(
    planned: DowngradeStep, act: RunAct, subject: str | None = None, args: Mapping[str, Any] | None = None
) -> RunStep:
    return RunStep(
        key="",
        act=act,
        subject=planned.subject if subject is None else subject,
        does=planned.does,
        proof=planned.proof,
        inverse=planned.inverse,
        args=args or {},
    )


def _prove(facts: DowngradeFacts) -> RunStep:
    return RunStep(
        key="",
        act=RunAct.PROVE,
        subject=facts.target.release,
        does=f"ask every rule again and replay the log as {facts.target} would",
        proof="no rule fails: the first broker may be touched",
        fresh=True,
    )


def _compaction(planned: DowngradeStep) -> Iterator[RunStep]:
    said = ", ".join(f"{name}={value}" for name, value in COMPACTING.items())
    topic = planned.subject
    yield RunStep(
        key="", act=RunAct.APPROVE, subject="forward-only", does=f"approve compacting {topic}: {FORWARD_ONLY}"
    )
    yield RunStep(
        key="",
        act=RunAct.QUICKEN,
        subject=topic,
        does=f"write down what {topic} is configured with, then set {said}",
        proof="the broker tells them",
        inverse="set it back to what was written down",
        args={"wanted": dict(COMPACTING)},
    )
    yield RunStep(
        key="",
        act=RunAct.COMPACT,
        subject=topic,
        does="commit to every partition, by groups of groupshift's own, until the cleaner is through",
        proof="the log, read whole, holds no key of type 3 or above",
        inverse=FORWARD_ONLY,
    )
    yield RunStep(
        key="",
        act=RunAct.SETTLE,
        subject=topic,
        does="set it back to what was written down; delete groupshift's own groups",
        proof="the broker tells what it told before; no broker lists those groups",
    )


def _levels(facts: DowngradeFacts, feature: str) -> dict[str, int]:
    found = next(each for each in facts.path.lowered if each.feature == feature)
    return {"from": found.level, "to": found.to}


def _unknown(facts: DowngradeFacts, node: int) -> list[str]:
    """Properties of a node's file that the older release does not take."""
    files = [each.properties for each in facts.view.brokers if each.node_id == node]
    return [each.name for properties in files for each in misfits(properties, facts.target)]


def to_json(plan: RunPlan) -> str:
    """Canonical JSON: equal plans have equal bytes."""
    return written("downgrade", asdict(plan))


def from_json(text: str) -> RunPlan:
    """The plan that `to_json` wrote. Raises `Rejected` for another version or another move."""
    _, data = parts_of(text, "downgrade")
    data["steps"] = tuple(RunStep(**{**each, "act": RunAct(each["act"])}) for each in data["steps"])
    data["brokers"] = tuple(data["brokers"])
    for name in ("coordinator", "running"):
        data[name] = Coordinator(data[name])
    return RunPlan(**data)


def way_back(plan: RunPlan, begun: Iterable[str]) -> tuple[RunStep, ...]:
    """What undoes the steps with these keys, last one first, after an approval of its own; steps that are
    forward only, or change nothing, are left out."""
    known = frozenset(begun)
    undoing = [undo for each in reversed(plan.steps) if each.key in known for undo in _undo(plan, each)]
    if not undoing:
        return ()
    nodes = [each for each in undoing if each.act is RunAct.REPLACE]
    compared = compare_step("D", "C0", Comparison.DOWNGRADE, OnDifference.ANEW)
    undoing[len(nodes) : len(nodes)] = [compared] if nodes else []
    approve = RunStep(
        key="", act=RunAct.APPROVE, subject="back", does=f"approve to undo {len(undoing)} steps"
    )
    return tuple(replace(each, key=f"back {each.key}") for each in numbered([approve, *undoing]))


def _undo(plan: RunPlan, step: RunStep) -> Iterator[RunStep]:
    match step.act:
        case RunAct.REPLACE:
            does = f"stop node {step.subject} cleanly, start {plan.now} over the same folder"
            yield replace(step, does=does, proof="it is registered and in sync", args={"back": True})
        case RunAct.LOWER:
            yield replace(step, act=RunAct.RAISE, does=step.inverse, args={"to": step.args["from"]})
        case RunAct.DELETE_CONFIGS:
            yield replace(step, act=RunAct.SET_CONFIGS, does=step.inverse)
        case RunAct.QUICKEN:
            settle = next(each for each in plan.steps if each.act is RunAct.SETTLE)
            yield settle
        case _:
            return
