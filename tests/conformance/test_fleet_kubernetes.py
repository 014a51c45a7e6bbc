"""What only the driver `kubernetes` meets: conflicts, refusals, broken pods, half a change, and its login."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from groupshift.adapters.drivers.kubernetes import KubernetesApi, KubernetesFleet
from groupshift.bootstrap.member_and_broker_drivers import fleet
from groupshift.domain.modes import MemberKind
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.driver import Started
from groupshift.settings import KubernetesSettings, parse
from groupshift_sandbox.processes import wait_until
from k8s.fleet import kubernetes_fleet, settings
from k8s.manifests import NAMESPACE
from k8s.node import Node
from k8s.requests import STRATEGIC
from k8s.server import FakeServer, fake_server
from support.fleet_suite import DEADLINE_S, GROUP, Fleet, back, change

APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A fake API server of this test's own."""
    with fake_server() as up:
        yield up


@pytest.fixture
def stateful(server: FakeServer) -> Iterator[tuple[Fleet, Node]]:
    """A StatefulSet of three old members, of which its controller has nothing more to say, and its node."""
    with kubernetes_fleet(server.reached, "statefulset") as made:
        wait_until(lambda: rolled_out(document(server, "statefulsets/orders")), DEADLINE_S, "rolled out")
        yield made


@pytest.fixture
def deployments(server: FakeServer) -> Iterator[tuple[Fleet, Node]]:
    """A Deployment of two and one of its own for the canary."""
    with kubernetes_fleet(server.reached, "deployments") as made:
        yield made


def document(server: FakeServer, path: str) -> dict[str, Any]:
    """One workload as it is now."""
    found: dict[str, Any] = server.reached.ask("GET", f"{APPS}/{path}")
    return found


def pods(server: FakeServer, prefix: str) -> list[dict[str, Any]]:
    """Those whose name begins so."""
    return server.store.list("pods", lambda each: each["metadata"]["name"].startswith(prefix))


def was_seen(found: dict[str, Any]) -> bool:
    """Whether the controller has acted on the last edit."""
    return found["status"].get("observedGeneration") == found["metadata"]["generation"]


def rolled_out(found: dict[str, Any]) -> bool:
    """Whether a StatefulSet's last edit has reached all pods, which are ready, and its controller has said
    so: then it writes no status any more that a patch could meet."""
    state = found.get("status") or {}
    same = state.get("currentRevision") == state.get("updateRevision")
    return same and state.get("readyReplicas") == found["spec"]["replicas"] and was_seen(found)


def edit(server: FakeServer, path: str, patch: dict[str, Any]) -> None:
    """What somebody else does to a workload; returns when its controller has seen it."""
    made = server.reached.ask("PATCH", f"{APPS}/{path}", patch, STRATEGIC)["metadata"]["generation"]
    wait_until(lambda: document(server, path)["status"]["observedGeneration"] >= made, 60, "it is observed")


def patches(server: FakeServer) -> list[str]:
    """The workloads that were patched, in order."""
    return [p for m, p in server.requests if m == "PATCH" and p.startswith("/apis/")]


def test_a_statefulset_is_changed_from_its_highest_ordinal_down(server, stateful):
    """The patch sets image, variables, label and partition; what is not named stays as it was."""
    fleet, _ = stateful
    assert fleet.order == ("orders-2", "orders-1", "orders-0")
    fleet.carry_out(change("canary", "orders-2"))
    spec = document(server, "statefulsets/orders")["spec"]
    assert spec["updateStrategy"]["rollingUpdate"]["partition"] == 2
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == "registry.test/orders:2.0"
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "CONSUMER": "migrating",
        "TOPIC": "orders",
    }
    before = len(patches(server))
    with pytest.raises(Rejected, match=r"from the highest ordinal down, .* name orders-2, orders-1"):
        fleet.driver.start(change("c2", "orders-2", "orders-0", to=MemberKind.AWARE))
    assert len(patches(server)) == before


