"""Kubernetes workloads as data: slots, pods, earlier changes, and the patch that makes the next change.

Pure: documents (of apps/v1 and core/v1) come in, values go out. What the driver has to remember is kept in
one annotation of the workload, `CHANGES`, and written in the same patch as the change itself.

`decide` gives one strategic merge patch, or the reason why not. A StatefulSet replaces from its highest
ordinal down: the patch moves ``rollingUpdate.partition``, so a canary of n members is its last n pods. A
Deployment has no such place to stop, so it is changed as a whole. The patch carries the resource version it
was decided on (compare and set), the new template and the driver's memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from groupshift.domain.foreign_json import load_json
from groupshift.domain.modes import MemberKind
from groupshift.domain.plain import built
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.driver import Change

GROUP = "groupshift.io/group"
"""Label of a workload: the consumer group its pods are members of."""
KIND = "groupshift.io/kind"
"""Label of a pod (template): the kind of member it runs; absent means old."""
SPEC = "groupshift.io/{kind}"
"""Annotation of a workload: what to run for a kind, as JSON ``{"image": ..., "env": {name: value}}``."""
CONTAINER = "groupshift.io/container"
"""Annotation of a workload: the container that is the member, where a pod has several."""
CHANGES = "groupshift.io/changes"
"""Annotation of a workload, written by the driver: accepted changes and the highest token of each fence."""
REVISION = "deployment.kubernetes.io/revision"
"""Annotation that the Deployment controller puts on a Deployment and its ReplicaSets."""
_KEPT = 16
_RUN = {kind.value: kind for kind in MemberKind if kind is not MemberKind.VACANT}

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A change that was accepted, with all its slots, also those of other workloads. ``before`` is the
    revision (name of a ControllerRevision or a ReplicaSet) that its slots of this workload ran until then."""

    change_id: str
    to: MemberKind
    slots: tuple[str, ...]
    before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one workload remembers: the latest changes, oldest first, and tokens by fence."""

    changes: tuple[Accepted, ...]
    fences: Mapping[str, int]

    def find(self, change_id: str) -> Accepted | None:
        """The change of that id, if it was accepted."""
        return next((each for each in self.changes if each.change_id == change_id), None)

    def last(self, slot: str) -> Accepted | None:
        """The latest change of a slot."""
        return next((each for each in reversed(self.changes) if slot in each.slots), None)

    def having(self, change: Change, accepted: Accepted | None) -> Memory:
        """With one more change (None: only its token)."""
        fences = {**self.fences, change.fence: change.token} if change.fence else self.fences
        more = (accepted,) if accepted else ()
        return Memory(changes=(*self.changes, *more)[-_KEPT:], fences=fences)

    @classmethod
    def of(cls, workload: Document) -> Memory:
        """From a workload's annotation. Raises `Rejected` when somebody else wrote it."""
        text = notes_on(workload).get(CHANGES)
        if text is None:
            return cls(changes=(), fences={})
        try:
            memory: Memory = built(cls, load_json(text, "it"))
        except (Rejected, TypeError) as error:
            raise Rejected(
                f"annotation {CHANGES} of {title(workload)} is not groupshift's ({error!r}); "
                "remove it once no run of the group is open"
            ) from error
        return memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Deployment or StatefulSet as read, with its pods and (Deployment only) its ReplicaSets."""

    document: Document
    pods: tuple[Document, ...]
    replica_sets: tuple[Document, ...] = ()

    @property
    def kind(self) -> str:
        """``Deployment`` or ``StatefulSet``."""
        return str(self.document["kind"])

    @property
    def name(self) -> str:
        """Its name in the namespace."""
        return str(self.document["metadata"]["name"])

    @property
    def stateful(self) -> bool:
        """True for a StatefulSet."""
        return self.kind == "StatefulSet"

    @property
    def replicas(self) -> int:
        """How many pods are wanted."""
        return int(self.document["spec"].get("replicas", 1))

    @property
    def memory(self) -> Memory:
        """What its annotation remembers."""
        return Memory.of(self.document)

    @property
    def slots(self) -> tuple[str, ...]:
        """In the order of replacement: a StatefulSet begins at its highest ordinal (its pods' names); the
        places of a Deployment (``name/number``) are replaced together."""
        if self.stateful:
            return tuple(f"{self.name}-{n}" for n in range(self.replicas - 1, -1, -1))
        return tuple(f"{self.name}/{n}" for n in range(self.replicas))

    @property
    def observed(self) -> bool:
        """Whether its controller has seen the present specification."""
        generation = status(self.document).get("observedGeneration", 0)
        return bool(generation >= self.document["metadata"].get("generation", 0))

    @property
    def template_kind(self) -> MemberKind:
        """The kind that new pods will be of."""
        return kind_of(self.document["spec"]["template"])

    @property
    def partition(self) -> int:
        """The lowest ordinal that runs the update revision (StatefulSet; 0 where nothing is held back)."""
        strategy = self.document["spec"].get("updateStrategy", {}).get("rollingUpdate") or {}
        return int(strategy.get("partition", 0))

    @property
    def rolling_out(self) -> bool:
        """Whether an edit is on its way to all pods of a StatefulSet, as far as its controller has said."""
        state = status(self.document)
        whole = self.stateful and self.partition == 0
        return whole and state.get("currentRevision") != state.get("updateRevision")

    def revision_of(self, slot: str) -> str:
        """The revision that this slot should run now; empty when the controller has not said yet."""
        if self.stateful:
            updated = ordinal(slot) >= self.partition
            return str(status(self.document).get("updateRevision" if updated else "currentRevision", ""))
        wanted = notes_on(self.document).get(REVISION)
        return next((name_of(s) for s in self.replica_sets if notes_on(s).get(REVISION) == wanted), "")


def ordinal(slot: str) -> int:
    """The number at the end of a StatefulSet's slot."""
    return int(slot.rpartition("-")[2])


def notes_on(document: Document) -> Mapping[str, str]:
    """The annotations of a document."""
    return document["metadata"].get("annotations") or {}


def labels(document: Document) -> Mapping[str, str]:
    """The labels of a document or pod template."""
    return (document.get("metadata") or {}).get("labels") or {}


def status(document: Document) -> Mapping[str, Any]:
    """The status of a document; empty before its controller has written one."""
    return document.get("status") or {}


def name_of(document: Document) -> str:
    """The name of a document."""
    return str(document["metadata"]["name"])


def title(document: Document) -> str:
    """``Deployment orders``: a document in a sentence."""
    return f"{document['kind']} {name_of(document)}"


def kind_of(template: Document) -> MemberKind:
    """The kind of member that a pod or template runs. Raises `Rejected` for a label that names none."""
    label = labels(template).get(KIND, MemberKind.ZOOKEEPER.value)
    try:
        return _RUN[label]
    except KeyError as error:
        raise Rejected(f"label {KIND} is {label!r}; use one of {', '.join(_RUN)}") from error


def owned(documents: Iterable[Document], owner: Document) -> tuple[Document, ...]:
    """Those that this owner controls."""
    uid = owner["metadata"]["uid"]
    return tuple(
        each
        for each in documents
        if any(
            ref.get("controller") and ref["uid"] == uid for ref in each["metadata"].get("ownerReferences", ())
        )
    )


Templates = Callable[[Workload, str], Mapping[str, Any] | None]
"""Looks up the pod template of a revision of a workload; None when its history no longer has it."""


def demand_acceptable(workload: Workload, change: Change) -> None:
    """Raises `Conflict` when a run with a higher token was met under this fence, and `Rejected` when the
    change's id was accepted before for something else."""
    highest = workload.memory.fences.get(change.fence, 0)
    if change.token < highest:
        raise Conflict(
            f"token {change.token} of {change.fence} is void: a process with token {highest} changed "
            f"{title(workload.document)} since; look at the run with: groupshift status"
        )
    known = workload.memory.find(change.change_id)
    if known is not None and (set(known.slots), known.to) != (set(change.slots), change.to):
        raise Rejected(
            f"change {change.change_id!r} was accepted before, for {known.to.value} members on "
            f"{', '.join(known.slots)}"
        )


def decide(workload: Workload, change: Change, templates: Templates) -> dict[str, Any] | None:
    """The patch that makes ``change`` in this workload; None when it was made before.

    With no slots of this workload only the change's token is written. Raises `Rejected` when the workload
    cannot be changed so, `Transient` when its controller has not seen the last change yet."""
    slots = tuple(name for name in workload.slots if name in change.slots)
    memory = workload.memory
    if memory.find(change.change_id) is not None:
        return None
    if not slots:
        held = memory.fences.get(change.fence) == change.token or not change.fence
        return None if held else _patch(workload, memory.having(change, None), {})
    if not workload.observed:
        raise Transient(
            f"the controller of {title(workload.document)} has not seen its last change; try again"
        )
    before = workload.revision_of(slots[-1])
    accepted = Accepted(change_id=change.change_id, to=change.to, slots=change.slots, before=before)
    spec = _specification(workload, change, templates)
    return _patch(workload, memory.having(change, accepted), _reaching(workload, slots, change.to, spec))


def _patch(workload: Workload, memory: Memory, spec: Mapping[str, Any]) -> dict[str, Any]:
    version = workload.document["metadata"]["resourceVersion"]
    text = json.dumps(asdict(memory), separators=(",", ":"))
    metadata = {"resourceVersion": version, "annotations": {CHANGES: text}}
    return {"metadata": metadata, **({"spec": dict(spec)} if spec else {})}


def _specification(workload: Workload, change: Change, templates: Templates) -> Mapping[str, Any]:
    """The patch of the template: as it was before the changes taken back, or what the annotation says."""
    undone = [accepted for each in change.undoes if (accepted := workload.memory.find(each))]
    if undone:
        template = templates(workload, undone[0].before)
        if template is not None:
            return {"template": {**template, "$patch": "replace"}}
    if change.undoes and not undone and workload.template_kind is change.to:
        return {}  # what is to be taken back was never begun here
    return {"template": _told(workload, change.to, undone[0].before if undone else "")}


def _told(workload: Workload, to: MemberKind, gone: str) -> Mapping[str, Any]:
    """The template's difference for a kind, from the annotation that the team keeps on the workload."""
    key = SPEC.format(kind=to.value)
    text = notes_on(workload.document).get(key)
    if text is None:
        history = f"revision {gone} is no longer in its history and " if gone else ""
        raise Rejected(
            f"{title(workload.document)} cannot run {to.value} members: {history}it has no annotation {key}; "
            f'add one such as {{"image": "registry/app:2", "env": {{"NAME": "value"}}}}'
        )
    try:
        note = load_json(text, "it")
        image, env = note.get("image"), dict(note.get("env") or {})
    except (Rejected, ValueError, TypeError, AttributeError) as error:
        raise Rejected(f"annotation {key} of {title(workload.document)} cannot be used: {error}") from error
    if not (image or env) or set(note) - {"image", "env"}:
        raise Rejected(f"annotation {key} of {title(workload.document)} needs image or env, and nothing else")
    container: dict[str, Any] = {"name": _container(workload.document)}
    if image:
        container["image"] = str(image)
    if env:
        container["env"] = [
            {"name": str(k), "value": str(v), "valueFrom": None} for k, v in sorted(env.items())
        ]
    return {"metadata": {"labels": {KIND: to.value}}, "spec": {"containers": [container]}}


def _container(document: Document) -> str:
    names = [str(each["name"]) for each in document["spec"]["template"]["spec"]["containers"]]
    name = notes_on(document).get(CONTAINER)
    if name is not None and name in names:
        return name
    if name is None and len(names) == 1:
        return names[0]
    raise Rejected(
        f"{title(document)} has the containers {', '.join(names)}: name the member's one in the annotation "
        f"{CONTAINER}"
    )


def _reaching(
    workload: Workload, slots: tuple[str, ...], to: MemberKind, spec: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The specification, with what makes it reach these slots and no others."""
    if not workload.stateful:
        if set(slots) != set(workload.slots):
            raise Rejected(
                f"{title(workload.document)} is changed as a whole, and the change names {len(slots)} of its "
                f"{workload.replicas} places: let the canary run in a Deployment of its own with the same "
                "label, or use a StatefulSet"
            )
        return spec
    strategy = workload.document["spec"].get("updateStrategy", {}).get("type", "RollingUpdate")
    if strategy != "RollingUpdate":
        raise Rejected(
            f"{title(workload.document)} has the update strategy {strategy}, under which it replaces no pod "
            "by itself; set updateStrategy.type to RollingUpdate"
        )
    partition = _partition(workload, slots, to)
    return {**spec, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}}


def _partition(workload: Workload, slots: tuple[str, ...], to: MemberKind) -> int:
    """The lowest ordinal to be updated: everything above it is changed now or runs the new kind already."""
    state = status(workload.document)
    current, updated = state.get("currentRevision"), state.get("updateRevision")
    new = {ordinal(slot) for slot in slots}
    if workload.template_kind is to:
        new.update(range(workload.partition, workload.replicas))
    lowest = min(new)
    kept = [slot for slot in workload.slots if ordinal(slot) not in new]
    mixed = [slot for slot in kept if workload.revision_of(slot) != current]
    if mixed and workload.rolling_out:
        # What is kept would fall back to the revision before the edit at its next restart.
        raise Transient(
            f"{title(workload.document)} is still rolling out its last edit to all of its pods "
            f"(revision {current} to {updated}); try again when it is over"
        )
    if len(new) != workload.replicas - lowest or mixed:
        raise Rejected(
            f"{title(workload.document)} replaces its pods from the highest ordinal down, and a change of "
            f"{', '.join(slots)} alone would reach others too; name {', '.join(workload.slots[: len(slots)])}"
        )
    return lowest
