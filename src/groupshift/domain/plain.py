"""Values of Python's types from plain ones (JSON, TOML, rows of databases): one reader, led by the types.

`from_plain` reads what groupshift wrote or ships itself, and takes texts and numbers as they are. `built`
reads what others wrote, and takes nothing that has another type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from groupshift.domain.foreign_json import INT64, shown_value

T = TypeVar("T")
_Read = Callable[[Any], Any]
_SAYS: Final[Mapping[type, str]] = {str: "text", bool: "flag", int: "whole number of 0 to 63 bits"}


def shallow(part: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name. `dataclasses.asdict` copies all that is within, too, which
    took a quarter of a scan. Raises `TypeError` for anything else."""
    kind: Any = type(part)
    return {name: getattr(part, name) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def from_plain(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return the dataclass that `dataclasses.asdict` made plain, after JSON, too: enums by their values,
    lists as tuples or sets, dataclasses and named tuples within, and a text where a class has ``parse``.
    What is missing has its default.

    Raises:
        TypeError: an unknown or a missing field, or a word outside its vocabulary; names where it is.
    """
    wanted: Any = kind
    made: T = _reader(wanted, trusted=True)(data)
    return made


def built(kind: Any, value: Any) -> Any:
    """Return ``value``, as it came out of JSON, as a ``kind``: a dataclass (other keys are left out), an
    enum, str, int, bool, ``tuple[kind, ...]``, ``Mapping[str, kind]``, any of them or None.

    Raises:
        TypeError: a value of another type, or a missing field; within one, a word outside its vocabulary.
        ValueError: a word outside its vocabulary.
    """
    return _reader(kind, trusted=False)(value)


@cache
def _reader(wanted: Any, *, trusted: bool) -> _Read:
    """Return what makes a value of this type from its plain form."""
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin in {Union, UnionType}:
        kinds = {is_dataclass(each): _reader(each, trusted=trusted) for each in parts if each is not NoneType}
        if set(kinds.values()) == {_as_it_is}:
            return _as_it_is
        return partial(_one_of, kinds, optional=NoneType in parts)
    if origin in {tuple, frozenset}:
        return partial(_many, origin, _reader(parts[0], trusted=trusted))
    if origin in {Mapping, dict}:
        return partial(_mapping, *(_reader(each, trusted=trusted) for each in parts))
    if is_dataclass(wanted) and not hasattr(wanted, "parse"):
        return partial(_fields, wanted, trusted=trusted)
    return _reader_of_one(wanted, trusted=trusted)


def _reader_of_one(wanted: Any, *, trusted: bool) -> _Read:
    if wanted is Any or not isinstance(wanted, type):
        return _as_it_is
    if issubclass(wanted, tuple):
        return lambda values: wanted(*values)
    if issubclass(wanted, Enum):
        return wanted
    return getattr(wanted, "parse", _as_it_is if trusted else partial(_typed, wanted))


@cache
def _readers(kind: Any, *, trusted: bool) -> Mapping[str, _Read]:
    return {name: _reader(each, trusted=trusted) for name, each in get_type_hints(kind).items()}


def _fields(kind: Any, data: Any, *, trusted: bool) -> Any:
    if type(data) is not dict and not isinstance(data, Mapping):
        raise TypeError(f"{shown_value(data)} is no {kind.__name__}")
    readers = _readers(kind, trusted=trusted)
    if trusted and not data.keys() <= readers.keys():
        raise TypeError(f"{', '.join(sorted(data.keys() - readers.keys()))} is no field of {kind.__name__}")
    known = ((name, readers[name], value) for name, value in data.items() if name in readers)
    return kind(**{name: each if read is _as_it_is else _at(name, read, each) for name, read, each in known})


def _one_of(kinds: Mapping[bool, _Read], value: Any, *, optional: bool) -> Any:
    """Of two types one is a dataclass: the one of an object."""
    if value is None and optional:
        return None
    return (kinds.get(type(value) is dict or isinstance(value, Mapping)) or next(iter(kinds.values())))(value)


def _many(kind: Any, read: _Read, values: Any) -> Any:
    if not isinstance(values, list | tuple):
        raise TypeError(f"{shown_value(values)} is no list")
    if read is _as_it_is:
        return kind(values)
    return kind(_at(place, read, each) for place, each in enumerate(values, 1))


def _mapping(key: _Read, read: _Read, values: Any) -> Any:
    if not isinstance(values, Mapping):
        raise TypeError(f"{shown_value(values)} is no mapping")
    if read is _as_it_is:
        return values
    return {key(name): _at(name, read, each) for name, each in values.items()}


def _at(place: object, read: _Read, value: Any) -> Any:
    """Read the value at this place, which a fault names."""
    try:
        return read(value)
    except (KeyError, TypeError, ValueError) as wrong:
        raise TypeError(f"{place}, {wrong}") from None


def _typed(kind: Any, value: Any) -> Any:
    if type(value) is not kind or (kind is int and not 0 <= value <= INT64):
        raise TypeError(f"{shown_value(value)} is no {_SAYS.get(kind, kind.__name__)}")
    return value


def _as_it_is(value: Any) -> Any:
    return value
