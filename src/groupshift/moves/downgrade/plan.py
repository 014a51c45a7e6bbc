"""The ordered plan of a downgrade as data: what is done, what must be seen before the next step, and what
undoes it.

Nothing here acts. Source of the order: specs/group-coordinator.md §6.1; consumers come before brokers,
since only the newer coordinator writes the tombstones of its own records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.cluster import ClusterView
from groupshift.domain.foreign_text import shell
from groupshift.domain.group_protocol import Kind
from groupshift.moves.downgrade.facts import DowngradeFacts, of_kind
from groupshift.moves.downgrade.properties import INTER_BROKER, misfits, speaks_newer
from groupshift.moves.downgrade.releases import Compaction

FORWARD_ONLY = "forward only"


class Act(StrEnum):
    """What a step does."""

    SNAPSHOT = "snapshot"
    CONVERT = "convert"
    CONVERT_EMPTY = "convert-empty"
    COMPACT = "compact"
    COMPARE = "compare"
    DELETE_CONFIGS = "delete-configs"
    LOWER = "lower"
    AWAIT_SNAPSHOT = "await-snapshot"
    EDIT_PROPERTIES = "edit-properties"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeStep:
    """One step: ``subject`` is the group, feature or node, ``does`` the instruction, ``proof`` what must
    be seen before the next one, ``inverse`` what undoes it: `FORWARD_ONLY`, or empty where there is
    nothing to undo."""

    act: Act
    subject: str = ""
    does: str
    proof: str
    inverse: str = ""


def steps(facts: DowngradeFacts) -> tuple[DowngradeStep, ...]:
    """The plan from what is now to the target, in its order; empty where there is no way."""
    if not facts.path.possible:
        return ()
    return (
        DowngradeStep(
            act=Act.SNAPSHOT,
            does="snapshot A of all groups: groupshift snapshot --all --output A",
            proof="the snapshot has no problems",
        ),
        *_conversions(facts),
        *_compaction(facts),
        *_configs(facts),
        *_features(facts),
        *_files(facts),
        *_nodes(facts),
    )


def node_order(view: ClusterView, *, brokers_only: bool = False) -> tuple[int, ...]:
    """Node ids in the order of their replacement: brokers that do not vote, then voters (controllers of
    their own among them, unless only brokers are replaced), the leader of the metadata quorum last."""
    voters = set(view.quorum.voters) if view.quorum else set()
    leader = view.quorum.leader if view.quorum else view.controller
    nodes = {broker.node_id for broker in view.brokers} | (set() if brokers_only else voters)
    return tuple(sorted(nodes, key=lambda node: (node == leader, node in voters, node)))


def _conversions(facts: DowngradeFacts) -> Iterator[DowngradeStep]:
    if facts.serves_consumers:
        return
    found = of_kind(facts.groups, Kind.CONSUMER)
    for each in found:
        if each.empty:
            yield DowngradeStep(
                act=Act.CONVERT_EMPTY,
                subject=each.group,
                does="let one classic member join and leave with this group.id, without committing",
                proof="every broker lists it as classic",
                inverse="a native member that joins converts it again",
            )
        else:
            yield DowngradeStep(
                act=Act.CONVERT,
                subject=each.group,
                does="restart the members one by one with group.protocol=classic and one common assignor",
                proof=f"groupshift protocol settled --group {shell(each.group)} --to classic",
                inverse="restart the members one by one with group.protocol=consumer",
            )
    if found:
        yield DowngradeStep(
            act=Act.COMPARE,
            does="snapshot B: groupshift snapshot --all --output B; groupshift compare A B --move "
            "protocol-back",
            proof="no difference",
        )


def _compaction(facts: DowngradeFacts) -> Iterator[DowngradeStep]:
    if facts.path.compaction not in {Compaction.NEEDED, Compaction.UNKNOWN}:
        return
    yield DowngradeStep(
        act=Act.COMPACT,
        subject="__consumer_offsets",
        does="set segment.ms=1000, min.cleanable.dirty.ratio=0.001, delete.retention.ms=100 and commit "
        "once a second to "
        "every partition; set them back afterwards",
        proof=f"a copy of the log holds no key of type 3 or above: groupshift downgrade assess --to "
        f"{facts.target.release} --segments COPY",
        inverse=FORWARD_ONLY,
    )


def _configs(facts: DowngradeFacts) -> Iterator[DowngradeStep]:
    if facts.target.line.supports("group.version"):
        return
    for group, configs in sorted(facts.view.group_configs.items()):
        said = ", ".join(f"{name}={value}" for name, value in sorted(configs.items()))
        yield DowngradeStep(
            act=Act.DELETE_CONFIGS,
            subject=group,
            does=f"delete its configurations ({said})",
            proof="no broker tells one of source GROUP_CONFIG",
            inverse=f"set them again: {said}",
        )


def _features(facts: DowngradeFacts) -> Iterator[DowngradeStep]:
    metadata_last = sorted(
        facts.path.lowered, key=lambda each: (each.feature == "metadata.version", each.feature)
    )
    for each in metadata_last:
        yield DowngradeStep(
            act=Act.LOWER,
            subject=each.feature,
            does=f"lower {each} (safe downgrade)",
            proof=f"every broker tells {each.feature} at {each.to}",
            inverse=f"upgrade {each.feature} to {each.level}",
        )
    if facts.path.snapshot:
        yield DowngradeStep(
            act=Act.AWAIT_SNAPSHOT,
            subject="__cluster_metadata",
            does="wait for a metadata snapshot that is newer than the last change of a feature",
            proof=f"{_readers(facts)} has a checkpoint at or above the high watermark of that change",
        )


def _readers(facts: DowngradeFacts) -> str:
    """Whose metadata snapshots the older release starts from."""
    if facts.brokers_only:
        return "every broker (controllers keep their release: theirs do not matter)"
    return "every node with process.roles"


def _files(facts: DowngradeFacts) -> Iterator[DowngradeStep]:
    release, line, kraft = facts.target.release, facts.target.line.name, facts.view.kraft
    for broker in facts.view.brokers:
        if not kraft and speaks_newer(broker.properties, facts.target):
            yield DowngradeStep(
                act=Act.LOWER,
                subject=INTER_BROKER,
                does=f"set it to {line} at broker {broker.node_id} and restart the broker",
                proof="it is registered and its replicas are in sync",
                inverse="set it back and restart the broker",
            )
    for broker in facts.view.brokers:
        found = (each.name for each in misfits(broker.properties, facts.target))
        names = [name for name in found if kraft or name != INTER_BROKER]
        if names:
            yield DowngradeStep(
                act=Act.EDIT_PROPERTIES,
                subject=str(broker.node_id),
                does=f"leave {', '.join(names)} out of the file for {release}; keep the file of now",
                proof=f"the file for {release} does not name them",
                inverse="start with the file of now",
            )


def _nodes(facts: DowngradeFacts) -> Iterator[DowngradeStep]:
    release = facts.target.release
    yield DowngradeStep(
        act=Act.SNAPSHOT,
        does="snapshot C0 before the first node: groupshift snapshot --all --output C0",
        proof="the snapshot has no problems",
    )
    brokers = {broker.node_id for broker in facts.view.brokers}
    for node in node_order(facts.view, brokers_only=facts.brokers_only):
        kind = "broker" if node in brokers else "controller"
        yield DowngradeStep(
            act=Act.REPLACE,
            subject=str(node),
            does=f"stop {kind} {node} cleanly, start {release} over the same folder",
            proof=f"it is registered, replicas are in sync, its partitions are led again; snapshot C{node}: "
            f"groupshift compare C0 C{node} --move downgrade has no difference",
            inverse="stop it cleanly, start the release of now over the same folder",
        )
