"""Fleet driver `kubernetes`: Deployments and StatefulSets whose pods are members of the group.

The workloads of a group are those of the namespace with the label ``groupshift.io/group``. A change is one
compare-and-set patch a workload (`groupshift.adapters.drivers.kubernetes_workloads.decide`). An annotation of
the workload remembers it, so any process can resume the change.
docs/reference/fleet-drivers.md says what a team prepares.

Requests go through the official client, but as plain documents: the client's generated models refuse what a
server of another release answers. Paths are those of the published OpenAPI of apps/v1 and core/v1.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client import ApiClient, ApiException, Configuration
from urllib3.exceptions import HTTPError

from groupshift.adapters.drivers.kubernetes_workloads import (
    GROUP,
    Document,
    Workload,
    decide,
    demand_acceptable,
    kind_of,
    labels,
    name_of,
    owned,
    status,
)
from groupshift.domain.addresses import api_server_problem
from groupshift.domain.facts import Slot, SlotState
from groupshift.domain.modes import MemberKind
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.foreign_files import opened
from groupshift.ports.driver import (
    Change,
    ChangeStatus,
    ForPerson,
    Started,
    require_known,
    settled,
)
from groupshift.settings import KubernetesSettings

WORKLOADS = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
"""The kinds whose members can be replaced, and their resource names in apps/v1."""
_TRIES = 5
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class KubernetesFleet:
    """`groupshift.ports.driver.FleetDriver` over the Kubernetes API. ``clients`` tells the consumer and
    client ids that a group knows now; by them pods are mapped to members."""

    def __init__(self, api: KubernetesApi, clients: Callable[[str], Iterable[str]]) -> None:
        self._api, self._clients = api, clients

    def slots(self, group: str) -> tuple[Slot, ...]:
        """The places of the smallest workload first, so that a Deployment of its own can be the canary."""
        return self._slots(self._workloads(group), group)

    def start(self, change: Change) -> Started | ForPerson:
        """Patch every workload that has slots of the change; nothing when any of it has to be refused."""
        if change.slots and change.to is MemberKind.VACANT:
            raise Rejected(
                "the driver kubernetes cannot keep places empty, since autoscalers and deployment tools "
                "write replicas too; nothing was changed: plan the move online, or with the driver manual, "
                f"and scale the workloads of group {change.group} to 0 and back when it asks for it"
            )
        if not (workloads := self._workloads(change.group)):
            raise Rejected(
                f"namespace {self._api.namespace} has no Deployment or StatefulSet with the label "
                f"{GROUP}={change.group}; put it on those whose pods are the members"
            )
        slots = (name for each in workloads for name in each.slots)
        require_known(slots, change, f"the workloads of group {change.group}")
        for each in workloads:
            demand_acceptable(each, change)
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
        status = settled(self._slots(workloads, change.group), change, f"namespace {self._api.namespace}")
        late = [
            each.name
            for each in workloads
            if each.rolling_out and not set(each.slots).isdisjoint(change.slots)
        ]
        if not status.done or not late:
            return status
        detail = f"the controller of StatefulSet {', '.join(late)} has not said yet that its rollout is over"
        return replace(status, done=False, detail=detail)

    def _slots(self, workloads: list[Workload], group: str) -> tuple[Slot, ...]:
        clients = tuple(self._clients(group)) if workloads else ()
        return tuple(slot for each in workloads for slot in slots_of(each, group, clients))

    def _patch(self, workload: Workload, change: Change) -> None:
        """Compare and set; decide anew on what is there when it was changed meanwhile (controllers do)."""
        resource = WORKLOADS[workload.kind]
        for _ in range(_TRIES):
            demand_acceptable(workload, change)
            if (patch := decide(workload, change, self._template)) is None:
                return
            try:
                self._api.patch(resource, workload.name, patch)
            except Conflict:
                if (document := self._api.read(resource, workload.name)) is None:
                    raise Conflict(
                        f"{workload.kind} {workload.name} was removed meanwhile; look and decide again"
                    ) from None
                workload = self._with_pods({**document, "kind": workload.kind})
            else:
                return
        raise Transient(f"{workload.kind} {workload.name} was changed by others {_TRIES} times; try again")

    def _workloads(self, group: str) -> list[Workload]:
        if not _LABEL.fullmatch(group):
            raise Rejected(
                f"group {group!r} cannot be the value of a label: it may have 63 letters, digits and ._-, "
                "with a letter or digit first and last; use the driver command for it"
            )
        workloads = [
            self._with_pods({**document, "kind": kind})
            for kind, resource in WORKLOADS.items()
            for document in self._api.find(resource, f"{GROUP}={group}")
        ]
        return sorted(workloads, key=lambda each: (each.replicas, each.name))

    def _with_pods(self, document: dict[str, Any]) -> Workload:
        match_labels = document["spec"]["selector"].get("matchLabels") or {}
        selector = ",".join(f"{key}={value}" for key, value in sorted(match_labels.items()))
        pods = self._api.find("pods", selector)
        if document["kind"] == "StatefulSet":
            return Workload(document=document, pods=owned(pods, document))
        sets = owned(self._api.find("replicasets", selector), document)
        mine = [pod for each in sets for pod in owned(pods, each)]
        return Workload(document=document, pods=tuple(mine), replica_sets=sets)

    def _template(self, workload: Workload, revision: str) -> Mapping[str, Any] | None:
        """The pod template of a revision; None when the history no longer has it."""
        resource = "controllerrevisions" if workload.stateful else "replicasets"
        if (document := self._api.read(resource, revision) if revision else None) is None:
            return None
        template = dict((document["data"] if workload.stateful else document)["spec"]["template"])
        metadata = dict(template.get("metadata") or {})
        own_labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != "pod-template-hash"}
        return {**template, "metadata": {**metadata, "labels": own_labels}}


_REFUSED, _GONE, _CONFLICT, _TOO_MANY = (400, 401, 403, 405, 415, 422), 404, 409, 429


class KubernetesApi:
    """One namespace of one API server; connects at the first request.

    Every method raises `Transient` when the server does not answer (also 429 and 5xx), `Rejected` when it
    refuses (no login, no permission, an invalid document), each with the server's own sentence."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self.namespace = settings.namespace

    def find(self, resource: str, selector: str) -> list[Document]:
        """The documents of an apps/v1 resource, or of ``pods``, that have these labels, by name."""
        base = "api/v1" if resource == "pods" else "apis/apps/v1"
        path = f"/{base}/namespaces/{self.namespace}/{resource}"
        answer = self._request("GET", path, query=[("labelSelector", selector)]) or {}
        if not isinstance(answer.get("items"), list) or not all(map(_is_named, answer["items"])):
            raise _stranger(path)
        return sorted(answer["items"], key=name_of)

    def read(self, resource: str, name: str) -> Document | None:
        """One document of apps/v1; None when there is none of that name."""
        return self._request("GET", self._path(resource, name))

    def patch(self, resource: str, name: str, change: Mapping[str, Any]) -> Document:
        """Apply a strategic merge patch. Raises `Conflict` when ``metadata.resourceVersion`` in it is no
        longer the document's, or the document is gone."""
        if (answer := self._request("PATCH", self._path(resource, name), body=change)) is None:
            raise Conflict(f"{resource}/{name} is gone")
        return answer

    def _path(self, resource: str, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/{resource}/{name}"

    def _request(
        self, method: str, path: str, *, query: list[tuple[str, str]] | None = None, body: object = None
    ) -> Document | None:
        """The answer; None for 404, there is no such document."""
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/strategic-merge-patch+json"
        try:
            answer: Document = self._client.call_api(
                path,
                method,
                query_params=query or [],
                header_params=headers,
                body=body,
                response_type="object",
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
                _request_timeout=self._settings.timeout_s,
            )
        except ApiException as error:
            if error.status == _GONE:
                return None
            raise _family(method, path, error) from error
        except (HTTPError, OSError) as error:
            raise Transient(
                f"the Kubernetes API did not answer {method} {path} ({error}); try again"
            ) from error
        except (ValueError, RecursionError):
            raise _stranger(path) from None  # words of the library may hold the token
        if not isinstance(answer, dict):
            raise _stranger(path)
        return answer

    @cached_property
    def _client(self) -> ApiClient:
        return ApiClient(_configuration(self._settings))

    def close(self) -> None:
        """Close the connections, if there are any."""
        if client := self.__dict__.pop("_client", None):
            client.close()


def _configuration(settings: KubernetesSettings) -> Configuration:
    """Where the server is and how to log in. Raises `Rejected` when that cannot be read."""
    made = Configuration()
    try:
        if settings.server:
            made.host = settings.server.rstrip("/")
            made.ssl_ca_cert = settings.ca or None
            if settings.token:
                made.api_key = {"authorization": f"Bearer {settings.token.strip()}"}
        elif settings.kubeconfig:
            _read_kubeconfig(settings, made)
        else:
            config.load_incluster_config(client_configuration=made)
        for path in filter(None, (made.ssl_ca_cert, made.cert_file, made.key_file)):
            opened(path).close()  # a named pipe would be waited for at the first request
    except (config.ConfigException, OSError) as error:
        raise Rejected(
            f"the Kubernetes API cannot be reached ({error}); name fleet.kubernetes.server or .kubeconfig"
        ) from error
    if wrong := api_server_problem(made.host, "the Kubernetes API server"):
        raise Rejected(f"{wrong}; correct fleet.kubernetes.server, or the server in the kubeconfig")
    token = str(made.api_key.get("authorization", ""))
    if not (token.isascii() and token.isprintable()):
        raise Rejected(
            "the token of the Kubernetes API holds a character that no token has (not shown): write it on "
            "one line, into fleet.kubernetes.token or the kubeconfig"
        )
    made.retries = False
    made.debug = False
    return made


def _read_kubeconfig(settings: KubernetesSettings, made: Configuration) -> None:
    """Raises what `_configuration` catches, and `Rejected` without the parser's words, which may hold a
    token."""
    try:
        for path in settings.kubeconfig.split(os.pathsep):
            with suppress(FileNotFoundError):
                opened(Path(path).expanduser()).close()
        config.load_kube_config(settings.kubeconfig, settings.context or None, made, persist_config=False)
        made.host = made.host.rstrip("/")
    except (config.ConfigException, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library meets in a file of another shape
        raise Rejected(
            f"fleet.kubernetes.kubeconfig {settings.kubeconfig} is none ({type(error).__name__}): correct it"
        ) from None


def _is_named(document: object) -> bool:
    """Whether this is a document of the API."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return isinstance(metadata, dict) and "name" in metadata


def _stranger(path: str) -> Rejected:
    return Rejected(
        f"what answers at {path} is no Kubernetes API: something stands before it, such as a page to log in; "
        "correct fleet.kubernetes.server, or the server in the kubeconfig"
    )


def _family(method: str, path: str, error: ApiException) -> Exception:
    try:  # the server's sentence; never the headers, which the exception's own text would show
        said = str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        said = str(error.reason)
    if error.status == _CONFLICT:
        return Conflict(f"{path} was changed meanwhile: {said}")
    sentence = f"the Kubernetes API refused {method} {path} with {error.status}: {said}"
    if error.status in _REFUSED:
        return Rejected(f"{sentence}; correct the login, the role or the workload")
    return Transient(f"{sentence}; run the same command again")


_HASH = {"StatefulSet": "controller-revision-hash", "Deployment": "pod-template-hash"}
_LONGEST_HOST_NAME = 63


def slots_of(workload: Workload, group: str, clients: Iterable[str]) -> Iterator[Slot]:
    """The workload's slots in the order of replacement; ``clients`` are the consumer and client ids under
    which the group knows its members now."""
    known, pods = tuple(clients), _placed(workload)
    for name in workload.slots:
        change, pod = workload.memory.last(name), pods.get(name)
        wanted = change.to if change else workload.template_kind
        state = _state(workload, name, pod)
        yield Slot(
            name=name,
            kind=wanted if pod is None else kind_of(pod),
            state=state,
            member_id=None if pod is None else member_of(pod, group, known),
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
    pod_hash = labels(pod).get(_HASH[workload.kind], "")
    return bool(pod_hash) and revision in {pod_hash, f"{workload.name}-{pod_hash}"}


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
    states = (each.get("state") or {} for each in status(pod or {}).get("containerStatuses") or ())
    words = (each.get("waiting") or {} for each in states)
    waiting = [": ".join(str(each[key]) for key in ("reason", "message") if each.get(key)) for each in words]
    said = [each for each in (*waiting, *stuck) if each]
    ordered = workload.document["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    if pod is not None and any(waiting) and workload.stateful and ordered:
        name = name_of(pod)  # an ordered StatefulSet waits for it to become ready before it replaces it
        if not _runs(workload, pod, workload.revision_of(name)):
            said.append(f"a StatefulSet keeps a broken pod: remove it with kubectl delete pod {name}")
    return "; ".join(said)


def member_of(pod: Document, group: str, clients: tuple[str, ...]) -> str | None:
    """The id under which the group knows this pod's member: made of the pod's host name, as the old consumer
    and ours do it (``<group>_<host>-<epoch ms>-<8 hex>``), or set from it (``consumer.id`` or ``client.id``
    is the pod's name). None when there is no such member, or more than one."""
    host = str(pod.get("spec", {}).get("hostname") or name_of(pod))[:_LONGEST_HOST_NAME]
    names = "|".join(re.escape(each) for each in sorted({host, name_of(pod)}))
    pattern = re.compile(rf"(?:{re.escape(group)}_)?(?:{names})(?:-\d{{13}}-[0-9a-f]{{1,8}})?")
    matching = [each for each in clients if pattern.fullmatch(each)]
    return matching[0] if len(matching) == 1 else None
