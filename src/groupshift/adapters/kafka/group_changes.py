"""Changes to groups through the brokers: restore offsets, delete groups, write tombstones.

Implements `groupshift.ports.changes.OffsetRestoring` and `groupshift.ports.log.LogErasing`.

Offsets are restored by raw requests. confluent-kafka appends a NUL to metadata, takes one group a call, and
does not repeat what a coordinator answers that moves or loads (docs/reference/coordinator-on-real-brokers.md
§A 21).

A coordinator writes the tombstones of one DeleteGroups request to a partition as one batch, which may not be
larger than ``max.message.bytes`` of the offsets topic. A NEW one refuses the request then; an OLD one
forgets the group, answers that it is deleted, and leaves everything in the log (H39). So a large group loses
its offsets in parts first (KIP-496), at both.

A producer writes the tombstones of `ProducerErasing`. Brokers let nobody produce to an internal topic but
clients that call themselves ``__admin_client`` (docs/reference/group-coordinator.md §3.2, seen on 3.9.2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from kio.schema.errors import ErrorCode

from groupshift.adapters.kafka.cluster import KafkaCluster, OfCluster
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.requests import DESCRIBED, describe, fetch_now, fetch_offsets, fetched, named
from groupshift.adapters.kafka.rows import offset_rows
from groupshift.adapters.kafka.wire import Api, error_name, id_of, id_text, in_parts, is_retriable, raise_for
from groupshift.domain.commit_places import FORMER
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import grouped
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Rejected, Transient
from groupshift.ports.changes import Refusals, unheld

_NAMED_TOPICS, _TOPICS_BY_ID = 9, 10
_NOT_THERE = frozenset({3, 100})
"""UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID: such a topic stays away, although Kafka calls that worth
asking again."""
_FORMER = "it belongs to a former topic of that name, and is not committed to the topic of today"
_PART_BYTES, _COMMIT_ROW_BYTES = 256 * 1024, 64
"""At most so many bytes of offsets in a request, with what each adds to its names: coordinators take one
batch of ``max.message.bytes`` of the offsets topic (1 MiB by default)."""


class LiveOffsetRestoring(OfCluster):
    """Acts through one `KafkaCluster`, which it closes."""

    def commit(self, rows: Iterable[OffsetRow]) -> Mapping[str, str]:
        """See the port."""
        return commit_rows(self._cluster, rows)

    def delete(self, groups: Collection[str], hold: Callable[[], None] = unheld) -> Mapping[str, str]:
        """See the port."""
        return delete_groups(self._cluster, groups, hold)


def commit_rows(cluster: KafkaCluster, rows: Iterable[OffsetRow]) -> Refusals:
    """Commit for groups without members, a group's rows in requests of a limited size; again while
    coordinators move or load.

    An offset with a topic id goes to the topic of that id only, where the broker knows how (4.1); one of a
    former topic goes nowhere. What was refused for good, by group. Raises as `KafkaCluster.attempt`."""
    refused, chosen = Refusals(), list[OffsetRow]()
    for row in rows:
        if row.topic_id == FORMER:
            refused.add(row, f"the offset of {row.topic}-{row.partition} is not committed: {_FORMER}")
        else:
            chosen.append(row)
    left = dict(enumerate(_commit_parts(chosen)))

    def work() -> None:
        nodes = cluster.coordinated({group for group, _ in left.values()})
        numbers_of = grouped((nodes[group], number) for number, (group, _) in left.items())
        again = 0
        requests = {
            node: [(_commit(cluster.broker(node), *left[number]), number) for number in numbers]
            for node, numbers in numbers_of.items()
        }
        for number, answer in cluster.ask_each(requests, in_flight=16):
            group, part = left.pop(number)
            passing, lasting = list[OffsetRow](), list[tuple[int, OffsetRow]]()
            for row, code in _codes(part, answer):
                if code in _NOT_THERE or not is_retriable(code):
                    lasting.append((code, row))
                else:
                    passing.append(row)
                    again = max(again, code)
            for code, row in sorted(lasting, key=itemgetter(0)):
                refused.add(row, f"offsets of group {group!r} are not committed: {error_name(code)}")
            if passing:
                left[number] = group, passing
        raise_for(again, f"{len(left)} groups are not committed yet")

    if left:
        cluster.attempt(work)
    return refused


def _commit_parts(rows: Iterable[OffsetRow]) -> Iterator[tuple[str, list[OffsetRow]]]:
    """Each group with its rows, cut where a request would become one that a coordinator may refuse as too
    large: it writes each as one batch. Those with a topic id are asked apart, so that one without does not
    take the others' protection away."""
    for (group, _), of_group in grouped(((row.group, bool(row.topic_id)), row) for row in rows).items():
        size, part = 0, list[OffsetRow]()
        for row in of_group:
            bytes_ = _COMMIT_ROW_BYTES + len((row.group + row.topic + (row.metadata or "")).encode())
            if part and size + bytes_ > _PART_BYTES:
                yield group, part
                size, part = 0, []
            size += bytes_
            part.append(row)
        yield group, part


