"""Whether the values of a log were written by Apache Kafka's coordinators, or by somebody with other layouts.

Redpanda keeps Kafka's keys and puts an int16 of its own into each member of GroupMetadata (franz-go#799).
What Apache Kafka's loader would make of such values says nothing about the broker that wrote them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from groupshift.log.codec import Unreadable, read_message
from groupshift.log.decode import Decoded, DecodeStatus
from groupshift.log.schema import GROUP_METADATA, Schema, int16

_ENOUGH = 2
"""Values of one type, of so many groups, none of which can be read, from which on a log is another's: fewer
may be damaged."""
_CLASSIC, _MEMBERS = 2, "members"
_UNREAD = frozenset({DecodeStatus.ERROR, DecodeStatus.TRAILING_BYTES})
_VERSION_BYTES = 2


def _with_number(*, first: bool) -> Schema:
    """GroupMetadata with one int16 more in each member."""
    extra = (int16("extra"),)
    fields = tuple(
        replace(each, fields=(*extra, *each.fields) if first else (*each.fields, *extra))
        if each.name == _MEMBERS
        else each
        for each in GROUP_METADATA.fields
    )
    return replace(GROUP_METADATA, fields=fields)


_OTHERS = (_with_number(first=True), _with_number(first=False))


def other_writers(records: Iterable[Decoded]) -> tuple[str, ...]:
    """The types, by name, whose values Apache Kafka did not write: all alike cannot be read, or have a
    layout that another broker is known for. Empty: nothing speaks against Apache Kafka. Never raises."""
    values: dict[str, list[Decoded]] = defaultdict(list)
    for each in records:
        if each.type_name and each.raw_value is not None and not _says_nothing(each):
            values[each.type_name].append(each)
    return tuple(sorted(name for name, found in values.items() if _is_anothers(found)))


def _says_nothing(record: Decoded) -> bool:
    """A key that cannot be read, a version that may come with a newer Kafka, and a group without members,
    which is written alike by all."""
    return (
        record.decode_status in {DecodeStatus.UNKNOWN_TYPE, DecodeStatus.UNKNOWN_VERSION}
        or record.problem.startswith("key")
        or (record.record_type == _CLASSIC and (record.decoded or {}).get(_MEMBERS) == [])
    )


def _is_anothers(values: list[Decoded]) -> bool:
    if any(each.decode_status not in _UNREAD for each in values):
        return False
    known = all(each.record_type == _CLASSIC and _is_known(each.raw_value or b"") for each in values)
    return known or len({each.group_id for each in values}) >= _ENOUGH


def _is_known(value: bytes) -> bool:
    """Whether it is GroupMetadata in a layout of another broker, to its last byte."""
    version = int.from_bytes(value[:_VERSION_BYTES], "big", signed=True)
    return any(_reads(schema, version, value) for schema in _OTHERS)


def _reads(schema: Schema, version: int, value: bytes) -> bool:
    try:
        return read_message(schema, version, value, _VERSION_BYTES, [])[1] == len(value)
    except Unreadable:
        return False


def sentence(types: Iterable[str]) -> str:
    """What is to be said of such a log."""
    return (
        f"the values of {', '.join(types)} in the log were not written by Apache Kafka (none can be read): "
        "nothing is claimed about it"
    )
