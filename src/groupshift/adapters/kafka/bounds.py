"""Counts of an answer held against the bytes that are left, before kio decodes it.

kio reserves memory for as many items as an answer says that an array has: 23 bytes of a stranger made it ask
for 256 GiB, and a process that is refused memory there ends without an exception. So each answer is walked
once by its schema: lengths are skipped, each count has to fit into what is left. The walk builds nothing and
costs about as much as the decoding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from kio.serial.readers import read_unsigned_varint

Skip = Callable[[bytes, int, int], int]
"""Where a value that begins at a byte of the body ends: ``skip(body, at, end)``. Raises `OutOfBounds`."""

_FIXED = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "uint32": 4,
    "timedelta_i32": 4, "int64": 8, "uint64": 8, "float64": 8, "timedelta_i64": 8, "datetime_i64": 8,
    "uuid": 16,
}  # fmt: skip
_COMPACT = 0
"""Instead of the width of a length: it is a varint of one more than the length (flexible versions)."""
_CONTINUES = 0x80


class OutOfBounds(ValueError):
    """An answer whose lengths or counts say more than it has bytes."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Value:
    """How a value is skipped, and the fewest bytes that it takes; ``fixed`` when it never takes more."""

    skip: Skip
    least: int
    fixed: bool = False


def hold(schema: Any, body: bytes, at: int) -> int:
    """Walk the message of kio's ``schema`` that begins at byte ``at``. Returns where it ends.

    Raises `OutOfBounds` when a length or a count goes beyond the body."""
    try:
        after = _entity(schema).skip(body, at, len(body))
    except IndexError:
        raise OutOfBounds("it ends too early") from None
    if after > len(body):
        raise OutOfBounds(f"it ends {after - len(body)} bytes after the answer")
    return after


def without_none(kind: Any) -> tuple[Any, bool]:
    """The type of a field without None, and whether it may be None."""
    if get_origin(kind) not in {UnionType, Union}:
        return kind, False
    return next(each for each in get_args(kind) if each is not NoneType), True


@cache
def _entity(schema: Any) -> _Value:
    """A message or a part of one: its fields in order, then its tagged fields."""
    plain, tagged = [], {}
    for field in dataclasses.fields(schema):
        if (tag := field.metadata.get("tag")) is None:
            plain.append(_field(schema, field))
        else:
            tagged[tag] = _field(schema, field).skip
    steps: list[tuple[int, Skip]] = []
    gap = 0  # bytes of fixed size before the next step
    for value in plain:
        gap += value.least if value.fixed else 0
        if not value.fixed:
            steps.append((gap, value.skip))
            gap = 0
    flexible, least = schema.__flexible__, sum(value.least for value in plain)
    if not (steps or flexible):
        return _Value(partial(_fixed, least), least, fixed=True)

    def skip(body: bytes, at: int, end: int) -> int:
        for before, step in steps:
            at = step(body, at + before, end)
        at += gap
        if flexible:
            return _tags(tagged, body, at, end) if body[at] else at + 1
        return at

    return _Value(skip, least + flexible)


def _field(schema: Any, field: Any) -> _Value:
    """A field of an entity: a number, a text or bytes, another entity, or an array of one of them."""
    kind, optional = without_none(field.type)
    is_array = get_origin(kind) is tuple
    part: Any = without_none(get_args(kind)[0])[0] if is_array else kind
    count = _COMPACT if schema.__flexible__ else 4
    if hasattr(part, "__flexible__"):
        value = _entity(part)
        if optional and not is_array and "tag" not in field.metadata:
            value = _Value(partial(_nullable, value.skip), 1)
    elif field.metadata["kafka_type"] in _FIXED:
        size = _FIXED[field.metadata["kafka_type"]]
        value = _Value(partial(_fixed, size), size, fixed=True)
    else:
        width = 2 if count and field.metadata["kafka_type"] == "string" else count
        value = _Value(partial(_bytes, width), max(width, 1))
    return _Value(partial(_array, value, count), max(count, 1)) if is_array else value


def _fixed(size: int, _: bytes, at: int, __: int) -> int:
    return at + size


def _bytes(width: int, body: bytes, at: int, end: int) -> int:
    if width == _COMPACT and at + (short := body[at]) <= end and short < _CONTINUES:
        return at + (short or 1)
    length, at = _length(width, body, at)
    if length > end - at:
        raise OutOfBounds(f"byte {at}: {length} bytes do not fit into the {end - at} that are left")
    return at + length


def _nullable(skip: Skip, body: bytes, at: int, end: int) -> int:
    """A struct that may be null: a byte says so (KIP-893)."""
    return skip(body, at + 1, end) if body[at] < _CONTINUES else at + 1


def _array(item: _Value, width: int, body: bytes, at: int, end: int) -> int:
    """An array with its count; as many items as it says have to fit into what is left."""
    count, at = _length(width, body, at)
    if count > (end - at) // max(item.least, 1):
        raise OutOfBounds(f"byte {at}: {count} items do not fit into the {end - at} bytes that are left")
    if item.fixed:
        return at + count * item.least
    for _ in range(count):
        at = item.skip(body, at, end)
    return at


def _tags(known: Mapping[int, Skip], body: bytes, at: int, end: int) -> int:
    """Tagged fields: a count, then number, size and bytes of each; the known ones are walked, too."""
    count, at = _varint(body, at)
    if count > (end - at) // 2:
        raise OutOfBounds(f"byte {at}: {count} tags do not fit into the {end - at} bytes that are left")
    for _ in range(count):
        tag, at = _varint(body, at)
        size, at = _varint(body, at)
        if size > end - at:
            raise OutOfBounds(f"byte {at}: a tagged field of {size} bytes, {end - at} are left")
        if tag in known:
            known[tag](body, at, at + size)
        at += size
    return at


def _length(width: int, body: bytes, at: int) -> tuple[int, int]:
    """A length before its bytes or items, 0 for null, and where it ends. Raises `OutOfBounds` for negative
    ones."""
    if width == _COMPACT:
        length = body[at]
        at += 1
        if length >= _CONTINUES:
            length, at = _varint(body, at - 1)
        return (length - 1 if length else 0), at
    raw = body[at : at + width]
    length = int.from_bytes(raw, "big", signed=True)
    if len(raw) < width or length < -1:
        raise OutOfBounds(f"byte {at}: a length of {length}, {len(raw)} of {width} bytes")
    return max(length, 0), at + width


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint and where it ends."""
    value, size = read_unsigned_varint(body, at)
    return value, at + size
