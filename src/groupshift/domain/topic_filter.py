r"""White and black lists: the old consumer's topic filters, in the part of Java's regular expressions that
means the same in Python.

All members of a group must match the same topics, so what the two dialects read differently is refused with
a sentence. ``\d``, ``\w``, ``\s`` are ASCII, as in Java. Source: specs/zookeeper-coordination.md §3.2.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from groupshift.errors import Rejected


@dataclass(frozen=True, slots=True)
class Whitelist:
    """Subscribe to every topic whose entire name matches ``regex``, all of them sharing ``streams``."""

    regex: str
    streams: int = 1


@dataclass(frozen=True, slots=True)
class Blacklist:
    """Subscribe to every topic whose entire name does not match ``regex``, all sharing ``streams``."""

    regex: str
    streams: int = 1


_TOKEN: Final = re.compile(
    r"""(?P<escape> \\ (?: x[0-9a-fA-F]{2} | u[0-9a-fA-F]{4} | [1-9][0-9]? | . ) )
      | (?P<set>    \[ \^? (?: \\. | [^\\\]] )+ \] )
      | (?P<group>  \( \? (?: <[=!] | [=!:>] | i\) )? )
      | (?P<count>  (?: [*+?] | \{ [^}]* \}? ) [+?]? )
      | (?P<plain>  . )""",
    re.VERBOSE | re.DOTALL,
)
_SET_TOKEN: Final = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|&&|--|\[", re.DOTALL)
_COUNT: Final = re.compile(r"(?:[*+?]|\{\d+\})\??")
_CLASSES: Final = frozenset("dDwWsS")
_CHARACTERS: Final = frozenset("tnrfa")
_ASSERTIONS: Final = frozenset("bBA")
_GROUPS: Final = frozenset({"(?:", "(?=", "(?!", "(?<=", "(?<!"})


def clean_filter(text: str) -> str:
    """The cleaning every reader applies (§3.2): trim, ``,`` → ``|``, no blanks, no quotes around it.

    ``{1,3}`` is broken by design."""
    trimmed = text.strip("".join(map(chr, range(ord(" ") + 1))))
    return trimmed.replace(",", "|").replace(" ", "").strip("\"'")


@lru_cache(maxsize=256)
def compile_filter(text: str) -> re.Pattern[str]:
    """The cleaned expression, to be used with ``fullmatch``.

    Raises `Rejected`, naming the construct, when Java would read it otherwise or not at all."""
    cleaned = clean_filter(text)
    for token in _TOKEN.finditer(cleaned):
        if reason := _objection(token):
            raise Rejected(
                f"topic filter {text!r}: {token[0]!r} at {token.start()} {reason}; "
                "write it in another way that Java and Python read alike"
            )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(cleaned, re.ASCII)
    except re.error as error:
        raise Rejected(f"topic filter {text!r} is not a regular expression ({error}); correct it") from None


def _objection(token: re.Match[str]) -> str | None:
    """Why a token cannot be used, or None."""
    text, kind = token[0], token.lastgroup
    if kind == "escape":
        return _objection_to_escape(text, _CLASSES | _CHARACTERS | _ASSERTIONS)
    if kind == "set":
        return _objection_to_set(text)
    if kind == "group" and text not in _GROUPS and not (text == "(?i)" and token.start() == 0):
        return "is a kind of group or flag that the two dialects do not share"
    if kind == "count" and not _COUNT.fullmatch(text):
        possessive = text.endswith("+") and text != "+"
        return "is possessive" if possessive else "is no count for Java (a ',' becomes '|')"
    return "opens a set that is never closed" if text == "[" else None


def _objection_to_escape(text: str, letters: frozenset[str]) -> str | None:
    name = text[1:]
    if not name.isascii() or not name.isalnum() or (len(name) > 1 and name[0] in "xu"):
        return None
    if name.isdigit():
        return None if len(name) == 1 and name != "0" else "is octal in one dialect, a reference in the other"
    return None if name in letters else "is not an escape that both dialects have with one meaning"


def _objection_to_set(text: str) -> str | None:
    inner = text[1:-1].removeprefix("^")
    for token in _SET_TOKEN.finditer(inner):
        if not token[0].startswith("\\"):
            return f"holds {token[0]!r}: Java's sets can be nested and combined, Python's cannot"
        if token[0][1].isdigit() or _objection_to_escape(token[0], _CLASSES | _CHARACTERS):
            return f"holds {token[0]!r}, which is not an escape that both dialects have with one meaning"
    return None
