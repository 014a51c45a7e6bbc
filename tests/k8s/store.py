"""The documents of the fake API server: versions, generations, labels and owners as Kubernetes keeps them."""

from __future__ import annotations

import copy
import json
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

Document = dict[str, Any]
KINDS = {
    "deployments": ("apps/v1", "Deployment"),
    "statefulsets": ("apps/v1", "StatefulSet"),
    "replicasets": ("apps/v1", "ReplicaSet"),
    "controllerrevisions": ("apps/v1", "ControllerRevision"),
    "pods": ("v1", "Pod"),
    "namespaces": ("v1", "Namespace"),
}
_DEFAULTS: dict[str, Document] = {
    "deployments": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    },
    "statefulsets": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    },
}


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Store:
    """Documents by resource, namespace and name; ``lock`` is held by whoever reads and writes several."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._version = 1000
        self._documents: dict[tuple[str, str, str], Document] = {}

    def get(self, resource: str, namespace: str, name: str) -> Document | None:
        """A copy of one document."""
        with self.lock:
            return copy.deepcopy(self._documents.get((resource, namespace, name)))

    def list(self, resource: str, fits: Callable[[Document], bool] = lambda _: True) -> list[Document]:
        """Copies of those that fit, by namespace and name."""
        with self.lock:
            found = [d for (r, _, _), d in sorted(self._documents.items()) if r == resource and fits(d)]
            return copy.deepcopy(found)

    def owned(self, resource: str, owner: Document) -> list[Document]:
        """Those that this owner controls."""
        uid = owner["metadata"]["uid"]
        return self.list(
            resource, lambda d: any(ref["uid"] == uid for ref in d["metadata"].get("ownerReferences", ()))
        )

    def create(self, resource: str, document: Document, owner: Document | None = None) -> Document:
        """A new document with uid, version and defaults."""
        version, kind = KINDS[resource]
        made = copy.deepcopy({**document, "apiVersion": version, "kind": kind})
        made["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
        if owner is not None:
            meta = owner["metadata"]
            ref = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"]}
            made["metadata"]["ownerReferences"] = [{**ref, "uid": meta["uid"], "controller": True}]
        if resource in {*_DEFAULTS, "replicasets"}:
            made["metadata"]["generation"] = 1
            made["spec"] = {**copy.deepcopy(_DEFAULTS.get(resource, {})), **made["spec"]}
        with self.lock:
            return self._put(resource, made)

    def write(self, resource: str, document: Document) -> Document:
        """The next version of a document, and the next generation when its specification is another; the
        same version when nothing is."""
        meta = document["metadata"]
        with self.lock:
            before = self._documents[resource, meta.get("namespace", ""), meta["name"]]
            if before == document:
                return copy.deepcopy(before)
            made = copy.deepcopy(document)
            if "generation" in meta and json.dumps(before["spec"], sort_keys=True) != json.dumps(
                made["spec"], sort_keys=True
            ):
                made["metadata"]["generation"] = before["metadata"]["generation"] + 1
            return self._put(resource, made)

    def remove(self, resource: str, document: Document, *, at_once: bool = False) -> None:
        """Delete: a pod on a node is asked to end first, unless ``at_once``."""
        with self.lock:
            key = (resource, document["metadata"].get("namespace", ""), document["metadata"]["name"])
            found = self._documents.get(key)
            if found is None or found["metadata"]["uid"] != document["metadata"]["uid"]:
                return
            if resource == "pods" and found["spec"].get("nodeName") and not at_once:
                if "deletionTimestamp" not in found["metadata"]:
                    found["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 30}
                    self._put(resource, found)
                return
            del self._documents[key]

    def _put(self, resource: str, document: Document) -> Document:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        meta = document["metadata"]
        self._documents[resource, meta.get("namespace", ""), meta["name"]] = document
        return copy.deepcopy(document)
