"""What members of consumer groups say about themselves: the bytes inside types 2 and 5.

A broker keeps these bytes unread, so nothing in here changes a record's status. Rules: a version above
3 is read as 3 and what follows is kept as ``remainder`` (forward-compatible by design); a blob that ends
early ends at a field's edge (some clients leave the user data out); an empty assignment is a member that
has not synced. User data belongs to the assignor and stays hex.

Source: specs/group-coordinator.md §1.5.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from groupshift.domain.coordinator_log.fields import (
    Field,
    Kind,
    Schema,
    int32,
    numbers,
    structs,
    text,
    text_or_null,
    texts,
)
from groupshift.domain.coordinator_log.reading import Unreadable, read_message

_INT16 = struct.Struct(">h")
_REMEMBERED = 1 << 12
_USER_DATA = Field(name="userData", kind=Kind.BYTES, nullable=True)
_TOPIC_PARTITIONS = (text("topic"), numbers("partitions"))

SUBSCRIPTION = Schema(
    fields=(
        texts("topics"),
        _USER_DATA,
        structs("ownedPartitions", *_TOPIC_PARTITIONS, since=1),
        int32("generationId", since=2),
        text_or_null("rackId", since=3),
    ),
    newest=3,
)
ASSIGNMENT = Schema(fields=(structs("assignedPartitions", *_TOPIC_PARTITIONS), _USER_DATA), newest=3)

_PIECES = {
    schema: tuple((field, Schema(fields=(field,))) for field in schema.fields)
    for schema in (SUBSCRIPTION, ASSIGNMENT)
}
"""Each field by itself, for a blob may end behind any of them."""

CONSUMER = "consumer"
"""The protocol type whose member bytes these are; those of others (connect, sr) stay opaque."""


def read_blob(schema: Schema, blob: bytes) -> dict[str, Any]:
    """A subscription or an assignment: ``version`` and the fields that are there.

    ``remainder`` holds what is left as hex, ``problem`` says what could not be read; neither raises.
    """
    if not blob:
        return {"version": None}
    if len(blob) < _INT16.size:
        return {"version": None, "problem": f"{len(blob)} bytes hold no version"}
    version: int = _INT16.unpack_from(blob)[0]
    if version < schema.oldest:
        return {"version": version, "problem": f"version {version} is below {schema.oldest}"}
    row: dict[str, Any] = {"version": version}
    at = _INT16.size
    for field, piece in _PIECES[schema]:
        if not field.in_version(min(version, schema.newest)):
            continue
        if at == len(blob):
            return row
        try:
            value, at = read_message(piece, field.since, blob, at, [])
        except Unreadable as error:
            return row | {"problem": str(error)}
        row |= value
    return row | {"remainder": blob[at:].hex()} if at < len(blob) else row


def attach(record_type: int, value: dict[str, Any]) -> None:
    """Add ``embedded`` to the members of a classic consumer group (type 2) and to the protocols of a
    classic member of a consumer group (type 5)."""
    if record_type == 2 and value["protocolType"] == CONSUMER:  # noqa: PLR2004
        for member in value["members"]:
            member["embedded"] = {
                "subscription": _shown(SUBSCRIPTION, member["subscription"]),
                "assignment": _shown(ASSIGNMENT, member["assignment"]),
            }
    elif record_type == 5 and value.get("classicMemberMetadata"):  # noqa: PLR2004
        for protocol in value["classicMemberMetadata"]["supportedProtocols"]:
            protocol["embedded"] = {"metadata": _shown(SUBSCRIPTION, protocol["metadata"])}


@lru_cache(maxsize=_REMEMBERED)
def _shown(schema: Schema, blob: str) -> dict[str, Any]:
    """Members of a group mostly say the same, record after record; rows share what they show."""
    return read_blob(schema, bytes.fromhex(blob))
