"""Clients that keep a group in the same tree of ZooKeeper and are not Kafka's old consumer.

Each writes a layout of its own below ``/consumers/<g>``. The old consumer's
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
from typing import Final

from groupshift.domain.foreign_json import load_json
from groupshift.domain.registration import MOST_STREAMS, is_topic_name
from groupshift.errors import Rejected

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
_STREAM: Final = re.compile(r"0|[1-9][0-9]{0,4}")


def is_thread_id(group: str, text: str) -> bool:
    """Whether ``text`` is what a member of Kafka's old consumer writes into its owner nodes (§2)."""
    consumer, dash, stream = text.rpartition("-")
    numbered = bool(dash) and _STREAM.fullmatch(stream) is not None and int(stream) < MOST_STREAMS
    return numbered and consumer.startswith(f"{group}_") and len(consumer) > len(group) + 1


def client_of_registration(group: str, name: str, data: bytes) -> str | None:
    """Which other client writes such a node below ``ids``; None for the old consumer, and for what no client
    writes."""
    text = data[:20_000].decode("utf-8", errors="replace")
    if _HOST_AND_UUID.fullmatch(name):
        return PYKAFKA if is_topic_name(text) else GO
    if not name.startswith(f"{group}_"):
        return OTHER
    try:
        value = load_json(data, name)
    except Rejected:
        value = None
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
