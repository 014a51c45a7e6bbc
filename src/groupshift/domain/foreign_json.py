"""JSON and decimal numbers that somebody else wrote: one bounded reader for all of them.

Whatever comes from outside (znodes, commit metadata, evidence files, answers of commands) is read here.
A text that is too large, too deep or says two things becomes one `Rejected` sentence. No input raises
anything else, and none costs more than a small multiple of its own size.

Policy, beyond RFC 8259:

* bytes are UTF-8, without a byte order mark; at most ``at_most`` bytes, nested at most `DEPTH` deep;
* integers fit 64 bits; a fraction or an exponent gives a finite number; ``NaN`` and ``Infinity`` are refused;
* an object names each key once: readers in other languages disagree about which of two counts;
* strings hold no lone surrogate, so that every value can be written as UTF-8 again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from groupshift.errors import Rejected

P = ParamSpec("P")
T = TypeVar("T")

NODE_BYTES: Final = 4 * 1024 * 1024
"""ZooKeeper refuses nodes above 1 MiB unless it is told otherwise (``jute.maxbuffer``)."""

FILE_BYTES: Final = 256 * 1024 * 1024
"""Enough for every JSON file of an evidence pack."""

DEPTH: Final = 64
INT64: Final = 2**63 - 1
DIGITS: Final = 19
"""As many digits as the largest 64-bit integer has."""

_SHOWN: Final = 80
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_WHOLE: Final = re.compile(r"-?[0-9]+")


class _Refused(ValueError):
    """A value inside the text that the policy refuses."""


def load_json(data: bytes | str | None, where: str, *, at_most: int = NODE_BYTES) -> Any:
    """The value that ``data`` holds; ``where`` is the node, file or field it comes from.

    Raises:
        Rejected: ``<where>: <what is wrong>``, for everything that is no JSON within the bounds.
    """
    raw = b"" if data is None else data
    if len(raw) > at_most:
        raise Rejected(f"{where}: is {len(raw)} bytes long; at most {at_most} are read")
    try:
        text = (raw.encode() if isinstance(raw, str) else raw).decode()
    except UnicodeError:
        raise Rejected(f"{where}: {shown(data)} is no UTF-8") from None
    if text.startswith("\ufeff"):
        raise Rejected(f"{where}: {shown(data)} is not JSON (it begins with a byte order mark)")
    try:
        _demand_shallow(text)
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate cannot be written again
    except UnicodeEncodeError:
        raise Rejected(f"{where}: holds half of a character (a lone surrogate)") from None
    except _Refused as wrong:
        raise Rejected(f"{where}: {wrong}") from None
    except ValueError as wrong:
        raise Rejected(f"{where}: {shown(data)} is not JSON ({wrong})") from None
    return value


def load_object(data: bytes | str | None, where: str, *, at_most: int = NODE_BYTES) -> dict[str, Any]:
    """As `load_json`, for what has to be an object. Raises `Rejected` also when it is something else."""
    value = load_json(data, where, at_most=at_most)
    if not isinstance(value, dict):
        raise Rejected(f"{where}: {shown(data)} is not a JSON object")
    return value


def decimal(text: bytes | str, where: str, *, low: int = 0, high: int = INT64) -> int:
    """The integer that ``text`` writes in ASCII digits.

    Raises:
        Rejected: no digits, more than 19 of them, or outside ``low`` … ``high``.
    """
    digits = text.decode("latin-1") if isinstance(text, bytes) else text
    if len(digits) > DIGITS + 1 or not _WHOLE.fullmatch(digits) or len(digits.lstrip("-")) > DIGITS:
        raise Rejected(f"{where}: {shown(text)} is no decimal number of at most {DIGITS} digits")
    return whole_number(int(digits), where, low=low, high=high)


def whole_number(value: Any, where: str, *, low: int = 0, high: int = INT64) -> int:
    """``value`` as it came out of JSON, when it is an integer (``true`` and ``1.0`` are none).

    Raises:
        Rejected: another type, or outside ``low`` … ``high``.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise Rejected(f"{where}: {shown_value(value)} is no whole number")
    if not low <= value <= high:
        raise Rejected(f"{where}: {value} is not within {low} and {high}")
    return value


def remedy(text: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Add to each `Rejected` of the function that this decorates what to do about it."""

    def decorate(read: Callable[P, T]) -> Callable[P, T]:
        @wraps(read)
        def reading(*args: P.args, **named: P.kwargs) -> T:
            try:
                return read(*args, **named)
            except Rejected as wrong:
                raise Rejected(f"{wrong}; {text}") from None

        return reading

    return decorate


def shown(data: bytes | str | None, most: int = _SHOWN) -> str:
    """The beginning of a text from outside, for a sentence: quoted, without control characters, short."""
    if data is None:
        return "nothing"
    start = data[:most]
    text = start.decode("utf-8", errors="backslashreplace") if isinstance(start, bytes) else start
    kind = "bytes" if isinstance(data, bytes) else "characters"
    return repr(text) if len(data) <= most else f"{text!r}… ({len(data)} {kind})"


def shown_value(value: Any) -> str:
    """A value that came out of JSON, as `shown`: no longer than a text may be."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    if isinstance(value, list):
        return f"a list of {len(value)} values"
    return json.dumps(value)


def _demand_shallow(text: str) -> None:
    """Count brackets before anything recursive meets them."""
    if text.count("[") + text.count("{") <= DEPTH:
        return
    level = 0
    for token in _STRUCTURE.finditer(text):
        first = token[0][0]
        if first in "[{":
            level += 1
            if level > DEPTH:
                raise _Refused(f"is nested more than {DEPTH} deep")
        elif first in "]}":
            level -= 1


def _whole(text: str) -> int:
    """Of an integer, which JSON writes in ASCII digits."""
    if len(text) < DIGITS:
        return int(text)
    try:
        return decimal(text, "", low=-INT64 - 1)
    except Rejected as wrong:
        raise _Refused(str(wrong).removeprefix(": ")) from None


def _finite(text: str) -> float:
    """Of a fraction, an exponent, ``NaN`` and ``Infinity``."""
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"{shown(text)} is no finite number")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise _Refused(f"names {shown(key)} twice")
        values[key] = value
    return values


_DECODER: Final = json.JSONDecoder(
    parse_int=_whole, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_once
)
