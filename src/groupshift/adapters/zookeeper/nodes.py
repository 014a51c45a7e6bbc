"""What the znodes of a group mean: members, owners, offsets; what cannot be understood becomes a sentence.

Clients that are not Kafka's old consumer keep groups in the same tree of ZooKeeper, too. Each writes a layout
of its own below ``/consumers/<g>``. The old consumer's
(docs/reference/zookeeper-coordination.md §§1.1 and 2) is ``ids/<g>_<name>`` with a registration, and
``owners/<topic>/<partition>`` with a thread id ``<g>_<name>-<n>``. The others, from their public sources and
reports (pykafka's ``BalancedConsumer``, pykafka#164, #206, #771; kafka-node's ``HighLevelConsumer``;
kazoo-go; the comments of Kafka 0.7's ``ZookeeperConsumerConnector``; jafka#53):

=========== ======================== ====================== ================================ ==============
client      ``ids/`` name            holds                  ``owners/<topic>/`` name         holds
=========== ======================== ====================== ================================ ==============
pykafka     ``<host>:<uuid>``        one topic's name       ``<broker>-<partition>``         ``<host>:<uuid>``
kazoo-go    ``<host>:<uuid>``        a registration         ``<partition>``                  ``<host>:<uuid>``
kafka-node  ``<g>_<uuid>``           a registration         ``<partition>``                  ``<g>_<uuid>``
Kafka 0.7,  ``<g>_<name>``           topic → streams, or    ``<broker>-<partition>``         a thread id
jafka                                ``*<n>*<regex>``
=========== ======================== ====================== ================================ ==============
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from groupshift.adapters.zookeeper.session import Node
from groupshift.domain.foreign_json import decimal, load_json, shown
from groupshift.domain.group import Member, NoOffset, Owner
from groupshift.domain.modes import MemberKind, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plain import shallow
from groupshift.domain.registration import (
    Awareness,
    Pattern,
    Registration,
    is_topic_name,
    parse_awareness,
    parse_registration,
)
from groupshift.domain.rows import OffsetRow
from groupshift.domain.znodes import partition_number
from groupshift.errors import Rejected

T = TypeVar("T")

PYKAFKA: Final = "pykafka"
GO: Final = "a Go client (kazoo-go)"
NODE: Final = "kafka-node"
KAFKA_07: Final = "Kafka 0.7 or jafka"
OTHER: Final = "a client that is not Kafka's old consumer"

_FRAGMENTS: Final = frozenset({"version", "pattern", "timestamp"})
_UUID: Final = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HOST_AND_UUID: Final = re.compile(rf"[^/]{{1,300}}:{_UUID}")
_GROUP_AND_UUID: Final = re.compile(rf"[^/]{{1,300}}_{_UUID}")
_OF_A_BROKER: Final = re.compile(r"[0-9]{1,10}-[0-9]{1,10}")
_FILTER_07: Final = re.compile(r"([*!])[0-9]{1,5}\1.{0,10000}", re.DOTALL)
_THREAD: Final = re.compile(r".+-(?:0|[1-9][0-9]{0,3})", re.DOTALL)
"""What follows the group: a name, and a stream below `groupshift.domain.registration.MOST_STREAMS`."""


def is_thread_id(group: str, text: str) -> bool:
    """Whether ``text`` is what a member of Kafka's old consumer writes into its owner nodes (§2)."""
    return text.startswith(f"{group}_") and _THREAD.fullmatch(text, len(group) + 1) is not None


def client_of_registration(group: str, name: str, data: bytes, *, valid: bool = False) -> str | None:
    """Which other client writes such a node below ``ids``; None for the old consumer, and for what no client
    writes. ``valid`` where somebody read it as a registration before: it is JSON then, unless it has a
    backslash as only the old consumer writes it (§1.2)."""
    text = data[:20_000].decode("utf-8", errors="replace")
    if _HOST_AND_UUID.fullmatch(name):
        return PYKAFKA if is_topic_name(text) else GO
    if not name.startswith(f"{group}_"):
        return OTHER
    value = None
    with suppress(Rejected):
        value = {"subscription": {}} if valid and b"\\" not in data else load_json(data, name)
    if isinstance(value, dict) and "subscription" in value:
        return NODE if _GROUP_AND_UUID.fullmatch(name) else None
    if isinstance(value, dict) and value.keys() <= _FRAGMENTS:
        return None  # a registration of the old consumer that lost its subscription
    counts = value.values() if isinstance(value, dict) else ()
    if (counts and all(type(each) is int for each in counts)) or _FILTER_07.fullmatch(text):
        return KAFKA_07
    return None


def client_of_partition(name: str, data: bytes) -> str | None:
    """Which other client writes such a node below ``owners/<topic>`` or ``offsets/<topic>``, if that can be
    told."""
    text = data[:1000].decode("utf-8", errors="replace")
    of_a_broker = _OF_A_BROKER.fullmatch(name) is not None
    if _HOST_AND_UUID.fullmatch(text):
        return PYKAFKA if of_a_broker else GO
    if of_a_broker:
        return KAFKA_07
    return NODE if _GROUP_AND_UUID.fullmatch(text) else None


_GENERATED_ID: Final = re.compile(r"(?P<host>.+)-\d{13}-[0-9a-f]{1,8}")
_SHOWN: Final = 200
_shown = partial(shown, most=_SHOWN)


