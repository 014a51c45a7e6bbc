"""Text from outside (names of groups, topics and clients, reasons of servers) as a person is shown it.

Whatever a stranger can choose is printed as it is, and can do nothing else: no markup, no escape sequence of
a terminal, no line of its own, no change of direction. Every renderer takes its text from here; HTML pages
and SVG escape by themselves what `visible` gives.
"""

from __future__ import annotations

import re
import shlex
import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories without a shape of their own: controls, formats (right-to-left marks), surrogates,
private and unassigned code points, line and paragraph separators."""
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~:@&$^=\"'/])")
_BACKTICKS = re.compile(r"`+")
EMPTY = "(empty)"
_LAST_OF_FOUR = 0xFFFF
"""The last code point that four hexadecimal digits can name."""


def visible(text: str) -> str:
    r"""``text`` on one line with every character seen: what has no shape is written as Python does
    (``\x1b``, ``\u202e``, ``\n``); an empty text is `EMPTY`. Printable text comes back unchanged."""
    return "".join(_seen(character) for character in text) or EMPTY


def markdown(text: str) -> str:
    """``text`` for running Markdown and cells of its tables: shown as it is, whatever it holds.

    Every mark of Markdown, GitHub's tables and HTML is escaped by a backslash, so nothing becomes a link, a
    picture, a tag or a cell."""
    return _MARKDOWN.sub(r"\\\1", visible(text))


def code(text: str) -> str:
    """``text`` as a code span of Markdown outside tables, between more backticks than it has in a row."""
    seen = visible(text)
    longest = max((len(run) for run in _BACKTICKS.findall(seen)), default=0)
    fence = "`" * (longest + 1)
    space = " " if seen[:1] == "`" or seen[-1:] == "`" or (seen[:1] == " " == seen[-1:]) else ""
    return f"{fence}{space}{seen}{space}{fence}"


def _seen(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode("ascii")


def shell(argument: str) -> str:
    r"""``argument`` as one word of a command that can be pasted into a shell: as it is where that is safe,
    else in quotes, what has no shape by its code point (``$'\u202e'``; bash and zsh)."""
    if visible(argument) == argument or not argument:
        return shlex.quote(argument)
    return f"$'{''.join(_typed(character) for character in argument)}'"


def command(*words: str) -> str:
    """A command that can be pasted into a shell, each word by `shell`."""
    return " ".join(shell(word) for word in words)


def json_text(text: str) -> str:
    r"""A JSON document with the same values, in which what has no shape is escaped (``\u202e``): a terminal
    that shows it does nothing."""
    return "".join(c if c == "\n" or unicodedata.category(c) not in _HIDDEN else _units(c) for c in text)


def _typed(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if unicodedata.category(character) not in _HIDDEN:
        return character
    point = ord(character)
    return f"\\u{point:04x}" if point <= _LAST_OF_FOUR else f"\\U{point:08x}"


def _units(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
