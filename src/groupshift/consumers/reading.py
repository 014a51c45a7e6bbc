"""Reading single keys of a consumer's configuration, collecting what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class Reader:
    """Every method returns a value of its type, also when ``problems`` got a sentence."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.problems: list[str] = []

    def text(self, key: str) -> str:
        """A text that has to be there."""
        value = self.raw.get(key)
        if value in (None, ""):
            self.problems.append(f"{key} is missing: set it")
            return ""
        return str(value)

    def name(self, key: str, default: str) -> str:
        """A name as Kafka allows it (§2)."""
        value = str(self.raw.get(key, default))
        if not _NAME.fullmatch(value):
            self.problems.append(
                f"{key} {value!r} may hold only letters, digits, '.', '_' and '-': rename it"
            )
        return value

    def flag(self, *keys: str, default: bool = True) -> bool:
        """The first key that is set."""
        key = next((each for each in keys if each in self.raw), None)
        value = str(self.raw.get(key or "", default)).lower()
        if value not in ("true", "false"):
            self.problems.append(f"{key} {value!r} is neither true nor false: write one of them")
        return value == "true"

    def number(self, key: str, what: str, *, upto: int | None = None) -> int | None:
        """A whole number from 0, None when the key is not set; ``what`` says what it stands for."""
        value = self.raw.get(key)
        if value is None:
            return None
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            number = -1
        if number < 0 or (upto is not None and number > upto):
            self.problems.append(f"{key} {value!r} is not {what}: correct it")
            return 0
        return number

    def milliseconds(self, key: str, default: int) -> float:
        """Seconds."""
        found = self.number(key, "a number of milliseconds")
        return (default if found is None else found) / 1000

    def choice(self, key: str, default: str, choices: Mapping[str, T]) -> T:
        """One of the keys of ``choices``."""
        value = str(self.raw.get(key, default))
        if value not in choices:
            self.problems.append(f"{key} {value!r} is not one of {', '.join(choices)}: choose one")
        return choices.get(value, choices[default])

    def same(self, one: str, other: str) -> None:
        """Two keys that mean the same must not differ."""
        first, second = self.raw.get(one), self.raw.get(other)
        if first is not None and second is not None and str(first).lower() != str(second).lower():
            self.problems.append(
                f"{one} {first!r} and {other} {second!r} contradict each other: remove one of them"
            )
