"""Who is in a workload's slots: pods, whether they run, and which member of the group each one is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from groupshift.adapters.fleet.workloads import Document, Workload, kind_of, labels, name_of, status
from groupshift.ports.driver import Slot, SlotState

_HASH = {"StatefulSet": "controller-revision-hash", "Deployment": "pod-template-hash"}
_LONGEST_HOST_NAME = 63


def slots_of(workload: Workload, group: str, clients: Iterable[str]) -> tuple[Slot, ...]:
    """The workload's slots in the order of replacement; ``clients`` are the consumer and client ids under
    which the group knows its members now."""
    known, pods = tuple(clients), _placed(workload)
    return tuple(_slot(workload, name, pods.get(name), (group, known)) for name in workload.slots)


def _slot(workload: Workload, name: str, pod: Document | None, members: tuple[str, tuple[str, ...]]) -> Slot:
    change = workload.memory.last(name)
    wanted = change.to if change else workload.template_kind
    state = _state(workload, name, pod)
    return Slot(
        name=name,
        kind=wanted if pod is None else kind_of(pod),
        state=state,
        member_id=None if pod is None else member_of(pod, *members),
        change_id=change.change_id if change else None,
        trouble="" if state is SlotState.RUNNING else _trouble(workload, pod),
    )


def _placed(workload: Workload) -> dict[str, Document]:
    """The pod of each slot. The places of a Deployment are alike: its pods fill them by revision (the wanted
    one last), readiness, age and name, so that a place shows an old pod as long as there is one."""
    if workload.stateful:
        return {name_of(pod): pod for pod in workload.pods}
    wanted = workload.revision_of("")

    def order(pod: Document) -> tuple[bool, bool, str, str]:
        created = str(pod["metadata"].get("creationTimestamp", ""))
        return _runs(workload, pod, wanted), not is_ready(pod), created, name_of(pod)

    return dict(zip(workload.slots, sorted(workload.pods, key=order), strict=False))


def _state(workload: Workload, slot: str, pod: Document | None) -> SlotState:
    settled = workload.observed and pod is not None and _runs(workload, pod, workload.revision_of(slot))
    if pod is not None and settled and is_ready(pod):
        return SlotState.RUNNING
    return SlotState.DOWN if settled and _trouble(workload, pod) else SlotState.CHANGING


def _runs(workload: Workload, pod: Document, revision: str) -> bool:
    """Whether a pod is of this revision."""
    told = labels(pod).get(_HASH[workload.kind], "")
    return bool(told) and revision in {told, f"{workload.name}-{told}"}


def is_ready(pod: Document) -> bool:
    """Ready and not on its way out."""
    conditions = status(pod).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _trouble(workload: Workload, pod: Document | None) -> str:
    """Why a slot does not run, as Kubernetes tells it; empty when nothing is known."""
    stuck = [
        str(each.get("message", each.get("reason", "")))
        for each in status(workload.document).get("conditions") or ()
        if (each["type"], each["status"]) in {("Progressing", "False"), ("ReplicaFailure", "True")}
    ]
    waiting = [_waits(each) for each in status(pod or {}).get("containerStatuses") or ()]
    said = [each for each in (*waiting, *stuck) if each]
    if pod is not None and any(waiting) and _stuck_for_good(workload, pod):
        name = name_of(pod)
        said.append(f"a StatefulSet keeps a broken pod: remove it with kubectl delete pod {name}")
    return "; ".join(said)


def _waits(container: Document) -> str:
    told = (container.get("state") or {}).get("waiting") or {}
    return ": ".join(str(told[key]) for key in ("reason", "message") if told.get(key))


def _stuck_for_good(workload: Workload, pod: Document) -> bool:
    """An ordered StatefulSet waits for a broken pod to become ready before it replaces it."""
    ordered = workload.document["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    return workload.stateful and ordered and not _runs(workload, pod, workload.revision_of(name_of(pod)))


def member_of(pod: Document, group: str, clients: tuple[str, ...]) -> str | None:
    """The id under which the group knows this pod's member: made of the pod's host name, as the old consumer
    and ours do it (``<group>_<host>-<epoch ms>-<8 hex>``), or set from it (``consumer.id`` or ``client.id``
    is the pod's name). None when there is no such member, or more than one."""
    host = str(pod.get("spec", {}).get("hostname") or name_of(pod))[:_LONGEST_HOST_NAME]
    names = "|".join(re.escape(each) for each in sorted({host, name_of(pod)}))
    pattern = re.compile(rf"(?:{re.escape(group)}_)?(?:{names})(?:-\d{{13}}-[0-9a-f]{{1,8}})?")
    found = [each for each in clients if pattern.fullmatch(each)]
    return found[0] if len(found) == 1 else None
