"""The last proven position of each group and partition, as records of a compacted topic on the target.

For the day on which the source is lost, and the journal with it: the topic alone says where groups may go on.
A proven position stays safe as long as both topics are the same ones.

A record's key is a JSON array, ``["<group>","<target topic>",<partition>]``. Its value is a JSON object; a
tombstone says that there is none any more::

    {"version":1,"source_topic":"orders","source_offset":1050,"target_offset":901,"source_topic_id":"…",
     "target_topic_id":"…","certainty":"exact-proven","proven_at_ms":1700000000000}

Topic ids are as Kafka's tools print them, empty where brokers tell none. What is added later is left out by
who does not know it; what changes a meaning raises the version.

Source: docs/reference/cross-cluster-offsets.md §8.1.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple, Protocol

from groupshift.domain.foreign_json import load_json, load_object, shown_value
from groupshift.domain.plain import built
from groupshift.errors import Rejected
from groupshift.links.translation import Certainty
from groupshift.log.codec import Unreadable

VERSION: Final = 1


class PositionKey(NamedTuple):
    """A group, and a partition on the target."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenPosition:
    """A group that has committed ``source_offset`` of ``source_topic`` goes on at ``target_offset``.

    ``proven_at_ms`` is the time of the proof (epoch ms)."""

    source_topic: str
    source_offset: int
    target_offset: int
    source_topic_id: str
    target_topic_id: str
    certainty: Certainty
    proven_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsRead:
    """What the topic says. ``unreadable`` counts records that are no positions, ``problem`` says what is
    wrong with the first of them."""

    positions: Mapping[PositionKey, ProvenPosition]
    unreadable: int = 0
    problem: str = ""


def encode_position(key: PositionKey, position: ProvenPosition | None) -> tuple[bytes, bytes | None]:
    """Return key and value of a record; None gives a tombstone."""
    value = None if position is None else _json({"version": VERSION, **asdict(position)})
    return _json(key), value


def decode_position(key: bytes | None, value: bytes | None) -> tuple[PositionKey, ProvenPosition | None]:
    """Return what a record says; None for a tombstone.

    Raises:
        Unreadable: its bytes are no position, or one of a version that is not known.
    """
    try:
        parts = load_json(key, "key")
        if not isinstance(parts, list) or list(map(type, parts)) != [str, str, int]:
            raise Unreadable(f"key: {shown_value(parts)} is no group, topic and partition")
        if value is None:
            return PositionKey(*parts), None
        fields = load_object(value, "value")
        if fields.get("version") != VERSION:
            raise Unreadable(f"value: version {shown_value(fields.get('version'))} is not known")
        return PositionKey(*parts), built(ProvenPosition, fields)
    except (Rejected, TypeError, ValueError) as wrong:
        raise Unreadable(str(wrong)) from None


def positions_in(records: Iterable[tuple[int, bytes | None, bytes | None]]) -> PositionsRead:
    """Return what the records say together, given by offset, key and value in the order of the log: of each
    key the last one counts. A record that cannot be read is counted and passed over."""
    positions: dict[PositionKey, ProvenPosition] = {}
    unreadable, problem = 0, ""
    for offset, key, value in records:
        try:
            of, position = decode_position(key, value)
        except Unreadable as wrong:
            unreadable += 1
            problem = problem or f"offset {offset}: {wrong}"
            continue
        if position is None:
            positions.pop(of, None)
        else:
            positions[of] = position
    return PositionsRead(positions=positions, unreadable=unreadable, problem=problem)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class ProvenPositions(Protocol):
    """The compacted topic of one link on its target cluster.

    Raises `Rejected` when the cluster refuses or the topic is not as it has to be, `Transient` when brokers
    do not answer in time."""

    def prepare(self) -> None:
        """Make the topic where it is missing. Raises `Rejected` where one of its name is not compacted."""

    def write(self, positions: Mapping[PositionKey, ProvenPosition]) -> None:
        """Write these and wait until all replicas have them. Safe to repeat."""

    def forget(self, keys: Collection[PositionKey]) -> None:
        """Write tombstones. Safe to repeat."""

    def read(self) -> PositionsRead:
        """Everything that the topic says now; nothing where there is no such topic."""
