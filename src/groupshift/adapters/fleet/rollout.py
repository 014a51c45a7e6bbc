"""What to write into a workload for a change: one strategic merge patch, or the reason why not. Pure.

A StatefulSet replaces from its highest ordinal down: the patch moves ``rollingUpdate.partition``, so a
canary of n members is its last n pods. A Deployment has no such place to stop, so it is changed as a whole.
The patch carries the resource version it was decided on (compare and set), the new template and the driver's
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from groupshift.adapters.fleet.workloads import (
    CHANGES,
    CONTAINER,
    KIND,
    SPEC,
    Accepted,
    Document,
    Memory,
    Workload,
    notes_on,
    ordinal,
    status,
    title,
)
from groupshift.domain.foreign_json import load_json
from groupshift.domain.modes import MemberKind
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.driver import Change

Templates = Callable[[Workload, str], Mapping[str, Any] | None]
"""Looks up the pod template of a revision of a workload; None when its history no longer has it."""


def demand_newest(workload: Workload, change: Change) -> None:
    """Raises `Conflict` when a run with a higher token was met under this fence."""
    highest = workload.memory.fences.get(change.fence, 0)
    if change.token < highest:
        raise Conflict(
            f"token {change.token} of {change.fence} is void: a run with token {highest} changed "
            f"{title(workload.document)} since; look at the migration with: groupshift status"
        )


def demand_same(workload: Workload, change: Change) -> None:
    """Raises `Rejected` when the change's id was accepted before for something else."""
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
    metadata = {"resourceVersion": version, "annotations": {CHANGES: memory.to_json()}}
    return {"metadata": metadata, **({"spec": dict(spec)} if spec else {})}


def _specification(workload: Workload, change: Change, templates: Templates) -> Mapping[str, Any]:
    """The patch of the template: as it was before the changes taken back, or what the annotation says."""
    undone = [found for each in change.undoes if (found := workload.memory.find(each))]
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
        told = load_json(text, "it")
        image, env = told.get("image"), dict(told.get("env") or {})
    except (Rejected, ValueError, TypeError, AttributeError) as error:
        raise Rejected(f"annotation {key} of {title(workload.document)} cannot be used: {error}") from error
    if not (image or env) or set(told) - {"image", "env"}:
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
    told = notes_on(document).get(CONTAINER)
    if told is not None and told in names:
        return told
    if told is None and len(names) == 1:
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
    wanted = {ordinal(slot) for slot in slots}
    state = status(workload.document)
    current, updated = state.get("currentRevision"), state.get("updateRevision")
    same = workload.template_kind is to
    new = {
        ordinal(slot)
        for slot in workload.slots
        if ordinal(slot) in wanted or (same and ordinal(slot) >= workload.partition)
    }
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
