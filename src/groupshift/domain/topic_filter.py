r"""White and black lists: the old consumer's topic filters, in the part of Java's regular expressions that
means the same in Python.

All members of a group must match the same topics, so what the two dialects read differently is refused with
a sentence. ``\d``, ``\w``, ``\s`` are ASCII, as in Java. Source: docs/reference/zookeeper-coordination.md
§3.2.

Whoever may write a registration chooses the expression, so its cost is bounded before it is used. Where
Python's engine provably tries few ways it is used; where it could explode, an automaton follows all ways at
once, in time length of the name times size of the expression; what neither can do is refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, reduce
from operator import or_
from typing import Final

from groupshift.domain.foreign_json import shown
from groupshift.errors import Rejected

LONGEST_NAME: Final = 249
"""Kafka's bound of a topic's name; what is longer is no topic."""

_LONGEST: Final = 32_768
_DEEPEST: Final = 50
_WAYS: Final = 70_000
_STATES: Final = 200
_REMEMBERED: Final = 2_000


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
_ALIKE: Final = re.compile(
    r"""\\ (?: x[0-9a-fA-F]{2} | u[0-9a-fA-F]{4} | [1-9dDwWsStnrfabBA] | [^0-9a-zA-Z] )
      | \[ \^? (?: \\ (?: x[0-9a-fA-F]{2} | u[0-9a-fA-F]{4} | [dDwWsStnrfa] | [^0-9a-zA-Z] )
                 | (?!&&|--)[^\\\[\]] )+ \]
      | \( (?: \? (?: [:=!] | <[=!] ) )?
      | (?: [*+?] | \{ [0-9]{1,4} \} ) \??
      | [^\\\[(*+?{]""",
    re.VERBOSE | re.DOTALL,
)
"""What both dialects read with one meaning: escapes, sets without sets in them, groups without flags, counts
that are not possessive, plain characters."""
_GROUPS: Final = frozenset({"(?:", "(?=", "(?!", "(?<=", "(?<!"})


def clean_filter(text: str) -> str:
    """The cleaning every reader applies (§3.2): trim, ``,`` → ``|``, no blanks, no quotes around it.

    ``{1,3}`` is broken by design."""
    trimmed = text.strip("".join(map(chr, range(ord(" ") + 1))))
    return trimmed.replace(",", "|").replace(" ", "").strip("\"'")


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """A cleaned expression whose cost is bounded, whatever the name: by Python's engine or an automaton."""

    accepts: Callable[[str], object]

    def fullmatch(self, name: str) -> bool:
        """Whether the entire name matches; a name that is too long for a topic never does."""
        return len(name) <= LONGEST_NAME and bool(self.accepts(name))


@lru_cache(maxsize=128)
def compile_filter(text: str) -> TopicFilter:
    """The cleaned expression, to be used with ``fullmatch``.

    Raises `Rejected`, naming the construct, when Java would read it otherwise or not at all, or when
    evaluating it has no bound."""
    return compile_expression(clean_filter(text), f"topic filter {shown(text)}")


def compile_expression(expression: str, where: str) -> TopicFilter:
    """As `compile_filter`, of an expression that is taken as it is, commas and blanks included; ``where`` is
    what a sentence calls it.

    Raises:
        Rejected: as `compile_filter`.
    """
    if len(expression) > _LONGEST:
        size = len(expression)
        raise Rejected(f"{where} is {size} characters long; at most {_LONGEST} are read, shorten it")
    deep = 0
    for token in _TOKEN.finditer(expression):
        part = token[0]
        alike = _ALIKE.fullmatch(part) or (part == "(?i)" and token.start() == 0)
        if not alike or (part[0] == "{" and _count(part) > LONGEST_NAME):
            raise Rejected(
                f"{where}: {shown(part)} at {token.start()} is not read alike by Java and Python, or "
                f"repeats more often than a topic's name is long ({LONGEST_NAME}): write it in another way"
            )
        deep += (part == "(" or part in _GROUPS) - (part == ")")
        if deep > _DEEPEST:
            raise Rejected(f"{where} nests more than {_DEEPEST} groups; write it with fewer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            pattern = re.compile(expression, re.ASCII)
            tree = _Reader(expression, pattern.flags).expression(whole=True)
        except (re.error, OverflowError) as error:
            raise Rejected(f"{where} is not a regular expression ({error}); correct it") from None
    if tree.ways <= _WAYS:
        return TopicFilter(pattern.fullmatch)
    if not tree.regular or tree.size > _STATES:
        raise Rejected(
            f"{where} can take too long to evaluate (repeats inside repeats, beside look-aheads, back "
            f"references or more than {_STATES} characters): write it without them, or name the topics"
        )
    return TopicFilter(_Automaton(tree).accepts)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Node:
    """A part of an expression. ``kind`` is ``one`` (consumes one character that ``fits``), ``zero`` (consumes
    none), ``sequence`` (``parts`` in a row), ``choice`` (one of ``parts``), ``star`` or ``plus``
    (``parts[0]``, any number of times, or once at least). ``text`` is what is written where it consumes none.

    ``ways`` bounds how many ways a backtracking engine tries from one place of a name, ``size`` is the
    number of characters when repeats are written out, ``shortest`` how many are consumed at least, and
    ``regular`` is False with something that an automaton cannot follow."""

    kind: str
    text: str = ""
    fits: re.Pattern[str] | None = None
    parts: tuple[_Node, ...] = ()
    ways: int = 1
    size: int = 0
    shortest: int = 0
    regular: bool = True


_ENDLESS: Final = 10**12


def _joined(kind: str, parts: Sequence[_Node]) -> _Node:
    """``sequence``: one part after the other, each in any of its ways; ``choice``: one of them."""
    in_sequence, ways = kind == "sequence", 1 if kind == "sequence" else 0
    for part in parts:
        ways = min(ways * part.ways if in_sequence else ways + part.ways, _ENDLESS)
    shortest = [part.shortest for part in parts]
    return _Node(
        kind=kind, parts=tuple(parts), ways=ways, size=min(sum(each.size for each in parts), _ENDLESS),
        shortest=sum(shortest) if in_sequence else min(shortest), regular=all(each.regular for each in parts),
    )  # fmt: skip


def _repeated(body: _Node, count: str) -> _Node:
    """``*``, ``+``, ``?`` or ``{n}``, lazy or not: which way is tried first does not change the answer."""
    if count[0] == "{":
        times = _count(count)
        if times and not body.size:  # nothing, again and again: an engine tries it all the same
            return replace(body, ways=min(body.ways**times, _ENDLESS))
        return _joined("sequence", [body] * times)
    if count[0] == "?":
        return _joined("choice", [body, _joined("sequence", [])])
    # one way of one turn that consumes something: as many ways as there are turns
    ways = LONGEST_NAME + 1 if body.ways == 1 and body.shortest else _ENDLESS
    kind, shortest = ("star", 0) if count[0] == "*" else ("plus", body.shortest)
    return _Node(kind=kind, parts=(body,), ways=ways, size=body.size, shortest=shortest, regular=body.regular)


def _without_anchors(row: list[_Node]) -> list[_Node]:
    starts = next((at for at, each in enumerate(row) if each.text not in {"^", r"\A"}), len(row))
    ends = next((at for at, each in enumerate(reversed(row)) if each.text != "$"), len(row))
    return row[starts : len(row) - ends]


class _Reader:
    """The tree of an expression that `re` has accepted, and that both dialects read alike."""

    def __init__(self, cleaned: str, flags: int) -> None:
        self._tokens: Iterator[re.Match[str]] = _TOKEN.finditer(cleaned)
        self._flags = flags

    def expression(self, *, whole: bool = False) -> _Node:
        """Up to the end of the expression, or of the group that was opened. At the ends of a ``whole`` one
        ``^`` and ``$`` say nothing that matching entire names does not."""
        branches: list[list[_Node]] = [[]]
        for token in self._tokens:
            text, row = token[0], branches[-1]
            if text == "|":
                branches.append([])
            elif text == ")":
                break
            elif token.lastgroup == "count":
                row.append(_repeated(row.pop(), text))
            elif text == "(" or text in _GROUPS:
                inner = self.expression()
                if text not in {"(", "(?:"}:
                    inner = _Node(kind="zero", text=text, ways=inner.ways, size=inner.size, regular=False)
                row.append(inner)
            elif text in {"^", "$"} or (text[0] == "\\" and text[1] in "bBA123456789"):
                row.append(_Node(kind="zero", text=text, regular=False))
            elif text != "(?i)":
                row.append(_Node(kind="one", fits=re.compile(text, self._flags), size=1, shortest=1))
        rows = [_joined("sequence", _without_anchors(row) if whole else row) for row in branches]
        return rows[0] if len(rows) == 1 else _joined("choice", rows)


class _Automaton:
    """Glushkov's automaton of a regular tree: a set of places is a number, one bit for each character that is
    written. Place 0 is before the first one.

    So neither time nor memory of a step grow with the ways there are, whoever wrote the expression. Steps are
    remembered, so that thousands of names cost little more than reading them."""

    def __init__(self, tree: _Node) -> None:
        self._fits: list[re.Pattern[str] | None] = [None]
        self._follow: list[int] = [0]
        empty, self._follow[0], last = self._build(tree)
        self._accepting = last | int(empty)
        self._fitting = cache(self._places_of)
        self._step = lru_cache(maxsize=_REMEMBERED)(self._reached)

    def accepts(self, name: str) -> bool:
        """Whether the automaton ends in an accepting place."""
        places = 1
        for character in name:
            places = self._step(places, character)
            if not places:
                return False
        return bool(places & self._accepting)

    def _places_of(self, character: str) -> int:
        fitting = [bool(fits and fits.fullmatch(character)) for fits in self._fits]
        return sum(fit << place for place, fit in enumerate(fitting))

    def _reached(self, places: int, character: str) -> int:
        following = (each for place, each in enumerate(self._follow) if places >> place & 1)
        return reduce(or_, following, 0) & self._fitting(character)

    def _build(self, node: _Node) -> tuple[bool, int, int]:
        """Whether the node matches nothing, and its first and last places."""
        if node.fits:
            self._fits.append(node.fits)
            self._follow.append(0)
            bit = 1 << len(self._follow) - 1
            return False, bit, bit
        if node.kind == "choice":
            empties, firsts, lasts = zip(*map(self._build, node.parts), strict=True)
            return any(empties), reduce(or_, firsts), reduce(or_, lasts)
        empty, first, last = True, 0, 0
        for part in node.parts:
            none, begins, ends = self._build(part)
            self._join(last, begins)
            first = first | begins if empty else first
            last = last | ends if none else ends
            empty = empty and none
        if node.kind in {"star", "plus"}:
            self._join(last, first)
        return empty or node.kind == "star", first, last

    def _join(self, ends: int, begins: int) -> None:
        for place in range(len(self._follow)):
            if ends >> place & 1:
                self._follow[place] |= begins


def _count(text: str) -> int:
    return int(text.rstrip("?")[1:-1])