def _codes(rows: Iterable[OffsetRow], answer: Any) -> Iterator[tuple[OffsetRow, int]]:
    """The offsets that were refused, with the error code of each."""
    codes: dict[tuple[str, int], int] = {}
    for topic in answer.topics:
        name = str(getattr(topic, "name", "")) or id_text(topic.topic_id)
        codes |= {(name, int(each.partition_index)): int(each.error_code) for each in topic.partitions}
    for row in rows:
        by_id = codes.get((row.topic_id or "", row.partition), 0)
        if code := codes.get((row.topic, row.partition)) or by_id:
            yield row, code


def _commit(connection: BrokerConnection, group: str, rows: Iterable[OffsetRow]) -> Any:
    """By topic ids where the rows have them (all or none do) and the broker takes them, else by name."""
    batch = list(rows)
    by_id = all(row.topic_id for row in batch) and connection.highest(Api.OFFSET_COMMIT) >= _TOPICS_BY_ID
    partitions = grouped(
        (
            (row.topic, (row.topic_id or "") if by_id else ""),
            {
                "partition_index": row.partition,
                "committed_offset": row.offset,
                "committed_leader_epoch": -1 if row.leader_epoch is None else row.leader_epoch,
                "committed_metadata": row.metadata,
            },
        )
        for row in batch
    )
    return connection.request(
        Api.OFFSET_COMMIT,
        at_least=_TOPICS_BY_ID if by_id else 2,
        at_most=_TOPICS_BY_ID if by_id else _NAMED_TOPICS,
        group_id=group,
        generation_id=-1,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            {"name": name, "topic_id": id_of(topic_id) if topic_id else None, "partitions": each}
            for (name, topic_id), each in partitions.items()
        ],
    )


_DELETE_VERSION = 1
_TOO_LARGE = frozenset({-1, 10, 18})
"""UNKNOWN_SERVER_ERROR, which NEW coordinators say of it, MESSAGE_TOO_LARGE and RECORD_LIST_TOO_LARGE."""
_UNUSED = frozenset({"Empty", "Dead"})
_GROUPS_A_REQUEST = 500
_WHOLE_BYTES, _ROW_BYTES = 64 * 1024, 64
"""Up to so many bytes of tombstones a group is deleted whole; each offset adds so many to its names."""
_PART = 100
"""Offsets that one request deletes; their tombstones fit the smallest batch that anybody sets."""


def delete_groups(
    cluster: KafkaCluster, groups: Iterable[str], hold: Callable[[], None] = unheld
) -> dict[str, str]:
    """Delete these groups; what was refused for good, by group. ``hold`` is called before each request that
    deletes. Raises as `KafkaCluster.attempt`, and what ``hold`` raises."""
    wanted = set(groups)
    left = {group: _thin(cluster, group, hold) for group in _large(cluster, wanted)}
    refused = {group: why for group, why in left.items() if why}
    for group, code in _deleted(cluster, wanted - refused.keys(), hold).items():
        why = _thin(cluster, group, hold) if code in _TOO_LARGE else error_name(code)
        again = {} if why else _deleted(cluster, {group}, hold)
        refused |= {group: why or error_name(again[group])} if why or again else {}
    return {group: f"group {group!r} is not deleted: {why}" for group, why in sorted(refused.items())}


def _deleted(cluster: KafkaCluster, groups: Collection[str], hold: Callable[[], None]) -> dict[str, int]:
    """Ask until each is deleted, or refused for good: with which code."""
    left, refused = set(groups), dict[str, int]()
    exactly = {"at_least": _DELETE_VERSION, "at_most": _DELETE_VERSION}

    def questions(connection: BrokerConnection, names: Sequence[str]) -> Iterator[tuple[Any, None]]:
        for part in in_parts(sorted(names), _GROUPS_A_REQUEST):
            yield connection.request(Api.DELETE_GROUPS, groups_names=part, **exactly), None

    def work() -> None:
        places = [(node, group) for group, node in cluster.coordinated(left).items()]
        again = 0
        hold()
        for _, answer in cluster.ask_at(places, questions):
            for each in answer.results:
                code, group = int(each.error_code), str(each.group_id)
                if is_retriable(code):
                    again = code
                    continue
                if code and code != ErrorCode.group_id_not_found:
                    refused[group] = code
                left.discard(group)
        raise_for(again, f"{len(left)} groups are not deleted yet")

    if left:
        cluster.attempt(work)
    return refused


