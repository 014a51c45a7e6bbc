"""A fleet of three members on a Kubernetes API server, fake or real, for the suite of the fleet drivers."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

from groupshift.adapters.drivers.kubernetes import KubernetesApi, KubernetesFleet
from groupshift.domain.facts import SlotState
from groupshift.settings import KubernetesSettings
from groupshift_sandbox.processes import wait_until
from k8s.manifests import NAMESPACE, fleet_of
from k8s.node import Node
from k8s.requests import Server
from support.fleet_suite import DEADLINE_S, GROUP, Fleet

RESOURCES = {"Deployment": "deployments", "StatefulSet": "statefulsets"}


def settings(server: Server, namespace: str = NAMESPACE) -> KubernetesSettings:
    """How groupshift reaches this server."""
    return KubernetesSettings(namespace=namespace, server=server.url, token=server.token, ca=server.ca)


def members(server: Server, group: str, namespace: str = NAMESPACE) -> tuple[str, ...]:
    """The ids that the members in these pods register under: the group, the pod's host name, when it was
    started, and something random (here: made of the pod's uid)."""
    pods = server.ask("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return tuple(
        f"{group}_{pod['metadata']['name']}-1763750000000-"
        + hashlib.sha256(pod["metadata"]["uid"].encode()).hexdigest()[:8]
        for pod in pods
    )


@contextlib.contextmanager
def kubernetes_fleet(server: Server, shape: str) -> Iterator[tuple[Fleet, Node]]:
    """The fleet once its three old members run."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    server.ask("POST", "/api/v1/namespaces", namespace)
    for document in fleet_of(shape, GROUP):
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{RESOURCES[document['kind']]}"
        server.ask("POST", path, document)
    node = Node(server, NAMESPACE)

    def reopen() -> KubernetesFleet:
        return KubernetesFleet(KubernetesApi(settings(server)), lambda group: members(server, group))

    def runs() -> bool:
        slots = reopen().slots(GROUP)
        return len(slots) == 3 and all(slot.state is SlotState.RUNNING for slot in slots)

    try:
        wait_until(runs, DEADLINE_S, "three pods run", every_s=0.1)
        yield (
            Fleet(
                reopen=reopen,
                hold=lambda slot: _hold(node, slot),
                release=lambda _slot: node.heal(),
                vacates=False,
            ),
            node,
        )
    finally:
        node.close()


def _hold(node: Node, slot: str) -> None:
    """New pods of a place never get ready; in a StatefulSet that is the slot, else the whole Deployment."""
    name, _, number = slot.partition("/")
    node.keep_broken(rf"{name}-[a-z0-9]{{8,10}}-[a-z0-9]{{5}}" if number else name)