def member_of(registered: Node, migration: Node | None) -> tuple[Member, tuple[str, ...]]:
    """The member of one ``ids`` node and, if it has one, of its ``migration/ids`` node.

    A member whose node cannot be understood is still a member (its peers stumble over it): it has an
    empty subscription, and a sentence says what its node holds and what to do.
    """
    name = registered.path.rpartition("/")[2]
    group = registered.path.split("/")[2]
    nothing = Registration(subscription=())
    remedy = "no old member can rebalance while it is there; stop or restart that member"
    registration, problems = _read(registered, "registration", parse_registration, nothing, remedy)
    if migration is None and registered.owner:
        client = client_of_registration(group, name, registered.data, valid=not problems)
        if client:
            problems = (f"registration {registered.path} holds {_shown(registered.data)}: {_living(client)}",)
    awareness, more = Awareness(), tuple[str, ...]()
    if migration is not None:
        remedy = "its fence and mode are unknown; restart that member"
        awareness, more = _read(migration, "migration id", parse_awareness, awareness, remedy)
    subscription = registration.subscription[:1]  # all that readers use (§1.2)
    if registration.pattern is Pattern.STATIC:
        subscription = tuple(sorted(registration.subscription))
    generated = _GENERATED_ID.fullmatch(name.removeprefix(f"{group}_"))
    member = Member(
        member_id=name,
        kind=MemberKind.ZOOKEEPER if migration is None else MemberKind.AWARE,
        host=generated["host"] if generated else None,
        pattern=registration.pattern.value,
        subscription=subscription,
        **shallow(awareness),
        session_id=registered.owner or None,
    )
    return member, (*_persistent(registered), *problems, *more)


def owner_of(node: Node) -> Owner | str | None:
    """The owner node of one partition, or a sentence about it."""
    partition = _partition(node)
    thread = node.data.decode(errors="replace")
    if isinstance(partition, str):
        return partition
    if node.owner == 0:
        return _persistent(node)[0]
    if not is_thread_id(node.path.split("/")[2], thread):
        client = client_of_partition(str(partition.partition), node.data) or OTHER
        return f"owner node {node.path} holds {_shown(node.data)}, which is no thread id: {_living(client)}"
    return Owner(partition=partition, thread_id=thread, czxid=node.stat.czxid, session_id=node.owner)


def offset_of(node: Node) -> OffsetRow | NoOffset | str:
    """The offset node of one partition, or a sentence about what is none."""
    partition = _partition(node)
    if isinstance(partition, str):
        return partition
    try:
        offset, group = decimal(node.data, node.path), node.path.split("/")[2]
        return OffsetRow(group=group, topic=partition.topic, partition=partition.partition, offset=offset)
    except Rejected:
        held = _shown(node.data)
        return NoOffset(
            partition=partition,
            held=held,
            problem=f"offset node {node.path} holds {held}, which is no decimal offset: "
            "set it to the next offset to read",
        )


def mode_problems(path: str, node: ModeNode) -> tuple[str, ...]:
    """A sentence when the mode node holds neither of the two values (every member reads zookeeper)."""
    text = (
        f"mode node {path} holds {_shown(node.data or b'')}, which every member takes for zookeeper: "
        "set it to exactly kafka or zookeeper (no line end), or delete it"
    )
    return (text,) if node.malformed else ()


def unforeseen(what: str, error: Exception) -> str:
    """A sentence about something of a group that broke its reader: only that group has a problem."""
    return (
        f"{what} cannot be read ({type(error).__name__}: {str(error)[:_SHOWN]}): the group is not moved; "
        "look at its nodes, and report it"
    )


def _read(
    node: Node, what: str, parse: Callable[[bytes, str], T], nothing: T, remedy: str
) -> tuple[T, tuple[str, ...]]:
    """What ``parse`` reads of the node; where it cannot, ``nothing`` and a sentence: what is wrong, without
    the path and the remedy that `parse` says itself, and what to do."""
    try:
        return parse(node.data, node.path), ()
    except Rejected as wrong:
        clause = str(wrong).removeprefix(f"{node.path}: ")
        reason = clause.rpartition("; ")[0] or clause
        if " is not JSON (" in reason or reason.endswith("JSON object"):
            reason = "not a JSON object"
        return nothing, (f"{what} {node.path} holds {_shown(node.data)} ({reason}): {remedy}",)


def _living(client: str) -> str:
    return (
        f"this looks like {client}, and its session lives; the group cannot be moved while that client is "
        "in it: stop that client or give it a group of its own, its nodes go when its session ends"
    )


def _persistent(node: Node) -> tuple[str, ...]:
    if node.owner:
        return ()
    held = f"node {node.path} holds {_shown(node.data)} and is persistent"
    return (f"{held}: no living member made it; delete it if no member has that id",)


def _partition(node: Node) -> TopicPartition | str:
    topic, name = node.path.split("/")[-2:]
    number = partition_number(name)
    if number is not None:
        return TopicPartition(topic, number)
    client = client_of_partition(name, node.data)
    said = f"node {node.path} holds {_shown(node.data)} and is no partition number: "
    if node.owner:
        return f"{said}{_living(client or OTHER)}"
    return f"{said}{client or OTHER} wrote it; no member of the old consumer reads it: find out who uses it"
