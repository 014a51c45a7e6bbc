"""Kubernetes documents as a fleet: which slots a workload has, who is in them, what was changed before.

Pure: documents (of apps/v1 and core/v1) come in, values go out. What the driver has to remember is kept in
one annotation of the workload, `CHANGES`, and written in the same patch as the change itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from groupshift.domain.foreign_json import load_json
from groupshift.domain.modes import MemberKind
from groupshift.errors import Rejected
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

    changes: tuple[Accepted, ...] = ()
    fences: Mapping[str, int] = field(default_factory=dict)

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

    def to_json(self) -> str:
        """As the annotation holds it."""
        changes = [
            {"id": each.change_id, "to": each.to.value, "slots": each.slots, "before": each.before}
            for each in self.changes
        ]
        return json.dumps({"changes": changes, "fences": dict(self.fences)}, separators=(",", ":"))

    @classmethod
    def of(cls, workload: Document) -> Memory:
        """From a workload's annotation. Raises `Rejected` when somebody else wrote it."""
        text = notes_on(workload).get(CHANGES)
        if text is None:
            return cls()
        try:
            told = load_json(text, "it")
            changes = tuple(
                Accepted(
                    change_id=str(each["id"]),
                    to=MemberKind(each["to"]),
                    slots=tuple(each["slots"]),
                    before=str(each["before"]),
                )
                for each in told["changes"]
            )
            return cls(changes=changes, fences={str(k): int(v) for k, v in told["fences"].items()})
        except (Rejected, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Rejected(
                f"annotation {CHANGES} of {title(workload)} is not groupshift's ({error!r}); "
                "remove it once no migration of the group is open"
            ) from error


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
        seen = status(self.document).get("observedGeneration", 0)
        return bool(seen >= self.document["metadata"].get("generation", 0))

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
    told = labels(template).get(KIND, MemberKind.OLD.value)
    try:
        return _RUN[told]
    except KeyError as error:
        raise Rejected(f"label {KIND} is {told!r}; use one of {', '.join(_RUN)}") from error


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