def test_a_deployment_is_changed_as_a_whole_or_not_at_all(server, deployments):
    """The canary is a Deployment of its own; part of one is refused with what to do."""
    fleet, _ = deployments
    assert fleet.order == ("orders-canary/0", "orders/0", "orders/1")
    with pytest.raises(
        Rejected, match="names 1 of its 2 places: let the canary run in a Deployment of its own"
    ):
        fleet.driver.start(change("canary", "orders-canary/0", "orders/0"))
    assert patches(server) == [], "the other Deployment was not changed either"


def test_a_workload_that_a_controller_changed_meanwhile_is_patched_all_the_same(server, stateful):
    """409 is answered by reading again; after five times it is for the caller."""
    fleet, _ = stateful
    left = [2]

    def status_moves(resource: str, name: str) -> None:
        if resource == "statefulsets" and left[0]:
            left[0] -= 1
            found = server.store.get(resource, NAMESPACE, name)
            found["metadata"]["annotations"]["seen"] = str(left[0])
            server.store.write(resource, found)

    server.before_patch.append(status_moves)
    fleet.carry_out(change("canary", "orders-2"))
    assert len(patches(server)) == 3
    left[0] = 99
    with pytest.raises(Transient, match="changed by others 5 times"):
        fleet.driver.start(change("roll", "orders-1", "orders-0"))


def test_a_run_that_is_fenced_between_its_reading_and_its_patch_is_refused(server, stateful):
    """The compare and set sees the newer run's token; nothing is replaced."""
    fleet, _ = stateful
    newer = [change("roll_back:2", token=2)]

    def roll_back_begins(resource: str, name: str) -> None:
        if resource == "statefulsets" and newer:
            assert fleet.reopen().start(newer.pop()) == Started(change_id="roll_back:2")

    server.before_patch.append(roll_back_begins)
    with pytest.raises(Conflict, match="token 1 of"):
        fleet.driver.start(change("canary", "orders-2", token=1))
    assert fleet.kinds() == [MemberKind.ZOOKEEPER] * 3
    image = document(server, "statefulsets/orders")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "registry.test/orders:1.0"


def test_a_change_that_reached_one_of_two_workloads_is_completed_when_it_is_repeated(server, deployments):
    """The failure is seen, half of it is seen, and the half that was made is not made again."""
    fleet, _ = deployments
    server.failing.add("/deployments/orders")
    whole = change("roll", *fleet.order)
    with pytest.raises(Transient, match="503"):
        fleet.driver.start(whole)
    server.failing.clear()
    wait_until(
        lambda: fleet.kinds() == [MemberKind.AWARE, MemberKind.ZOOKEEPER, MemberKind.ZOOKEEPER],
        DEADLINE_S,
        "half",
    )
    status = fleet.reopen().observe(whole)
    assert not status.done
    assert "orders/1 is running as old" in status.detail
    wait_until(lambda: len(pods(server, "orders-canary")) == 1, DEADLINE_S, "its former pod is gone")
    before = fleet.members()["orders-canary/0"]
    fleet.carry_out(whole)
    assert fleet.members()["orders-canary/0"] == before


def test_a_pod_that_breaks_is_named_with_the_reason(server, stateful):
    """As the kubelet tells it; and an ordered StatefulSet needs a person to go back, who is told so."""
    fleet, node = stateful
    node.keep_broken("orders-2")
    canary = change("canary", "orders-2")
    fleet.driver.start(canary)
    wait_until(lambda: "CrashLoopBackOff" in fleet.driver.observe(canary).detail, DEADLINE_S, "it is broken")
    undo = back("undo", "orders-2", undoes=("canary",), token=2)
    fleet.driver.start(undo)
    wait_until(
        lambda: "kubectl delete pod orders-2" in fleet.driver.observe(undo).detail, DEADLINE_S, "it is told"
    )
    assert not fleet.driver.observe(undo).done
    node.heal()
    wait_until(lambda: fleet.driver.observe(undo).done, DEADLINE_S, "the old member is back")
    assert fleet.kinds() == [MemberKind.ZOOKEEPER] * 3


