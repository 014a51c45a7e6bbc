"""Frozen dataclasses from what JSON and databases know, by the types of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def from_plain(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return the dataclass that `dataclasses.asdict` made plain, after JSON, too: enums by their values,
    lists as tuples, dataclasses and named tuples within. What is missing has its default.

    Raises:
        KeyError, TypeError, ValueError: an unknown or a missing field, or a word outside its vocabulary.
    """
    wanted: Any = kind
    readers = _readers(wanted)
    return kind(**{name: readers[name](value) for name, value in data.items()})


@cache
def _readers(kind: Any) -> Mapping[str, Callable[[Any], Any]]:
    return {name: _reader(each) for name, each in get_type_hints(kind).items()}


def _reader(wanted: Any) -> Callable[[Any], Any]:
    """What makes a value of this type from its plain form."""
    parts = get_args(wanted)
    if get_origin(wanted) in {Union, UnionType}:
        inner = _reader(next(each for each in parts if each is not NoneType))
        return lambda value: None if value is None else inner(value)
    if get_origin(wanted) is tuple:
        return partial(_tuple_of, _reader(parts[0]))
    if not isinstance(wanted, type):
        return _as_it_is
    if is_dataclass(wanted):
        return partial(from_plain, wanted)
    if issubclass(wanted, tuple):
        return lambda values: wanted(*values)
    return wanted if issubclass(wanted, Enum) else _as_it_is


def _tuple_of(read: Callable[[Any], Any], values: Any) -> tuple[Any, ...]:
    return tuple(map(read, values))


def _as_it_is(value: Any) -> Any:
    return value
