"""The workload controllers of the fake API server: one turn looks at everything once and takes one step each.

They do what a driver can see of the real ones: ReplicaSets and ControllerRevisions as the history, a rollout
within surge and unavailability, a StatefulSet from its highest ordinal down to its partition, one pod at a
time. `tests/matrix` holds the real ones against the same tests.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from datetime import UTC, datetime
from typing import Any

from k8s.store import Document, Store, now

REVISION = "deployment.kubernetes.io/revision"


def turn(store: Store) -> None:
    """One step of every workload."""
    with store.lock:
        for document in store.list("deployments"):
            _deployment(store, document)
        for document in store.list("replicasets"):
            _replica_set(store, document)
        for document in store.list("statefulsets"):
            _stateful_set(store, document)


def ready(pod: Document) -> bool:
    """Ready and not on its way out."""
    told = pod.get("status", {}).get("conditions", ())
    return any((c["type"], c["status"]) == ("Ready", "True") for c in told) and not _ending(pod)


def _ending(pod: Document) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _hash(template: Document) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def _meta(owner: Document, name: str, labels: dict[str, str], **more: Any) -> Document:
    return {"name": name, "namespace": owner["metadata"]["namespace"], "labels": labels, **more}


def _pod(store: Store, owner: Document, template: Document, name: str, labels: dict[str, str]) -> None:
    told = template.get("metadata", {})
    meta = _meta(owner, name, {**told.get("labels", {}), **labels})
    meta |= {"annotations": told["annotations"]} if told.get("annotations") else {}
    hostname = {"hostname": name} if owner["kind"] == "StatefulSet" else {}
    store.create(
        "pods",
        {"metadata": meta, "spec": {**template["spec"], **hostname}, "status": {"phase": "Pending"}},
        owner,
    )


def _set_status(store: Store, resource: str, document: Document, status: Document) -> None:
    store.write(resource, {**document, "status": status})


def _replica_set(store: Store, document: Document) -> None:
    wanted = document["spec"]["replicas"]
    pods = [pod for pod in store.owned("pods", document) if not _ending(pod)]
    for _ in range(wanted - len(pods)):
        name = f"{document['metadata']['name']}-{secrets.token_hex(3)[:5]}"
        _pod(store, document, document["spec"]["template"], name, {})
    for pod in sorted(pods, key=ready)[: max(0, len(pods) - wanted)]:
        store.remove("pods", pod)
    status = {
        "replicas": len(pods),
        "fullyLabeledReplicas": len(pods),
        "readyReplicas": sum(ready(pod) for pod in pods),
        "availableReplicas": sum(ready(pod) for pod in pods),
        "observedGeneration": document["metadata"]["generation"],
    }
    _set_status(store, "replicasets", document, status)


def _deployment(store: Store, document: Document) -> None:
    sets = store.owned("replicasets", document)
    new = _newest(store, document, sets)
    revision = new["metadata"]["annotations"][REVISION]
    notes = document["metadata"].setdefault("annotations", {})
    if notes.get(REVISION) != revision:
        notes[REVISION] = revision
        document = store.write("deployments", document)
    old = [each for each in sets if each["metadata"]["uid"] != new["metadata"]["uid"]]
    _scale(store, document["spec"]["replicas"], new, old)
    _deployment_status(store, document, new, old)


def _newest(store: Store, document: Document, sets: list[Document]) -> Document:
    """The ReplicaSet of the present template: a former one becomes the newest revision again."""
    template, last = document["spec"]["template"], 0
    digest = _hash(template)
    last = max((int(each["metadata"]["annotations"][REVISION]) for each in sets), default=0)
    name = f"{document['metadata']['name']}-{digest}"
    found = next((each for each in sets if each["metadata"]["name"] == name), None)
    if found is not None:
        if int(found["metadata"]["annotations"][REVISION]) < last:
            found["metadata"]["annotations"][REVISION] = str(last + 1)
            found = store.write("replicasets", found)
        return found
    label = {"pod-template-hash": digest}
    labels = {**template["metadata"]["labels"], **label}
    selector = {"matchLabels": {**document["spec"]["selector"]["matchLabels"], **label}}
    copied = {**template, "metadata": {**template["metadata"], "labels": labels}}
    meta = _meta(document, name, labels, annotations={REVISION: str(last + 1)})
    spec = {"replicas": 0, "selector": selector, "template": copied}
    return store.create("replicasets", {"metadata": meta, "spec": spec, "status": {"replicas": 0}}, document)


def _scale(store: Store, wanted: int, new: Document, old: list[Document]) -> None:
    """One step: up to a quarter more pods than wanted, at most a quarter of them unavailable; broken old
    pods go first."""
    surge, unavailable = -(-wanted // 4), wanted // 4
    total = new["spec"]["replicas"] + sum(each["spec"]["replicas"] for each in old)
    grown = min(wanted, new["spec"]["replicas"] + max(0, wanted + surge - total))
    if grown != new["spec"]["replicas"]:
        new["spec"]["replicas"] = grown
        store.write("replicasets", new)
    able = sum(ready(pod) for each in (new, *old) for pod in store.owned("pods", each))
    spare = able - (wanted - unavailable)
    for each in old:
        broken = each["spec"]["replicas"] - sum(ready(pod) for pod in store.owned("pods", each))
        fewer = min(each["spec"]["replicas"], broken + max(0, spare))
        if fewer:
            spare -= fewer - broken
            each["spec"]["replicas"] -= fewer
            store.write("replicasets", each)


def _deployment_status(store: Store, document: Document, new: Document, old: list[Document]) -> None:
    pods = {each["metadata"]["name"]: store.owned("pods", each) for each in (new, *old)}
    mine = [pod for pod in pods[new["metadata"]["name"]] if not _ending(pod)]
    every = [pod for each in pods.values() for pod in each if not _ending(pod)]
    wanted, able = document["spec"]["replicas"], sum(ready(pod) for pod in every)
    complete = len(every) == len(mine) == wanted == able
    before = document.get("status", {})
    status = {
        "observedGeneration": document["metadata"]["generation"],
        "replicas": len(every),
        "updatedReplicas": len(mine),
        "readyReplicas": able,
        "availableReplicas": able,
        "unavailableReplicas": max(0, wanted - able),
    }
    progressed = any(before.get(key) != value for key, value in status.items())
    _set_status(
        store,
        "deployments",
        document,
        {**status, "conditions": [_progress(document, progressed=progressed, complete=complete)]},
    )


def _progress(document: Document, *, progressed: bool, complete: bool) -> Document:
    """The condition Progressing, with the time of the last progress."""
    before = next(iter(document.get("status", {}).get("conditions", ())), None)
    since = now() if before is None or progressed else before["lastUpdateTime"]
    waited = (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()
    late = not complete and waited > document["spec"]["progressDeadlineSeconds"]
    reason = "ReplicaSetUpdated"
    if complete or late:
        reason = "ProgressDeadlineExceeded" if late else "NewReplicaSetAvailable"
    return {
        "type": "Progressing",
        "status": "False" if late else "True",
        "reason": reason,
        "message": f"Deployment {document['metadata']['name']}: {reason}",
        "lastUpdateTime": since,
        "lastTransitionTime": since,
    }


def _stateful_set(store: Store, document: Document) -> None:
    update = _revision(store, document)
    before = document.get("status", {})
    current = before.get("currentRevision") or update
    partition = (document["spec"]["updateStrategy"].get("rollingUpdate") or {}).get("partition", 0)
    pods = {pod["metadata"]["name"]: pod for pod in store.owned("pods", document)}
    names = [f"{document['metadata']['name']}-{n}" for n in range(document["spec"]["replicas"])]
    wanted = {name: update if number >= partition else current for number, name in enumerate(names)}
    _step(store, document, pods, wanted)
    updated = [pod for pod in pods.values() if _of(pod) == update and not _ending(pod)]
    able = sum(ready(pod) for pod in pods.values())
    if len(updated) == len(names) == able:
        current = update
    status = {
        "observedGeneration": document["metadata"]["generation"],
        "replicas": len(pods),
        "readyReplicas": able,
        "availableReplicas": able,
        "updatedReplicas": len(updated),
        "currentReplicas": sum(_of(pod) == current for pod in pods.values()),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": 0,
    }
    _set_status(store, "statefulsets", document, status)


def _of(pod: Document) -> str:
    return str(pod["metadata"]["labels"]["controller-revision-hash"])


def _revision(store: Store, document: Document) -> str:
    """The name of the ControllerRevision of the present template: a former one becomes the newest again."""
    kept = store.owned("controllerrevisions", document)
    template = document["spec"]["template"]
    name = f"{document['metadata']['name']}-{_hash(template)}"
    last = max((each["revision"] for each in kept), default=0)
    found = next((each for each in kept if each["metadata"]["name"] == name), None)
    if found is None:
        data = {"spec": {"template": {**template, "$patch": "replace"}}}
        meta = _meta(document, name, template["metadata"]["labels"])
        store.create("controllerrevisions", {"metadata": meta, "data": data, "revision": last + 1}, document)
    elif found["revision"] < last:
        store.write("controllerrevisions", {**found, "revision": last + 1})
    return name


def _step(store: Store, document: Document, pods: dict[str, Document], wanted: dict[str, str]) -> None:
    """Fill the lowest empty place, else replace the highest outdated pod; wait for whatever is not ready."""
    ordered = document["spec"]["podManagementPolicy"] == "OrderedReady"
    for number, (name, revision) in enumerate(wanted.items()):
        if name not in pods:
            _place(store, document, name, number, revision)
        if ordered and (name not in pods or not ready(pods[name])):
            return
    for name, revision in reversed(wanted.items()):
        pod = pods.get(name)
        if pod is None or _ending(pod):
            return
        if _of(pod) != revision:
            store.remove("pods", pod)
            return
        if not ready(pod):
            return


def _place(store: Store, document: Document, name: str, number: int, revision: str) -> None:
    kept = store.get("controllerrevisions", document["metadata"]["namespace"], revision)
    if kept is None:
        raise LookupError(f"revision {revision} of {document['metadata']['name']} is not in its history")
    template = {key: value for key, value in kept["data"]["spec"]["template"].items() if key != "$patch"}
    labels = {
        "controller-revision-hash": revision,
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(number),
    }
    _pod(store, document, template, name, labels)
