"""The written functions have room: no value makes more JSON than was kept for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupshift.log.schema import ASSIGNMENT, SUBSCRIPTION, TYPES, Field, FieldType
from groupshift.spark.batches.coordinator_json import EXPANSION, HEAD

_BYTES = {FieldType.INT8: 1, FieldType.INT16: 2, FieldType.INT32: 4, FieldType.INT64: 8, FieldType.UUID: 16}
_TEXT = {FieldType.INT8: 4, FieldType.INT16: 6, FieldType.INT32: 11, FieldType.INT64: 20, FieldType.UUID: 24}
_EMBEDDED = len(',"embedded":{"subscription":{"version":null},"assignment":{"version":null}}')
SCHEMAS = [*(TYPES[number].values[0] for number in range(2, 9)), SUBSCRIPTION, ASSIGNMENT]


def sizes(fields: tuple[Field, ...], version: int, *, flexible: bool) -> tuple[int, int]:
    """Fewest bytes and longest JSON of a struct whose texts and arrays are empty."""
    fewest, longest = int(flexible), len("{},")
    for field in (each for each in fields if each.in_version(version)):
        size, text = (1 if flexible else 2 if field.kind is FieldType.STRING and not field.array else 4), 4
        if field.kind in _BYTES and not field.array:
            size, text = _BYTES[field.kind], _TEXT[field.kind]
        fewest += size if field.tag is None else size + 2
        longest += len(f',"{field.name}":') + text
    return fewest, longest + (_EMBEDDED if fields[-1].name == "assignment" else 0)


def elements(fields: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
    """The structs that can come more than once."""
    for field in fields:
        if field.fields:
            yield field.fields
            yield from elements(field.fields)


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_a_value_has_room_for_its_json(number: int) -> None:
    """A record that says nothing but structs of empty fields grows most; the compiled code does not look."""
    schema = SCHEMAS[number]
    flexible = schema.is_flexible(schema.oldest)
    for version in range(schema.oldest, schema.newest + 1):
        if schema.is_flexible(version) is not flexible:  # not compiled
            continue
        assert sizes(schema.fields, version, flexible=flexible)[1] <= HEAD
        for fields in elements(schema.fields):
            fewest, longest = sizes(fields, version, flexible=flexible)
            assert longest <= EXPANSION * fewest
