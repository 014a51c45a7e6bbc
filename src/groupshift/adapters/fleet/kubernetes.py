"""Fleet driver `kubernetes`: Deployments and StatefulSets whose pods are members of the group.

The workloads of a group are those of the namespace with the label ``groupshift.io/group``. A change is one
compare-and-set patch a workload (`rollout`), remembered in an annotation of the workload itself, so any
process can go on where another one stopped. docs/fleet-drivers.md says what a team prepares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from groupshift.adapters.fleet.kubernetes_api import WORKLOADS, KubernetesApi
from groupshift.adapters.fleet.pods import slots_of
from groupshift.adapters.fleet.rollout import decide, demand_newest, demand_same
from groupshift.adapters.fleet.workloads import GROUP, Workload, owned
from groupshift.domain.modes import MemberKind
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.driver import Change, ChangeStatus, Pending, Slot, Started, settled

_TRIES = 5
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class KubernetesFleet:
    """`groupshift.ports.driver.FleetDriver` over the Kubernetes API. ``clients`` tells the consumer and client
    ids that a group knows now; by them pods are mapped to members."""

    def __init__(self, api: KubernetesApi, clients: Callable[[str], Iterable[str]]) -> None:
        self._api, self._clients = api, clients

    def slots(self, group: str) -> tuple[Slot, ...]:
        """The places of the smallest workload first, so that a Deployment of its own can be the canary."""
        return self._slots(self._workloads(group), group)

    def start(self, change: Change) -> Started | Pending:
        """Patch every workload that has slots of the change; nothing when any of it has to be refused."""
        if change.slots and change.to is MemberKind.VACANT:
            raise Rejected(
                "the driver kubernetes cannot keep places empty, since autoscalers and deployment tools "
                "write replicas too; nothing was changed: plan the move online, or with the driver manual, "
                f"and scale the workloads of group {change.group} to 0 and back when it asks for it"
            )
        workloads = self._workloads(change.group)
        self._demand_known(change, workloads)
        for each in workloads:
            demand_newest(each, change)
            demand_same(each, change)
        concerned = [each for each in workloads if not change.slots or set(each.slots) & set(change.slots)]
        for each in concerned:
            decide(each, change, self._template)
        for each in concerned:
            self._patch(each, change)
        return Started(change_id=change.change_id)

    def took_up(self, change: Change) -> bool:
        """Whether any workload remembers the change: one that reached some of several is gone on with."""
        return any(each.memory.find(change.change_id) for each in self._workloads(change.group))

    def observe(self, change: Change) -> ChangeStatus:
        """Done when every slot of the change runs its kind, in a pod of the wanted revision that is ready,
        and the controller of a StatefulSet has said so if that is all of it: before, no change is taken."""
        workloads = self._workloads(change.group)
        found = settled(self._slots(workloads, change.group), change, f"namespace {self._api.namespace}")
        late = [
            each.name
            for each in workloads
            if each.rolling_out and not set(each.slots).isdisjoint(change.slots)
        ]
        if not found.done or not late:
            return found
        detail = f"the controller of StatefulSet {', '.join(late)} has not said yet that its rollout is over"
        return replace(found, done=False, detail=detail)

    def _slots(self, workloads: list[Workload], group: str) -> tuple[Slot, ...]:
        clients = tuple(self._clients(group)) if workloads else ()
        return tuple(slot for each in workloads for slot in slots_of(each, group, clients))

    def _patch(self, workload: Workload, change: Change) -> None:
        """Compare and set; decide anew on what is there when it was changed meanwhile (controllers do)."""
        resource = WORKLOADS[workload.kind]
        for _ in range(_TRIES):
            demand_newest(workload, change)
            patch = decide(workload, change, self._template)
            if patch is None:
                return
            try:
                self._api.patch(resource, workload.name, patch)
            except Conflict:
                workload = self._reread(workload)
            else:
                return
        raise Transient(f"{workload.kind} {workload.name} was changed by others {_TRIES} times; try again")

    def _reread(self, workload: Workload) -> Workload:
        found = self._api.read(WORKLOADS[workload.kind], workload.name)
        if found is None:
            raise Conflict(f"{workload.kind} {workload.name} was removed meanwhile; look and decide again")
        return self._with_pods({**found, "kind": workload.kind})

    def _demand_known(self, change: Change, workloads: list[Workload]) -> None:
        if not workloads:
            raise Rejected(
                f"namespace {self._api.namespace} has no Deployment or StatefulSet with the label "
                f"{GROUP}={change.group}; put it on those whose pods are the members"
            )
        known = {name for each in workloads for name in each.slots}
        unknown = sorted(set(change.slots) - known)
        if unknown:
            raise Rejected(
                f"slot {unknown[0]!r} is unknown; group {change.group} has {', '.join(sorted(known))}"
            )

    def _workloads(self, group: str) -> list[Workload]:
        if not _LABEL.fullmatch(group):
            raise Rejected(
                f"group {group!r} cannot be the value of a label: it may have 63 letters, digits and ._-, "
                "with a letter or digit first and last; use the driver command for it"
            )
        found = [
            self._with_pods({**document, "kind": kind})
            for kind, resource in WORKLOADS.items()
            for document in self._api.find(resource, f"{GROUP}={group}")
        ]
        return sorted(found, key=lambda each: (each.replicas, each.name))

    def _with_pods(self, document: dict[str, Any]) -> Workload:
        selector = _selector(document)
        pods = self._api.find("pods", selector)
        if document["kind"] == "StatefulSet":
            return Workload(document=document, pods=owned(pods, document))
        sets = owned(self._api.find("replicasets", selector), document)
        mine = [pod for each in sets for pod in owned(pods, each)]
        return Workload(document=document, pods=tuple(mine), replica_sets=sets)

    def _template(self, workload: Workload, revision: str) -> Mapping[str, Any] | None:
        """The pod template of a revision; None when the history no longer has it."""
        resource = "controllerrevisions" if workload.stateful else "replicasets"
        found = self._api.read(resource, revision) if revision else None
        if found is None:
            return None
        template = dict((found["data"] if workload.stateful else found)["spec"]["template"])
        metadata = dict(template.get("metadata") or {})
        told = {k: v for k, v in (metadata.get("labels") or {}).items() if k != "pod-template-hash"}
        return {**template, "metadata": {**metadata, "labels": told}}


def _selector(document: Mapping[str, Any]) -> str:
    """The label selector of a workload's pods as a query takes it (its equalities; `owned` does the rest)."""
    told = document["spec"]["selector"].get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(told.items()))
