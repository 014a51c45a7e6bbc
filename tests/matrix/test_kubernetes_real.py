"""The driver `kubernetes` against a real API server with its real controllers (`make matrix`).

etcd, kube-apiserver and the workload controllers of Kubernetes are built from Go modules by the main module
beside this file; only the node is played (`k8s.node`): it says that pods run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.drivers.kubernetes import KubernetesApi, KubernetesFleet
from groupshift.errors import Rejected
from groupshift_sandbox.processes import wait_until
from k8s.fleet import kubernetes_fleet, members, settings
from k8s.manifests import NAMESPACE
from k8s.plane import control_plane
from k8s.requests import Server
from support.fleet_suite import *  # noqa: F403 - the suite's tests are this module's tests
from support.fleet_suite import DEADLINE_S, GROUP, Fleet, back, change


@pytest.fixture(scope="module")
def binary() -> Path:
    """The control plane's program, which `make matrix` builds."""
    named = os.environ.get("GROUPSHIFT_CONTROL_PLANE", "")
    if not Path(named).is_file():
        pytest.fail("GROUPSHIFT_CONTROL_PLANE names no control plane: run make matrix, which builds one")
    return Path(named)


@pytest.fixture
def server(binary: Path, tmp_path: Path) -> Iterator[Server]:
    """An empty cluster of this test's own; it is up within two seconds."""
    with control_plane(binary, tmp_path) as up:
        yield up


@pytest.fixture(params=["statefulset", "deployments"])
def fleet(server: Server, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Three old members."""
    with kubernetes_fleet(server, request.param) as (made, _node):
        yield made


RULES = [
    {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["get", "list", "patch"]},
    {"apiGroups": ["apps"], "resources": ["replicasets", "controllerrevisions"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]
"""As docs/reference/fleet-drivers.md lists them."""


def _allow(server: Server) -> None:
    """Give the user ``mover`` the documented role, and no more."""
    path, meta = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}", {"name": "mover"}
    server.ask("POST", f"{path}/roles", {"metadata": meta, "rules": RULES})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "mover"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mover"}
    server.ask("POST", f"{path}/rolebindings", {"metadata": meta, "roleRef": role, "subjects": [user]})


def test_the_documented_role_is_enough_and_without_it_nothing_is_told(fleet: Fleet, server: Server) -> None:
    """There and back as a user with the rules of the docs; the refusal before names no token."""
    login = replace(settings(server), token=f"{server.token}-mover")

    def reopen() -> KubernetesFleet:
        return KubernetesFleet(KubernetesApi(login), lambda group: members(server, group))

    with pytest.raises(Rejected, match=r'403: .*User "mover" cannot list resource') as refused:
        reopen().slots(GROUP)
    assert server.token not in str(refused.value)
    _allow(server)
    least = replace(fleet, reopen=reopen)
    first = least.order[0]
    least.carry_out(change("canary", first))
    least.carry_out(back("undo", first, undoes=("canary",), token=2))


def test_an_ordered_statefulset_keeps_a_broken_pod_until_a_person_deletes_it(server: Server) -> None:
    """Known of Kubernetes: also the rollback waits for it, and the driver names the command that helps."""
    with kubernetes_fleet(server, "statefulset") as (fleet, node):
        node.keep_broken("orders-2")
        canary = change("canary", "orders-2")
        fleet.driver.start(canary)
        wait_until(
            lambda: "CrashLoopBackOff" in fleet.driver.observe(canary).detail, DEADLINE_S, "it is broken"
        )
        undo = back("undo", "orders-2", undoes=("canary",), token=2)
        fleet.driver.start(undo)
        wait_until(
            lambda: "kubectl delete pod orders-2" in fleet.driver.observe(undo).detail,
            DEADLINE_S,
            "it is told",
        )
        assert not fleet.driver.observe(undo).done
        server.ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/orders-2")
        node.heal()
        wait_until(lambda: fleet.driver.observe(undo).done, DEADLINE_S, "the old member is back")
