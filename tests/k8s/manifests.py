"""The workloads of the tests: three old members, as one StatefulSet or as two Deployments."""

from __future__ import annotations

import json
from typing import Any

NAMESPACE = "shop"
KINDS = {
    "aware": {"image": "registry.test/orders:2.0", "env": {"CONSUMER": "migrating"}},
    "plain": {"image": "registry.test/orders:3.0", "env": {"CONSUMER": "kafka", "GROUP_PROTOCOL": "classic"}},
    "native": {"env": {"GROUP_PROTOCOL": "consumer"}},
}


def workload(kind: str, name: str, replicas: int, group: str, **spec: Any) -> dict[str, Any]:
    """A Deployment or StatefulSet as a team would write it (docs/reference/fleet-drivers.md)."""
    container = {
        "name": "member",
        "image": "registry.test/orders:1.0",
        "env": [{"name": "CONSUMER", "value": "zookeeper"}, {"name": "TOPIC", "value": "orders"}],
    }
    annotations = {f"groupshift.io/{kind}": json.dumps(told) for kind, told in KINDS.items()}
    annotations |= {"team": "orders"}
    of_kind = {"serviceName": name} if kind == "StatefulSet" else {"progressDeadlineSeconds": 600}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"groupshift.io/group": group}, "annotations": annotations},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
            **of_kind,
            **spec,
        },
    }


def fleet_of(shape: str, group: str) -> list[dict[str, Any]]:
    """``statefulset``: one of three; ``deployments``: one of two and one of its own for the canary."""
    if shape == "statefulset":
        return [workload("StatefulSet", "orders", 3, group)]
    return [workload("Deployment", "orders", 2, group), workload("Deployment", "orders-canary", 1, group)]