def _large(cluster: KafkaCluster, groups: Collection[str]) -> list[str]:
    """Those whose tombstones are more than `_WHOLE_BYTES`."""
    bytes_: dict[str, int] = {}

    def work() -> None:
        places = [(node, group) for group, node in cluster.coordinated(groups).items()]
        for part, answer in cluster.ask_at(places, fetch_offsets):
            for group, code, topics in fetched(part, answer):
                if is_retriable(code):
                    raise_for(code, f"offsets of group {group!r} are not given yet")
                bytes_[group] = sum(map(_tombstone, offset_rows(group, topics)[0]))

    if groups:
        cluster.attempt(work)
    return sorted(group for group, size in bytes_.items() if size > _WHOLE_BYTES)


def _tombstone(row: OffsetRow) -> int:
    return _ROW_BYTES + len((row.group + row.topic).encode())


def _thin(cluster: KafkaCluster, group: str, hold: Callable[[], None]) -> str:
    """Delete its offsets, some at a time, while it has no members. Why it may not be deleted whole then;
    empty where it may. Offsets of topics that are gone stay: the deletion of the group takes them."""
    said: list[str] = []
    gone: set[tuple[str, int]] = set()

    def work() -> None:
        connection = cluster.coordinator(group)
        for part in in_parts(_committed(connection, group), _PART):
            if state := _in_use(connection, group):
                already = f", and {len(gone)} of its offsets are deleted already" if gone else ""
                said[:] = [f"it is {state}{already}"]
                return
            hold()
            topics = named((row.topic, {"partition_index": row.partition}) for row in part)
            answer = connection.ask(connection.request(Api.OFFSET_DELETE, group_id=group, topics=topics))
            if is_retriable(int(answer.error_code)):
                raise_for(answer.error_code, f"offsets of group {group!r} are not deleted yet")
            gone.update((row.topic, row.partition) for row in part)
        rest = _committed(connection, group)
        if sum(map(_tombstone, rest)) > _WHOLE_BYTES:
            said[:] = [f"its coordinator keeps {len(rest)} offsets, which are too many for one batch"]

    cluster.attempt(work)
    return "".join(said)


def _in_use(connection: BrokerConnection, group: str) -> str:
    """Its state where it has members or may get some, by either protocol; empty where it has none. A
    coordinator deletes single offsets of such a group, too."""
    native = connection.highest(DESCRIBED[Kind.CONSUMER]) >= 0
    kinds = (Kind.CLASSIC, Kind.CONSUMER) if native else (Kind.CLASSIC,)
    answers = [
        connection.ask(request) for kind in kinds for request, _ in describe(connection, kind, [group])
    ]
    states = [str(each.group_state) for answer in answers for each in answer.groups if not each.error_code]
    return next((state for state in states if state not in _UNUSED), "")


def _committed(connection: BrokerConnection, group: str) -> list[OffsetRow]:
    rows: list[OffsetRow] = []
    for _, code, topics in fetch_now(connection, [group]):
        if code != ErrorCode.group_id_not_found:
            raise_for(code, f"offsets of group {group!r} are not given")
            rows += offset_rows(group, topics)[0]
    return rows


_TOPIC, _CLIENT = "__consumer_offsets", "__admin_client"
_AT_ONCE = 10_000
_REFUSED = frozenset(
    {
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class ProducerErasing:
    """A producer of its own each time; ``timeout_s`` is for all records of one call."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str], timeout_s: float) -> None:
        self._settings = {
            **properties,
            "bootstrap.servers": bootstrap,
            "client.id": _CLIENT,
            "acks": "all",
            "message.timeout.ms": str(round(timeout_s * 1000)),
            "log_level": "0",
        }
        self._timeout_s = timeout_s

    def erase(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """See the port."""
        failed: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _record: Message) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer(self._settings)
        for number, (partition, key) in enumerate(keys, 1):
            producer.produce(_TOPIC, partition=partition, key=key, value=None, on_delivery=on_delivery)
            if not number % _AT_ONCE:
                producer.flush(self._timeout_s)
        left = producer.flush(self._timeout_s)
        lasting = [each for each in failed if each.code() in _REFUSED]
        if lasting:
            raise Rejected(
                f"tombstones of {_TOPIC} are refused ({lasting[0].str()}): let this login write there"
            )
        if left or failed:
            why = failed[0].str() if failed else f"{left} records were not acknowledged"
            raise Transient(f"tombstones of {_TOPIC} are not all written ({why}); run it again")
