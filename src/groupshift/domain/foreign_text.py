"""Text from outside (names of groups, topics and clients, reasons of servers) as a person is shown it.

Whatever a stranger can choose is printed as it is, and can do nothing else: no markup, no escape sequence of
a terminal, no line of its own, no change of direction. Every renderer takes its text from here; HTML pages
and SVG escape by themselves what `visible` gives.
"""

from __future__ import annotations

import re
import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories without a shape of their own: controls, formats (right-to-left marks), surrogates,
private and unassigned code points, line and paragraph separators."""
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~:@&$^=\"'/])")
_BACKTICKS = re.compile(r"`+")
EMPTY = "(empty)"


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


_HARMLESS = re.compile(r"[^\W_](?:[^\W_]|[ ,;'()=/%→+.-]|:(?=[ \d]|$)|(?<=[^\W_])_(?=[^\W_]))*")
_LINK = re.compile(r"www\.|:/|//")
"""What Markdown of GitHub makes a link of without any mark."""


def shown(text: str) -> str:
    """``text`` for running Markdown and cells of its tables: what no mark is in is left as it is, so that
    names can be read and copied; all else is escaped (`markdown`)."""
    if _HARMLESS.fullmatch(text) and not _LINK.search(text) and visible(text) == text:
        return text
    return markdown(text)
