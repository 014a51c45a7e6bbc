"""Tables that ship with groupshift as TOML: reads them and refuses what a table may not hold.

Every fault is one sentence that names the file, the entry, the field, the value and what is allowed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import TypeVar

from groupshift.domain.foreign_json import shown_value
from groupshift.domain.plain import from_plain
from groupshift.errors import Rejected

_T = TypeVar("_T")
_Word = TypeVar("_Word", bound=StrEnum)


def shipped(path: str) -> str:
    """The text of a file of the package, such as ``domain/hazards.toml``."""
    return files("groupshift").joinpath(*path.split("/")).read_text(encoding="utf-8")


def table_of(kind: type[_T], file: str, text: str = "") -> _T:
    """Return the table that ships as ``file`` (or ``text``, TOML of such a one), read by the types of a
    dataclass.

    Raises:
        Rejected: it is no TOML, a field is unknown or missing, or a word is outside its vocabulary.
    """
    try:
        return from_plain(kind, tomllib.loads(text or shipped(file)))
    except (Rejected, TypeError, ValueError) as fault:
        raise Rejected(f"{file}: {fault}") from fault


@dataclass(frozen=True, slots=True)
class Entry:
    """One table of a file; ``where`` names both for people."""

    where: str
    values: Mapping[str, object]

    def fault(self, field: str, allowed: str) -> Rejected:
        """The sentence that refuses the value of a field, or says that there is none."""
        if field not in self.values:
            return Rejected(f"{self.where}: the field {field} is missing; allowed: {allowed}")
        return Rejected(f"{self.where}, {field}: {_shown(self.values[field])} is refused; allowed: {allowed}")

    def only(self, required: Collection[str], optional: Collection[str] = ()) -> None:
        """Check the names of the fields. Raises `Rejected` for one that is unknown or missing."""
        known = (*required, *optional)
        for field in self.values:
            if field not in known:
                raise Rejected(f"{self.where}: the field {field!r} is unknown; allowed: {', '.join(known)}")
        for field in required:
            if field not in self.values:
                raise Rejected(
                    f"{self.where}: the field {field} is missing; allowed: all of {', '.join(required)}"
                )

    def text(self, field: str, default: str | None = None) -> str:
        """A text of one line. Raises `Rejected` for any other value, also for an empty one."""
        value = self.values.get(field, default)
        if not isinstance(value, str) or (
            field in self.values and not (value and value == value.strip() and value.isprintable())
        ):
            raise self.fault(field, "a text of one line without a space at its ends")
        return value

    def word(self, field: str, words: type[_Word]) -> _Word:
        """One word of a closed vocabulary. Raises `Rejected` for any other value."""
        value = self.values.get(field)
        if not isinstance(value, str) or value not in set(words):
            raise self.fault(field, f"one of {', '.join(words)}")
        return words(value)

    def names(self, field: str, form: re.Pattern[str]) -> tuple[str, ...]:
        """A list of texts of this form. Raises `Rejected` for any other value, and for an empty list."""
        value = self.values.get(field)
        if not isinstance(value, list) or not value:
            raise self.fault(field, "a list of names that is not empty")
        for each in value:
            if not isinstance(each, str) or not form.fullmatch(each):
                raise Rejected(f"{self.where}, {field}: {_shown(each)} is refused; allowed: {form.pattern}")
        return tuple(value)

    def table(self, field: str) -> Entry:
        """A table of this one. Raises `Rejected` for another value, and for an empty table."""
        value = self.values.get(field)
        if not isinstance(value, dict) or not value:
            raise self.fault(field, "a table that is not empty")
        return Entry(f"{self.where}, {field}", value)


def parsed(text: str, file: str) -> Entry:
    """The outermost table of a TOML file. Raises `Rejected` for what is no TOML."""
    try:
        return Entry(file, tomllib.loads(text))
    except tomllib.TOMLDecodeError as fault:
        raise Rejected(f"{file}: {fault}; allowed: TOML 1.0") from fault


def unique(values: Iterable[str], where: str) -> None:
    """Check that no value comes twice; ``where`` is file and field. Raises `Rejected`."""
    known: set[str] = set()
    for value in values:
        if value in known:
            raise Rejected(f"{where}: {value!r} is there twice; allowed: each value once")
        known.add(value)


def _shown(value: object) -> str:
    try:
        return shown_value(value)
    except TypeError:  # a date of TOML
        return str(value)
