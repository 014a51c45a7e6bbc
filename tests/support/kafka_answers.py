"""Random answers of every request that groupshift sends, by kio's schemas, and ways to spoil bytes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import random
import resource
import time
import uuid
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer

from groupshift.adapters.kafka.wire import Api, Malformed, decoded

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16}
_EXTREMES = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 5)


def schemas() -> Iterator[Any]:
    """Every version of every answer that the raw client may decode."""
    for api in Api:
        for version in schema_name_map[api_key_map[api]]:
            yield load_response_schema(api, version)


def some(schema: Any, chance: random.Random, depth: int = 0) -> Any:
    """An instance of a schema with random values; deeper arrays are shorter."""
    return schema(**{each.name: _value(each, chance, depth) for each in dataclasses.fields(schema)})


def body_of(message: Any, chance: random.Random) -> bytes:
    """Header and message as the body of a frame."""
    out = io.BytesIO()
    header = message.__header_schema__
    entity_writer(header)(out, header(correlation_id=chance.randrange(2**31)))
    entity_writer(type(message))(out, message)
    return out.getvalue()


def spoiled(data: bytes, chance: random.Random) -> bytes:
    """``data`` after one to four of: a bit turned, bytes set to extremes, cut, a piece doubled or put in."""
    raw = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw)) if raw else 0
        match chance.randrange(6):
            case 0 if raw:
                raw[at] ^= 1 << chance.randrange(8)
            case 1 if raw:
                raw[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
            case 2:
                raw[at : at + 4] = chance.choice(_EXTREMES)
            case 3:
                del raw[at:]
            case 4:
                raw[at:at] = raw[at : at + chance.randrange(64)]
            case _:
                raw[at:at] = chance.randbytes(chance.randrange(8))
    return bytes(raw)


def _value(field: Any, chance: random.Random, depth: int) -> Any:
    kind, optional = _without_none(field.type)
    if optional and field.metadata.get("tag") is None and chance.random() < 0.2:
        return None
    if get_origin(kind) is tuple:
        item, _ = _without_none(get_args(kind)[0])
        count = chance.randrange(4 if depth < 2 else 2)
        return tuple(_item(item, field, chance, depth) for _ in range(count))
    return _item(kind, field, chance, depth)


def _item(kind: Any, field: Any, chance: random.Random, depth: int) -> Any:  # noqa: PLR0911 - a table
    if dataclasses.is_dataclass(kind):
        return some(kind, chance, depth + 1)
    match field.metadata["kafka_type"]:
        case "bool":
            return chance.random() < 0.5
        case "string":
            return "".join(chance.choices("abcß漢-._", k=chance.choice((0, 3, 20, 300))))
        case "bytes" | "records":
            return chance.randbytes(chance.choice((0, 5, 200)))
        case "uuid":
            return uuid.UUID(bytes=chance.randbytes(16))
        case "error_code":
            return chance.choice(list(ErrorCode))
        case "float64":
            return chance.random()
        case "timedelta_i32" | "timedelta_i64":
            return dt.timedelta(milliseconds=chance.randrange(2**31))
        case "datetime_i64":
            return dt.datetime.fromtimestamp(chance.randrange(2**31), tz=dt.UTC)
        case number:
            return chance.getrandbits(_BITS[number])


def _without_none(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) not in {UnionType, Union}:
        return kind, False
    return next(each for each in get_args(kind) if each is not NoneType), True


def endure(inputs: int, memory: int) -> str:
    """Decode spoiled answers within ``memory`` bytes of address space and a second each.

    Returns how many were read and how many were refused; anything but `Malformed` is raised."""
    chance = random.Random(5)
    known = [(schema, body_of(some(schema, chance), chance)) for schema in schemas() for _ in range(5)]
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    read = refused = 0
    for _ in range(inputs):
        schema, body = chance.choice(known)
        began = time.monotonic()
        try:
            decoded(schema, spoiled(body, chance))
            read += 1
        except Malformed:
            refused += 1
        if time.monotonic() - began > 1:
            raise AssertionError(f"{schema} took more than a second")
    return f"{read} {refused}"
