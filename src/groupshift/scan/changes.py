"""What changed between two scans, and a group's state as JSON and back, which the journal keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import StageName
from groupshift.domain.verdict import Finding, Verdict
from groupshift.scan.state import GroupState, HeldPartition, Life, Rest, StageReadiness


class Aspect(StrEnum):
    """What of a group changed."""

    APPEARED = "appeared"
    VANISHED = "vanished"
    LIFE = "life"
    MEMBERS = "members"
    MODE = "mode"
    NEXT = "next stage"
    PARTITIONS = "partitions"
    MOVED = "at rest"
    """Same members and mode, but somebody restarted or partitions changed hands since the last scan."""
    PROBLEMS = "problems"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference; ``before`` and ``after`` are short texts for people, empty where there was nothing."""

    group: str
    aspect: Aspect
    before: str = ""
    after: str = ""


def members_text(state: GroupState) -> str:
    """``3 old, 1 aware``, or ``none``."""
    counts = ((state.old, "old"), (state.aware, "aware"), (state.plain, "plain"))
    return ", ".join(f"{count} {kind}" for count, kind in counts if count) or "none"


def next_text(state: GroupState) -> str:
    """``toggle: ready``, or ``-`` when there is nothing left to move."""
    return f"{state.next.stage}: {state.next.state}" if state.next else "-"


def appeared(state: GroupState) -> Change:
    """A group that the last scan did not know."""
    return Change(group=state.group, aspect=Aspect.APPEARED, after=f"{state.life}, {members_text(state)}")


def vanished(group: str, before: GroupState) -> Change:
    """A group that the last scan knew and that is gone from both systems."""
    text = f"{before.life}, {members_text(before)}"
    return Change(group=group, aspect=Aspect.VANISHED, before=text)


def difference(before: GroupState, after: GroupState) -> tuple[Change, ...]:
    """Every difference but those that always are there (lag, offsets that advance)."""
    told = [
        (Aspect.LIFE, before.life.value, after.life.value),
        (Aspect.MEMBERS, members_text(before), members_text(after)),
        (Aspect.MODE, before.mode.value, after.mode.value),
        (Aspect.NEXT, next_text(before), next_text(after)),
        (Aspect.PARTITIONS, str(before.partitions), str(after.partitions)),
        (Aspect.PROBLEMS, "; ".join(before.problems), "; ".join(after.problems)),
    ]
    found = [(aspect, then, now) for aspect, then, now in told if then != now]
    if not found and before.fingerprint != after.fingerprint:
        found = [(Aspect.MOVED, "", "members restarted or partitions changed hands")]
    return tuple(
        Change(group=after.group, aspect=aspect, before=then, after=now) for aspect, then, now in found
    )


def state_data(state: GroupState) -> dict[str, Any]:
    """The state as plain values; each stage with its verdict, the rules that passed and the others' words."""
    return {
        "group": state.group,
        "taken_at_ms": state.taken_at_ms,
        "life": state.life.value,
        "members": {"old": state.old, "aware": state.aware, "plain": state.plain},
        "mode": state.mode.value,
        "requested": state.requested,
        "fingerprint": state.fingerprint,
        "stable_since_ms": state.stable_since_ms,
        "rest": {"zookeeper_ms": state.rest.zookeeper_ms, "kafka_ms": state.rest.kafka_ms},
        "topics": list(state.topics),
        "partitions": state.partitions,
        "owned": state.owned,
        "lag": state.lag,
        "offsets": {"zookeeper": state.zookeeper_offsets, "kafka": state.kafka_offsets},
        "readiness": [_stage_data(each) for each in state.readiness],
        "problems": list(state.problems),
    }


def _stage_data(stage: StageReadiness) -> dict[str, Any]:
    return {
        "stage": stage.stage.value,
        "state": stage.state.value,
        "passed": list(stage.passed),
        "findings": [
            {"rule": f.rule, "verdict": f.verdict.value, "reason": f.reason, "hint": f.hint}
            for f in stage.findings
        ],
    }


def state_text(state: GroupState) -> str:
    """Compact JSON of `state_data`, with what the next scan needs."""
    held = [
        [*each.partition, each.thread_id, each.czxid, each.session_id, each.zookeeper, each.kafka, each.end]
        for each in state.held
    ]
    return json.dumps({**state_data(state), "held": held}, separators=(",", ":"), ensure_ascii=False)


def state_from(text: str) -> GroupState:
    """The state that `state_text` wrote."""
    data: Mapping[str, Any] = json.loads(text)
    return GroupState(
        group=data["group"],
        taken_at_ms=data["taken_at_ms"],
        life=Life(data["life"]),
        **data["members"],
        mode=Mode(data["mode"]),
        requested=data["requested"],
        fingerprint=data["fingerprint"],
        rest=Rest(**data["rest"]),
        topics=tuple(data["topics"]),
        partitions=data["partitions"],
        owned=data["owned"],
        lag=data["lag"],
        zookeeper_offsets=data["offsets"]["zookeeper"],
        kafka_offsets=data["offsets"]["kafka"],
        readiness=tuple(_stage_from(each) for each in data["readiness"]),
        problems=tuple(data["problems"]),
        held=tuple(_held_from(*each) for each in data["held"]),
    )


def _held_from(topic: str, number: int, thread_id: str, *rest: int) -> HeldPartition:
    czxid, session_id, zookeeper, kafka, end = rest
    return HeldPartition(
        partition=TopicPartition(topic, number),
        thread_id=thread_id,
        czxid=czxid,
        session_id=session_id,
        zookeeper=zookeeper,
        kafka=kafka,
        end=end,
    )


def _stage_from(data: Mapping[str, Any]) -> StageReadiness:
    return StageReadiness(
        stage=StageName(data["stage"]),
        passed=tuple(data["passed"]),
        findings=tuple(
            Finding(rule=f["rule"], verdict=Verdict(f["verdict"]), reason=f["reason"], hint=f["hint"])
            for f in data["findings"]
        ),
    )
