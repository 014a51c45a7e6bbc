"""A group's state as JSON and back: what the journal keeps of a scan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import StageName
from groupshift.domain.scan import GroupState, Life, StageReadiness
from groupshift.domain.scan_look import HeldPartition
from groupshift.domain.scan_stability import Rest
from groupshift.domain.verdict import Finding, Verdict


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
