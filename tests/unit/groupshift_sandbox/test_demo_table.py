"""The table of a demo: phases of a run there and back, and what they did to consumers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groupshift.audit.ownership import Interval
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.run import RunState, Step, Target, make_plan, make_rollback
from groupshift.domain.verdict import Verdict
from groupshift.ports.runs import Event, EventKind, RunRecord
from groupshift_sandbox.client_members.events import Owned
from groupshift_sandbox.demo_table import HandOver, hand_overs, phases, rows, taken_over
from groupshift_sandbox.ledger import Delivery

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
THERE = make_plan(
    [
        Step(phase="plan", kind="approve"),
        Step(phase="canary", kind="replace"),
        Step(phase="canary", kind="compare"),
        Step(phase="roll", kind="replace"),
    ]
)
BACK = make_rollback([Step(phase="undo_members", kind="replace", undoes="02 canary/replace")], 1)


def record() -> RunRecord:
    """A run with that plan."""
    return RunRecord(
        run="r",
        move="m",
        target=Target(kind="group", name="g"),
        state=RunState.ROLLED_BACK,
        plan=THERE.text,
        plan_hash=THERE.hash,
        created_at_ms=0,
        updated_at_ms=0,
    )


def event(at_ms: int, kind: EventKind, step: str = "", **body: Any) -> Event:
    """A line of its history."""
    return Event(seq=at_ms, at_ms=at_ms, token=1, kind=kind, step=step, body=body)


HISTORY = [
    event(1, EventKind.PLANNED),
    event(10, EventKind.INTENDED, "01 plan/approve"),
    event(20, EventKind.CHECKED, "01 plan/approve", outcome="pass"),
    event(30, EventKind.INTENDED, "02 canary/replace"),
    event(40, EventKind.CHECKED, "02 canary/replace", outcome="wait"),
    event(50, EventKind.CHECKED, "02 canary/replace", outcome="pass"),
    event(60, EventKind.ACTED, "03 canary/compare", spark_job={"output": "first"}),
    event(70, EventKind.ACTED, "03 canary/compare", spark_job={"output": "second"}),
    event(80, EventKind.CHECKED, "03 canary/compare", outcome="fail"),
    event(90, EventKind.ROLLBACK_BEGUN, plan=json.loads(BACK.text), to="start", because=""),
    event(100, EventKind.INTENDED, BACK.steps[0].key),
    event(130, EventKind.CHECKED, BACK.steps[0].key, outcome="pass"),
]


def test_phases_that_were_begun_in_their_order() -> None:
    """The last look at each step counts, the worst step decides; what was never begun has no row."""
    found = phases(record(), HISTORY)
    assert [(each.name, each.start_ms, each.end_ms, each.verdict) for each in found] == [
        ("plan", 10, 20, Verdict.PASS),
        ("canary", 30, 80, Verdict.FAIL),
        ("back: members", 100, 130, Verdict.PASS),
    ]
    assert [each.output for each in found] == ["", "second", ""]
    assert found[1].wall_s == pytest.approx(0.05)


def test_what_a_phase_did_to_consumers() -> None:
    """Each change of owner, repetition and gap counts to the phase in which it was."""
    changes = taken_over({P0: [_owned("a", 0, 35), _owned("b", 45, None)], P1: [_owned("a", 0, None)]})
    assert changes == [HandOver(partition=P0, at_ms=45, unowned_ms=10)]
    deliveries = [_delivery(0, 5), _delivery(1, 33), _delivery(1, 46), _delivery(3, 120)]
    plan, canary, back = rows(phases(record(), HISTORY), changes, deliveries)
    assert (plan.moved, plan.unowned_ms, plan.duplicates, plan.lost) == (0, 0, 0, 0)
    assert (canary.moved, canary.unowned_ms, canary.duplicates, canary.lost) == (1, 10, 1, 0)
    assert (back.moved, back.unowned_ms, back.duplicates, back.lost) == (0, 0, 0, 1)


def test_owners_of_zookeeper_go_by_transaction() -> None:
    """An owner whose node still exists leaves no gap before the next."""
    intervals = [_interval(3, 50, None), _interval(1, 10, 40)]
    assert hand_overs(intervals) == [HandOver(partition=P0, at_ms=50, unowned_ms=10)]
    assert hand_overs([_interval(1, 10, None), _interval(2, 20, None)])[0].unowned_ms == 0


def _owned(member: str, start: int, end: int | None) -> Owned:
    return Owned(member=member, from_ms=start, to_ms=end)


def _delivery(offset: int, at_ms: int) -> Delivery:
    return Delivery(member="a", partition=P0, offset=offset, at_ms=at_ms)


def _interval(zxid: int, start: int, end: int | None) -> Interval:
    return Interval(
        partition=P0, thread_id=f"t{zxid}", session=zxid, start_zxid=zxid, start_ms=start, end_ms=end
    )
