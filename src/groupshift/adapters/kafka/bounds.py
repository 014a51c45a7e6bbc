"""Counts of an answer held against the bytes that are left, before kio decodes it.

kio reserves memory for as many items as an answer says that an array has: 23 bytes of a stranger made it ask
for 256 GiB, and a process that is refused memory there ends without an exception. So each answer is walked
once by its schema: lengths are skipped, each count has to fit into what is left. The walk builds nothing and
costs about as much as the decoding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

Skip = Callable[[bytes, int, int], int]
"""Where a value that begins at a byte of the body ends: ``skip(body, at, end)``. Raises `OutOfBounds`."""

_FIXED = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "uint32": 4,
    "timedelta_i32": 4, "int64": 8, "uint64": 8, "float64": 8, "timedelta_i64": 8, "datetime_i64": 8,
    "uuid": 16,
}  # fmt: skip
_LONGEST_VARINT = 5
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


@cache
def _entity(schema: Any) -> _Value:
    """A message or a part of one: its fields in order, then its tagged fields."""
    plain, tagged = [], {}
    for field in dataclasses.fields(schema):
        tag = field.metadata.get("tag")
        if tag is None:
            plain.append(_field(schema, field, tagged=False))
        else:
            tagged[tag] = _field(schema, field, tagged=True).skip
    if schema.__flexible__:
        plain.append(_Value(_tags(tagged), 1))
    least = sum(value.least for value in plain)
    if all(value.fixed for value in plain):
        return _fixed(least)
    steps = tuple(_merged(plain))

    def skip(body: bytes, at: int, end: int) -> int:
        for step in steps:
            at = step(body, at, end)
        return at

    return _Value(skip, least)


def _merged(values: list[_Value]) -> Iterator[Skip]:
    """The steps of an entity; neighbours of fixed size are one."""
    run = 0
    for value in values:
        if value.fixed:
            run += value.least
            continue
        if run:
            yield _fixed(run).skip
            run = 0
        yield value.skip
    if run:
        yield _fixed(run).skip


def _field(schema: Any, field: Any, *, tagged: bool) -> _Value:
    kind, optional = without_none(field.type)
    is_array = get_origin(kind) is tuple
    part: Any = without_none(get_args(kind)[0])[0] if is_array else kind
    is_entity = dataclasses.is_dataclass(part)
    value = _entity(part) if is_entity else _primitive(field, schema)
    if is_array:
        return _array(value, flexible=schema.__flexible__)
    return _nullable(value) if is_entity and optional and not tagged else value


def without_none(kind: Any) -> tuple[Any, bool]:
    """The type of a field without None, and whether it may be None."""
    if get_origin(kind) not in {UnionType, Union}:
        return kind, False
    return next(each for each in get_args(kind) if each is not NoneType), True


def _primitive(field: Any, schema: Any) -> _Value:
    kind = field.metadata["kafka_type"]
    if kind in _FIXED:
        return _fixed(_FIXED[kind])
    if schema.__flexible__:
        return _Value(_compact_bytes, 1)
    width = 2 if kind == "string" else 4

    def skip(body: bytes, at: int, end: int) -> int:
        length = _legacy_length(body, at, width)
        after = at + width + length
        if after > end:
            raise OutOfBounds(
                f"byte {at}: {length} bytes do not fit into the {end - at - width} that are left"
            )
        return after

    return _Value(skip, width)


def _fixed(size: int) -> _Value:
    return _Value(lambda _, at, __: at + size, size, fixed=True)


def _compact_bytes(body: bytes, at: int, end: int) -> int:
    length = body[at]
    at += 1
    if length >= _CONTINUES:
        length, at = _varint(body, at - 1)
    after = at + length - 1 if length else at
    if after > end:
        raise OutOfBounds(f"byte {at}: {length - 1} bytes do not fit into the {end - at} that are left")
    return after


def _nullable(value: _Value) -> _Value:
    """A struct that may be null: a byte says so (KIP-893)."""

    def skip(body: bytes, at: int, end: int) -> int:
        return value.skip(body, at + 1, end) if body[at] < _CONTINUES else at + 1

    return _Value(skip, 1)


def _array(item: _Value, *, flexible: bool) -> _Value:
    """An array with its count; as many items as it says have to fit into what is left."""
    each, least = item.skip, max(item.least, 1)

    def skip(body: bytes, at: int, end: int) -> int:
        if flexible:
            count, at = _varint(body, at)
            count -= 1
        else:
            count, at = _legacy_length(body, at, 4), at + 4
        if count > (end - at) // least:
            raise OutOfBounds(f"byte {at}: {count} items do not fit into the {end - at} bytes that are left")
        if item.fixed:
            return at + max(count, 0) * item.least
        for _ in range(count):
            at = each(body, at, end)
        return at

    return _Value(skip, 1 if flexible else 4)


def _tags(known: dict[int, Skip]) -> Skip:
    """Tagged fields: a count, then number, size and bytes of each; the known ones are walked, too."""

    def skip(body: bytes, at: int, end: int) -> int:
        count = body[at]
        at += 1
        if not count:
            return at
        if count >= _CONTINUES:
            count, at = _varint(body, at - 1)
        if count > (end - at) // 2:
            raise OutOfBounds(
                f"byte {at}: {count} tagged fields do not fit into the {end - at} bytes that are left"
            )
        for _ in range(count):
            tag, at = _varint(body, at)
            size, at = _varint(body, at)
            if size > end - at:
                raise OutOfBounds(f"byte {at}: a tagged field of {size} bytes, {end - at} are left")
            if tag in known:
                known[tag](body, at, at + size)
            at += size
        return at

    return skip


def _legacy_length(body: bytes, at: int, width: int) -> int:
    """A length before its bytes or items, 0 for null (-1). Raises `OutOfBounds` for other negative ones."""
    raw = body[at : at + width]
    if len(raw) < width:
        raise OutOfBounds("it ends too early")
    length = int.from_bytes(raw, "big", signed=True)
    if length < -1:
        raise OutOfBounds(f"byte {at}: a length of {length}")
    return max(length, 0)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint and where it ends."""
    value = 0
    for number in range(_LONGEST_VARINT):
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << (7 * number)
        if byte < _CONTINUES:
            return value, at
    raise OutOfBounds(f"byte {at}: a number longer than {_LONGEST_VARINT} bytes")
