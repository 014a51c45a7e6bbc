"""Looks at a group's nodes in a real ZooKeeper, and plays the operator; used by the live scenarios."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from groupshift.domain.modes import ABSENT_MODE, Mode, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import Awareness, parse_awareness
from groupshift.domain.znodes import GroupPaths, parse_offset
from groupshift_sandbox.processes import wait_until

PATIENCE_S = 60.0


def exported(state_file: Path) -> dict[str, Any]:
    """The state a member exported last; empty before its first export."""
    try:
        state: dict[str, Any] = json.loads(state_file.read_text())
    except FileNotFoundError:
        return {}
    return state


@dataclass(frozen=True, slots=True)
class GroupProbe:
    """One group, through one ZooKeeper client."""

    client: KazooClient
    group: str

    @property
    def paths(self) -> GroupPaths:
        """The group's paths."""
        return GroupPaths(self.group)

    def mode_node(self) -> ModeNode:
        """The mode node now."""
        try:
            data, stat = self.client.get(self.paths.mode)
        except NoNodeError:
            return ABSENT_MODE
        return ModeNode(data=data, version=stat.version, czxid=stat.czxid, mzxid=stat.mzxid)

    def set_mode(self, data: bytes | None) -> ModeNode:
        """Write (or with None delete) the mode node without any check, as a careless operator does."""
        if data is None:
            self.client.delete(self.paths.mode)
        elif self.client.exists(self.paths.mode):
            self.client.set(self.paths.mode, data)
        else:
            self.client.create(self.paths.mode, data, makepath=True)
        return self.mode_node()

    def published(self, member_id: str) -> Awareness | None:
        """What a member says about itself."""
        try:
            return parse_awareness(self.client.get(self.paths.migration_id_of(member_id))[0])
        except NoNodeError:
            return None

    def await_published(self, members: list[str], mode: Mode, node: ModeNode) -> None:
        """Wait until every member says that it obeys ``mode`` because of this very write."""
        wanted = (mode, node.identity)

        def settled() -> bool:
            said = [self.published(member) for member in members]
            return all(each is not None and (each.mode, each.acting_on) == wanted for each in said)

        wait_until(settled, PATIENCE_S, f"{members} publish {mode} for {node.identity}")

    def owners(self, topic: str) -> dict[int, tuple[str, int, int]]:
        """Partition → (member id, czxid, epoch ms of creation) of every owner node."""
        parent, found = f"{self.paths.owners}/{topic}", {}
        for child in self.client.get_children(parent) if self.client.exists(parent) else []:
            try:
                data, stat = self.client.get(f"{parent}/{child}")
            except NoNodeError:
                continue
            found[int(child)] = (data.decode().rpartition("-")[0], stat.czxid, stat.ctime)
        return found

    def await_shares(
        self, topic: str, shares: dict[str, int], deadline_s: float = PATIENCE_S
    ) -> dict[int, tuple[str, int, int]]:
        """Wait until exactly these members own exactly so many partitions each; the owners of that look."""
        seen: dict[int, tuple[str, int, int]] = {}

        def met() -> bool:
            seen.clear()
            seen.update(self.owners(topic))
            owners = [member for member, _, _ in seen.values()]
            return {member: owners.count(member) for member in owners} == shares

        wait_until(met, deadline_s, f"owners {shares}")
        return seen

    def offset(self, topic: str, partition: int) -> int | None:
        """The offset in ZooKeeper."""
        try:
            return parse_offset(self.client.get(self.paths.offset_of(TopicPartition(topic, partition)))[0])
        except NoNodeError:
            return None