def test_a_rollout_past_its_deadline_says_so(server, deployments):
    """The Deployment's own condition is in the detail."""
    fleet, node = deployments
    edit(server, "deployments/orders-canary", {"spec": {"progressDeadlineSeconds": 1}})
    node.keep_broken("orders-canary-.*")
    canary = change("canary", "orders-canary/0")
    fleet.driver.start(canary)
    wait_until(
        lambda: "ProgressDeadlineExceeded" in fleet.driver.observe(canary).detail,
        DEADLINE_S,
        "late",
        every_s=0.2,
    )
    assert not fleet.driver.observe(canary).done


@pytest.mark.parametrize(
    ("patch", "sentence"),
    [
        ({"metadata": {"annotations": {"groupshift.io/aware": None}}}, "no annotation groupshift.io/aware"),
        (
            {"metadata": {"annotations": {"groupshift.io/aware": "{"}}},
            "groupshift.io/aware .* cannot be used",
        ),
        ({"metadata": {"annotations": {"groupshift.io/aware": "{}"}}}, "needs image or env"),
        ({"metadata": {"annotations": {"groupshift.io/changes": "[]"}}}, "is not groupshift's"),
        (
            {"spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "s:1"}]}}}},
            "has the containers .*sidecar.* groupshift.io/container",
        ),
        (
            {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}},
            "set updateStrategy.type to RollingUpdate",
        ),
    ],
)
def test_a_workload_that_cannot_be_changed_is_refused_with_the_remedy(server, stateful, patch, sentence):
    """Before anything is written."""
    fleet, _ = stateful
    edit(server, "statefulsets/orders", patch)
    before = len(patches(server))
    with pytest.raises(Rejected, match=sentence):
        fleet.driver.start(change("canary", "orders-2"))
    assert len(patches(server)) == before


def test_the_container_is_the_one_that_is_named(server, stateful):
    """Its neighbour keeps its image."""
    fleet, _ = stateful
    sidecar = {"template": {"spec": {"containers": [{"name": "sidecar", "image": "s:1"}]}}}
    notes = {"groupshift.io/container": "member"}
    edit(server, "statefulsets/orders", {"metadata": {"annotations": notes}, "spec": sidecar})
    wait_until(lambda: rolled_out(document(server, "statefulsets/orders")), DEADLINE_S, "rolled out")
    fleet.carry_out(change("canary", "orders-2"))
    containers = document(server, "statefulsets/orders")["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each["image"] for each in containers} == {
        "member": "registry.test/orders:2.0",
        "sidecar": "s:1",
    }


def test_a_canary_waits_until_the_rollout_before_it_is_over(server, stateful):
    """A pod that is kept would fall back to the revision before that edit at its next restart."""
    fleet, node = stateful
    node.keep_broken("orders-2")
    edit(server, "statefulsets/orders", {"spec": {"template": {"metadata": {"labels": {"edit": "1"}}}}})
    before = len(patches(server))
    with pytest.raises(Transient, match=r"still rolling out its last edit .* try again when it is over"):
        fleet.driver.start(change("canary", "orders-2"))
    assert len(patches(server)) == before
    node.heal()
    wait_until(lambda: rolled_out(document(server, "statefulsets/orders")), DEADLINE_S, "rolled out")
    fleet.carry_out(change("canary", "orders-2"))
    assert fleet.kinds() == [MemberKind.AWARE, MemberKind.ZOOKEEPER, MemberKind.ZOOKEEPER]


def test_a_change_is_done_when_the_next_one_is_taken(server, stateful, monkeypatch):
    """All pods are ready before their controller says that the rollout is over; it is slow here."""
    fleet, _ = stateful
    monkeypatch.setattr("k8s.server.TURN_S", 0.4)
    fleet.carry_out(change("all", *fleet.order))
    assert rolled_out(document(server, "statefulsets/orders"))
    undo = back("undo", "orders-2", undoes=("all",), token=2)
    assert fleet.driver.start(undo) == Started(change_id="undo")


