"""Kubernetes documents read as a fleet: slots, members, memory. No server."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from groupshift.adapters.drivers.kubernetes import member_of, slots_of
from groupshift.adapters.drivers.kubernetes_workloads import CHANGES, Accepted, Memory, Workload
from groupshift.domain.facts import SlotState
from groupshift.domain.modes import MemberKind
from groupshift.errors import Rejected
from groupshift.ports.driver import Change

GROUP = "orders-app"


def _pod(name: str, revision: str = "orders-a", **spec: Any) -> dict[str, Any]:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    labels = {"controller-revision-hash": revision}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": ready}


def _stateful(replicas: int, *pods: dict[str, Any], generation: int = 1, **status: Any) -> Workload:
    told = {"observedGeneration": 1, "currentRevision": "orders-a", "updateRevision": "orders-a", **status}
    meta = {"name": "orders", "generation": generation, "resourceVersion": "1"}
    template = {"metadata": {"labels": {"app": "orders"}}, "spec": {"containers": [{"name": "m"}]}}
    document = {
        "kind": "StatefulSet",
        "metadata": meta,
        "spec": {"replicas": replicas, "template": template},
        "status": told,
    }
    return Workload(document=document, pods=pods)


@pytest.mark.parametrize(
    ("client", "pod"),
    [
        ("orders-app_orders-1-1763750000000-1a2b3c4d", "orders-1"),
        ("orders-app_orders-1", "orders-1"),
        ("orders-1", "orders-1"),
        ("orders-app_orders-1-1763750000000-1a2b", "orders-1"),
    ],
)
def test_a_pod_is_the_member_that_carries_its_host_name(client: str, pod: str) -> None:
    """With the group before and time and random behind it, or as it was set."""
    others = ("orders-app_orders-11-1763750000000-1a2b3c4d", "orders-app_orders-1-1-1763750000000-ffffffff")
    assert member_of(_pod(pod), GROUP, (*others, client)) == client


def test_a_pod_that_nobody_or_two_members_could_be_has_no_member() -> None:
    """A guess would be worse than not knowing."""
    twice = ("orders-app_orders-1-1763750000000-1a2b3c4d", "orders-app_orders-1-1763750000001-1a2b3c4e")
    assert member_of(_pod("orders-1"), GROUP, twice) is None
    assert member_of(_pod("orders-1"), GROUP, ()) is None


def test_a_host_name_of_its_own_counts() -> None:
    """``spec.hostname`` is what the process in the pod sees."""
    client = "orders-app_worker-7-1763750000000-1a2b3c4d"
    assert member_of(_pod("orders-5d8f-x2x4z", hostname="worker-7"), GROUP, (client,)) == client


def test_nothing_runs_as_wanted_before_the_controller_has_seen_the_change() -> None:
    """Its status still speaks of the former specification."""
    seen = _stateful(1, _pod("orders-0"))
    behind = _stateful(1, _pod("orders-0"), generation=2)
    assert [slot.state for slot in slots_of(seen, GROUP, ())] == [SlotState.RUNNING]
    assert [slot.state for slot in slots_of(behind, GROUP, ())] == [SlotState.CHANGING]


def test_a_place_without_a_pod_is_changing_and_of_the_kind_that_is_wanted() -> None:
    """As the last change of it says; ordinals are counted down and numerically."""
    slots = tuple(slots_of(_stateful(12, _pod("orders-11")), GROUP, ()))
    assert [slot.name for slot in slots[:3]] == ["orders-11", "orders-10", "orders-9"]
    assert [slot.state for slot in slots[:2]] == [SlotState.RUNNING, SlotState.CHANGING]
    assert {slot.kind for slot in slots} == {MemberKind.ZOOKEEPER}


def test_the_memory_survives_its_annotation_and_forgets_the_oldest_changes() -> None:
    """An annotation has a limit; tokens are kept."""
    memory = Memory(changes=(), fences={})
    for number in range(20):
        change = Change(
            change_id=f"c{number}", group=GROUP, slots=("s",), to=MemberKind.AWARE, fence="m", token=number
        )
        accepted = Accepted(change_id=change.change_id, to=change.to, slots=change.slots, before="orders-a")
        memory = memory.having(change, accepted)
    document = {"kind": "Deployment", "metadata": {"name": "d", "annotations": {}}}
    document["metadata"]["annotations"]["groupshift.io/changes"] = json.dumps(asdict(memory))
    assert Memory.of(document) == memory
    assert (len(memory.changes), memory.fences) == (16, {"m": 19})
    assert memory.find("c3") is None
    last = memory.last("s")
    assert last is not None
    assert last.change_id == "c19"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"changes": [], "fences": {"x": 1e999}}'])
def test_s13_an_annotation_that_somebody_else_wrote_is_one_sentence(text: str) -> None:
    """Deep, or a number without end: whoever may edit the workload can write it."""
    document = {"kind": "Deployment", "metadata": {"name": "orders", "annotations": {CHANGES: text}}}
    with pytest.raises(Rejected, match="is not groupshift's"):
        Memory.of(document)


@pytest.mark.parametrize("held", ["{}", '{"changes": []}', '{"fences": {"m": 3}}', '{"x": 1}'])
def test_half_an_annotation_is_refused(held: str) -> None:
    """Without its tokens a run that was fenced off could go on."""
    document = {"kind": "Deployment", "metadata": {"name": "d", "annotations": {CHANGES: held}}}
    with pytest.raises(Rejected, match="not groupshift's"):
        Memory.of(document)
