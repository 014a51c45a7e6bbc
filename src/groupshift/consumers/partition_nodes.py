"""Owner and offset nodes of one member: claimed, written and given up in pipelined, guarded transactions.

Requests are pipelined: ZooKeeper answers one session's requests in order, so a claim is one round
trip for any number of partitions. Every change travels in a transaction with a check of the own
``ids`` node: it exists only as long as the session in which this member registered, hence a change
that was delayed beyond an expiry fails as a whole (D9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.security import ACL

from groupshift.domain.partitions import TopicPartition
from groupshift.domain.znodes import GroupPaths, encode_offset, parse_offset, partition_number
from groupshift.errors import Rejected, Transient
from groupshift.ports.consumer import OffsetNode, OffsetWrite

_BATCH = 100

Answer = Callable[[Any], Any]


class PartitionNodes:
    """``owners`` and ``offsets`` of one group, as seen by one member.

    ``guard`` is the path of the member's registration, ``answer`` waits for one reply, ``changed`` is
    called (on kazoo's thread) with a partition whose owner node has come or gone.
    """

    def __init__(
        self, client: KazooClient, paths: GroupPaths, guard: str, answer: Answer,
        *, changed: Callable[[TopicPartition], None],
    ) -> None:  # fmt: skip
        self._client, self._paths, self._guard = client, paths, guard
        self._answer, self._changed = answer, changed
        self._owner_watches: dict[TopicPartition, Callable[[Any], None]] = {}
        self._parents: set[str] = set()

    def claim(self, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, OffsetNode | None]:
        """Pipelined per partition: create if free, look at what is there (with watch), read the offset."""
        for topic in {each.topic for each in wanted}:
            self.ensure(f"{self._paths.owners}/{topic}")
            self.ensure(f"{self._paths.offsets}/{topic}")
        asked = [(each, *self._ask_claim(each, thread)) for each, thread in wanted.items()]
        session, result = self._session(), {}
        for each, creation, stat, offset in asked:
            failed = failures(self._answer(creation))
            owner, node = self._answer(stat), self._offset_node(each, offset)
            result[each] = node if owner is not None and owner.ephemeralOwner == session else None
            if owner is None and isinstance(failed[0], NodeExistsError):
                self._changed(each)  # it was there, and gone again between the two requests
            elif owner is None and isinstance(failed[0], NoAuthError):
                raise Rejected(
                    f"zookeeper.sasl.username: this member may not own {each} ({self._paths.owner_of(each)} "
                    "refuses its identity): log in as the group's other members do"
                )
            elif owner is None:
                self.forget_parents()
                raise Transient(f"the owner node of {each} could not be created: {failed[0]!r}")
        return result

    def _ask_claim(self, partition: TopicPartition, thread: str) -> tuple[Any, Any, Any]:
        path = self._paths.owner_of(partition)
        change = self._guarded()
        change.create(path, thread.encode(), ephemeral=True)
        watch = self._owner_watches.setdefault(partition, self._owner_watch(partition))
        return (
            change.commit_async(),
            self._client.exists_async(path, watch=watch),
            self._client.get_async(self._paths.offset_of(partition)),
        )

    def release(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> None:
        """One transaction of checked commits and deletes; where it fails, partition by partition."""
        owned = self._owned(writes)
        for batch in _batches(owned):
            if failures(self._answer(self._release_change({each: writes[each] for each in batch}))):
                for each in batch:
                    self._release_one(each, writes[each])

    def _release_change(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> Any:
        change = self._guarded()
        for each, write in writes.items():
            if write is not None:
                self._add_write(change, each, write)
            change.delete(self._paths.owner_of(each))
        return change.commit_async()

    def _release_one(self, partition: TopicPartition, write: OffsetWrite | None) -> None:
        if write is not None:
            self.write_offsets({partition: write})
        if self._owned([partition]):
            self._answer(self._release_change({partition: None}))

    def resync(self, held: Mapping[TopicPartition, str]) -> frozenset[TopicPartition]:
        """List all owner nodes; keep what is mine and wanted, delete what is mine and forgotten."""
        every = self._all_owners()
        mine = every & set(held)
        for each in every - mine:
            self._answer(self._release_change({each: None}))
        for each in held:
            watch = self._owner_watches.setdefault(each, self._owner_watch(each))
            self._answer(self._client.exists_async(self._paths.owner_of(each), watch=watch))
        return frozenset(mine)

    def _all_owners(self) -> set[TopicPartition]:
        """Every owner node of the group that belongs to the present session."""
        topics = self.children(self._paths.owners)
        listed = {topic: self.children(f"{self._paths.owners}/{topic}") for topic in topics}
        every = [
            TopicPartition(topic, number)
            for topic, names in listed.items()
            for number in map(partition_number, names)
            if number is not None
        ]
        return set(self._owned(every))

    def _owned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those whose owner node belongs to the present session."""
        session = self._session()
        asked = [(each, self._client.exists_async(self._paths.owner_of(each))) for each in partitions]
        stats = [(each, self._answer(result)) for each, result in asked]
        return [each for each, stat in stats if stat is not None and stat.ephemeralOwner == session]

    def _owner_watch(self, partition: TopicPartition) -> Callable[[Any], None]:
        def changed(_event: Any) -> None:
            self._changed(partition)

        return changed

    # -- offset nodes ----------------------------------------------------------------------------

    def write_offsets(
        self, writes: Mapping[TopicPartition, OffsetWrite]
    ) -> Mapping[TopicPartition, OffsetNode | None]:
        """All in one transaction; a late foreign write makes the affected ones adopt its version (O6)."""
        result: dict[TopicPartition, OffsetNode | None] = {}
        for batch in _batches(writes):
            answers = self._commit_offsets({each: writes[each] for each in batch})
            if answers is not None:
                result.update(answers)
                continue
            for each in batch:
                result[each] = self._write_one(each, writes[each])
        return result

    def offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetNode]:
        """Read offset nodes in one round trip."""
        asked = {each: self._client.get_async(self._paths.offset_of(each)) for each in partitions}
        return {each: self._offset_node(each, result) for each, result in asked.items()}

    def leave_offsets(self, writes: Mapping[TopicPartition, OffsetWrite]) -> None:
        """Each on its own and unguarded: the registration is gone, the version decides."""
        changes = []
        for each, write in writes.items():
            change = self._client.transaction()
            self._add_write(change, each, write)
            changes.append(change.commit_async())
        for change in changes:
            self._answer(change)

    def _commit_offsets(
        self, writes: Mapping[TopicPartition, OffsetWrite]
    ) -> Mapping[TopicPartition, OffsetNode] | None:
        change = self._guarded()
        for each, write in writes.items():
            change.check(self._paths.owner_of(each), -1)
            self._add_write(change, each, write)
        if failures(self._answer(change.commit_async())):
            return None
        return {
            each: OffsetNode(value=write.offset, version=write.version + 1) for each, write in writes.items()
        }

    def _write_one(self, partition: TopicPartition, write: OffsetWrite) -> OffsetNode | None:
        """Also where somebody deleted the group's offsets: else it could not even be given up any more."""
        for _attempt in range(3):
            if not self._owned([partition]):
                return None
            self.forget_parents()
            self.ensure(f"{self._paths.offsets}/{partition.topic}")
            node = self._offset_node(partition, self._client.get_async(self._paths.offset_of(partition)))
            adopted = OffsetWrite(offset=write.offset, version=node.version)
            answers = self._commit_offsets({partition: adopted})
            if answers is not None:
                return answers[partition]
        raise Transient(f"the offset node of {partition} keeps changing; retrying")

    def _add_write(self, change: TransactionRequest, partition: TopicPartition, write: OffsetWrite) -> None:
        path, data = self._paths.offset_of(partition), encode_offset(write.offset)
        if write.version < 0:
            change.create(path, data)
        else:
            change.set_data(path, data, version=write.version)

    def _offset_node(self, partition: TopicPartition, asked: Any) -> OffsetNode:
        try:
            data, stat = self._answer(asked)
        except NoNodeError:
            return OffsetNode()
        try:
            return OffsetNode(
                value=parse_offset(data, self._paths.offset_of(partition)), version=stat.version
            )
        except Rejected:
            return OffsetNode(version=stat.version)

    # -- plumbing --------------------------------------------------------------------------------

    def _session(self) -> int | None:
        known = self._client.client_id
        return known[0] if known else None

    def _guarded(self) -> TransactionRequest:
        change = self._client.transaction()
        change.check(self._guard, -1)
        return change

    def children(self, path: str) -> list[str]:
        """The names below a node, none where there is no node."""
        try:
            return list(self._answer(self._client.get_children_async(path)))
        except NoNodeError:
            return []

    def ensure(self, path: str, acl: Sequence[ACL] | None = None) -> None:
        """Create a persistent node with its parents, once; by default with the ACL of the client."""
        if path not in self._parents:
            self._answer(self._client.ensure_path_async(path, acl))
            self._parents.add(path)

    def forget_parents(self) -> None:
        """Somebody deleted directories: make sure of them again."""
        self._parents.clear()


def failures(results: Sequence[Any]) -> list[Exception]:
    """The errors of a transaction, the one that caused it first."""
    errors = [each for each in results if isinstance(each, Exception)]
    return sorted(errors, key=lambda each: type(each).__name__ in {"RolledBackError", "RuntimeInconsistency"})


def _batches(partitions: Iterable[TopicPartition]) -> list[list[TopicPartition]]:
    every = list(partitions)
    return [every[start : start + _BATCH] for start in range(0, len(every), _BATCH)]