def test_a_revision_that_the_history_lost_needs_an_annotation(server, deployments):
    """The rollback is refused with what to add, and works with it."""
    fleet, _ = deployments
    fleet.carry_out(change("canary", "orders-canary/0"))
    for old in server.store.list("replicasets", lambda d: d["metadata"]["name"].startswith("orders-canary")):
        if not old["spec"]["replicas"]:
            server.store.remove("replicasets", old)
    undo = back("undo", "orders-canary/0", undoes=("canary",), token=2)
    with pytest.raises(
        Rejected, match=r"no longer in its history and it has no annotation groupshift\.io/old"
    ):
        fleet.driver.start(undo)
    told = json.dumps({"image": "registry.test/orders:1.0", "env": {"CONSUMER": "zookeeper"}})
    edit(server, "deployments/orders-canary", {"metadata": {"annotations": {"groupshift.io/old": told}}})
    fleet.carry_out(undo)
    assert fleet.kinds() == [MemberKind.ZOOKEEPER] * 3


def test_a_group_without_workloads_is_refused_with_the_label(server, stateful):
    """And one whose name no label can hold."""
    lone = KubernetesFleet(KubernetesApi(settings(server.reached)), lambda _: ())
    with pytest.raises(Rejected, match=r"label groupshift\.io/group=lonely"):
        lone.start(replace(change("c"), group="lonely"))
    with pytest.raises(Rejected, match="cannot be the value of a label"):
        lone.slots("g" * 64)


def test_a_wrong_token_is_refused_and_never_shown(server):
    """401 is the user's to correct; an unreachable server is to be asked again."""
    wrong = KubernetesSettings(namespace=NAMESPACE, server=server.reached.url, token="hush-hush")
    with pytest.raises(Rejected, match="with 401: Unauthorized") as caught:
        KubernetesFleet(KubernetesApi(wrong), lambda _: ()).slots(GROUP)
    assert "hush" not in str(caught.value)
    nowhere = KubernetesSettings(namespace=NAMESPACE, server="http://127.0.0.1:1", timeout_s=2)
    with pytest.raises(Transient, match="did not answer GET"):
        KubernetesFleet(KubernetesApi(nowhere), lambda _: ()).slots(GROUP)
    with pytest.raises(Rejected, match=r"name fleet\.kubernetes\.server or \.kubeconfig"):
        KubernetesApi(KubernetesSettings(kubeconfig="no-such-file")).find("pods", "a=b")


def test_the_settings_open_the_driver(server, stateful, tmp_path, monkeypatch):
    """The composition root takes the one that is named; a wrong name lists those there are."""
    told = {"namespace": NAMESPACE, "server": server.reached.url, "token": server.token}
    sections = {
        "kafka": {"bootstrap_servers": "127.0.0.1:1"},
        "zookeeper": {"hosts": "127.0.0.1:1"},
        "journal": {"url": f"sqlite:///{tmp_path / 'journal.db'}"},
        "evidence": {"root": str(tmp_path)},
        "fleet": {"driver": "kubernetes", "kubernetes": told},
    }
    found, groups = parse(sections).fleet, object()
    assert found.driver == "kubernetes"
    assert isinstance(fleet(found, groups, found.driver), KubernetesFleet)
    with monkeypatch.context() as bare:
        for name in [each for each in sys.modules if each.partition(".")[0] == "kubernetes"]:
            bare.setitem(sys.modules, name, None)
        bare.delitem(sys.modules, "groupshift.adapters.drivers.kubernetes")
        with pytest.raises(Rejected, match=r"pip install 'kafka-groupshift\[kubernetes\]'"):
            fleet(found, groups, found.driver)
    with pytest.raises(Rejected, match="choose one of process, manual, command, kubernetes"):
        fleet(found, groups, "puppet")
