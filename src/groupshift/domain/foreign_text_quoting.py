"""Text from outside (names of groups, topics and clients, reasons of servers) as a person is shown it.

Whatever a stranger can choose is printed as it is, and can do nothing else: no markup, no escape sequence of
a terminal, no line of its own, no change of direction. Every renderer takes its text from here; HTML pages
and SVG escape by themselves what `visible` gives. What may hold a secret is struck out here, too.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

STRUCK = "***"
_WORD = re.compile(r"\S+")


def struck_out(text: str, secrets: Iterable[str]) -> str:
    """``text`` without the ``secrets``; the longest first, since one may hold another."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, STRUCK)
    return text


def holds_login(address: str) -> bool:
    """Whether an address may hold a user name and a password: there is an ``@``, written out or encoded.

    Such an address is never shown: where its password ends, only its author knows."""
    return "@" in address or "%40" in address or "\uff20" in address or "\ufe6b" in address


def without_login(text: str) -> str:
    """``text`` with what stands before an ``@`` in each URL, and what follows a ``?``, struck out: for words
    of other programs, and for URIs of stores, whose keys may be at either place."""
    return _WORD.sub(lambda word: _without_login(word[0]), text)


def data_without_login(data: Any) -> Any:
    """``data`` of JSON with each of its texts as `without_login` returns it; a key of a mapping is one."""
    match data:
        case str():
            return without_login(data)
        case Mapping():
            return {data_without_login(key): data_without_login(value) for key, value in data.items()}
        case list() | tuple():
            return [data_without_login(each) for each in data]
        case _:
            return data


def _without_login(word: str) -> str:
    before, slashes, rest = word.partition("//")
    _, login, place = rest.rpartition("@")
    place, query, _ = place.partition("?")
    return before + slashes + (f"{STRUCK}@" if login else "") + place + (f"?{STRUCK}" if query else "")


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories without a shape of their own: controls, formats (right-to-left marks), surrogates,
private and unassigned code points, line and paragraph separators."""
_BLANK = re.compile("[\u115f\u1160\u3164\uffa0\u2800\u034f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Characters of other categories that show nothing: fillers and variation selectors."""
_HOST = (
    r"(?<=\w)\.(?=(?:[a-z]{2}|biz|com|edu|gov|net|org|pro|web|xxx|aero|asia|coop|info|museum|name|shop|рф)"
    r"(?![^\W\d_]))"
)
"""The last dot of a host without a scheme: some renderers make a link of whatever ends like one."""
_MARKDOWN = re.compile(
    r"[\\`*\[\]<|~$@]"  # wherever they are
    r"|(?<![^\W_])_|_(?![^\W_])"  # but not within a word
    r"|&(?=#?\w+;)"  # an entity of HTML
    r"|:(?=//|[\w+-]+:)|(?<=www)\.|(?<![:/])/(?=/)"  # a link, an emoji
    rf"|{_HOST}"
    r"|^[#>+=-]",  # what a block begins with
    re.IGNORECASE,
)
EMPTY = "(empty)"
_LAST_OF_FOUR = 0xFFFF
"""The last code point that four hexadecimal digits can name."""


def visible(text: str) -> str:
    r"""``text`` on one line with every character seen: what has no shape is written as Python does
    (``\x1b``, ``\u202e``, ``\n``); an empty text is `EMPTY`. Printable text comes back unchanged."""
    return "".join(c.encode("unicode_escape").decode("ascii") if _hidden(c) else c for c in text) or EMPTY


def markdown(text: str) -> str:
    """``text`` for running Markdown and cells of its tables: shown as it is, whatever it holds.

    Every mark of Markdown, GitHub's tables and HTML is escaped by a backslash where it would mean something,
    so nothing becomes a link, a picture, a tag, a list or a cell."""
    plain = _MARKDOWN.sub(lambda match: f"\\{match[0]}", visible(text))
    if plain.startswith(" "):
        return f"&#32;{plain[1:]}"
    numbered = re.match(r"(\d+)([.)])", plain)
    return f"{numbered[1]}\\{plain[numbered.end(1) :]}" if numbered else plain


def code(text: str) -> str:
    """``text`` as a code span of Markdown outside tables, between more backticks than it has in a row."""
    plain = visible(text)
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence = "`" * (longest + 1)
    space = " " if plain[:1] == "`" or plain[-1:] == "`" or (plain[:1] == " " == plain[-1:]) else ""
    return f"{fence}{space}{plain}{space}{fence}"


def _hidden(character: str) -> bool:
    """Whether nobody sees it, or takes it for a plain blank."""
    category = unicodedata.category(character)
    return category in _HIDDEN or (category == "Zs" and character != " ") or bool(_BLANK.match(character))


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
    return "".join(c if c == "\n" or not _hidden(c) else _units(c) for c in text)


def _typed(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if not _hidden(character):
        return character
    point = ord(character)
    return f"\\u{point:04x}" if point <= _LAST_OF_FOUR else f"\\U{point:08x}"


def _units(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


_HARMLESS = re.compile(r"[^\W_](?:[^\W_]|[ ,;'()=/%→+.-]|:(?=[ \d]|$)|(?<=[^\W_])_(?=[^\W_]))*")
_LINK = re.compile(rf"www\.|:/|//|\d+[.)](?: |$)|{_HOST}", re.IGNORECASE)
"""What renderers make a link of without any mark, and the number that begins a list."""


def shown(text: str) -> str:
    """``text`` for running Markdown and cells of its tables: what no mark is in is left as it is, so that
    names can be read and copied; all else is escaped (`markdown`)."""
    if _HARMLESS.fullmatch(text) and not _LINK.search(text) and visible(text) == text:
        return text
    return markdown(text)
