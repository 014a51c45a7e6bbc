"""Reads the hazard book and asks it: what concerns a move, of what is known of versions and conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.hazards.model import (
    MEANS,
    Action,
    Facts,
    Hazard,
    Met,
    Role,
    Standing,
    Sure,
    Trait,
    touched,
)
from groupshift.domain.tables import Entry, parsed, shipped, unique
from groupshift.domain.verdict import Finding
from groupshift.domain.versions import Fix, Span, Touch, Version

FILE = "domain/hazards.toml"
"""The book, below the package ``groupshift``."""

UNKNOWN = "H00"
"""The number of the question for versions that nobody gave."""

_NUMBER = re.compile(r"H\d\d", re.ASCII)
_FIELDS = (
    "number",
    "bug",
    "title",
    "happens",
    "moves",
    "affected",
    "action",
    "remedy",
    "source",
    "sure",
    "seen",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """Hazards that stand together in ``docs/hazards.md``."""

    title: str
    hazards: tuple[Hazard, ...]


def read_book(text: str, file: str = FILE) -> tuple[Chapter, ...]:
    """The chapters of a hazard book in TOML.

    Raises:
        Rejected: the text is no TOML, or an entry is not whole; says file, entry, field, value and what is
            allowed.
    """
    whole = parsed(text, file)
    whole.only(("chapter",))
    chapters = tuple(map(_chapter, whole.tables("chapter", "title")))
    unique((each.number for chapter in chapters for each in chapter.hazards), f"{file}, number")
    return chapters


def _chapter(entry: Entry) -> Chapter:
    entry.only(("title", "hazard"))
    return Chapter(title=entry.text("title"), hazards=tuple(map(_hazard, entry.tables("hazard", "number"))))


def _hazard(entry: Entry) -> Hazard:
    entry.only(_FIELDS, ("traits",))
    if not _NUMBER.fullmatch(entry.text("number")) or entry.text("number") == UNKNOWN:
        raise entry.fault("number", f"H and two digits, but for {UNKNOWN}")
    if not entry.text("source").startswith("https://"):
        raise entry.fault("source", "an address that begins with https://")
    for field in ("title", "happens", "remedy", "seen"):
        if entry.text(field).endswith("."):
            raise entry.fault(field, "a sentence without a stop at its end")
    affected = entry.table("affected")
    affected.only((), tuple(Role))
    return Hazard(
        number=entry.text("number"),
        bug=entry.text("bug"),
        title=entry.text("title"),
        happens=entry.text("happens"),
        moves=frozenset(entry.words("moves", Comparison)),
        affected={Role(role): _ranges(affected, role) for role in affected.values},
        traits=frozenset(entry.words("traits", Trait)),
        action=entry.word("action", Action),
        remedy=entry.text("remedy"),
        source=entry.text("source"),
        sure=entry.word("sure", Sure),
        seen=entry.text("seen"),
    )


def _ranges(affected: Entry, role: str) -> tuple[Span, ...]:
    spans = tuple(map(_span, affected.tables(role)))
    if any(one.meets(other) for one, other in combinations(spans, 2)):
        raise affected.fault(role, "ranges of which no two hold the same version")
    return spans


def _span(entry: Entry) -> Span:
    """A range: it ends where it has ``before``, and then has a reason to."""
    entry.only(("last",), ("since", "before", "fix"))
    given = {field: _version(entry, field) for field in ("since", "last", "before") if field in entry.values}
    fix = entry.word("fix", Fix) if "fix" in entry.values else Fix.RELEASED
    if "before" not in given and "fix" in entry.values:
        raise entry.fault("fix", "no reason where the range has no before")
    if fix is Fix.NONE:
        raise entry.fault("fix", "a reason why the range ends")
    span = Span(**given, fix=fix if "before" in given else Fix.NONE)
    if not span.holds(given["last"]):
        raise entry.fault("last", f"a version of the range {span}")
    return span


def _version(entry: Entry, field: str) -> Version:
    return Version.parse(entry.text(field), f"{entry.where}, {field}:")


CHAPTERS = read_book(shipped(FILE))
"""The book that ships with groupshift."""
BOOK = tuple(hazard for chapter in CHAPTERS for hazard in chapter.hazards)
"""Every hazard, in the order of its number."""

_ACTS = {Action.REFUSE: Standing.REFUSED, Action.ASK: Standing.ASKED, Action.WARN: Standing.WARNED}
_OPTIONS = {
    Role.BROKER: "--broker 4.3.1",
    Role.TARGET: "--target 3.9.2",
    Role.LIBRDKAFKA: "--client confluent-kafka=2.16.1",
    Role.KAFKA_CLIENTS: "--client kafka-clients=4.3.1",
    Role.MIRROR_MAKER: "--client mirror-maker=4.3.1",
}
_IMPLIED: Mapping[Trait, tuple[Span, Span]] = {
    Trait.NEW_COORDINATOR: (Span(since=Version.parse("4.0.0")), Span(before=Version.parse("3.7.0").lowest)),
    Trait.OLD_COORDINATOR: (
        Span(before=Version.parse("3.7.0").lowest),
        Span(since=Version.parse("4.1.0")),
    ),
    Trait.KRAFT: (Span(since=Version.parse("4.0.0")), Span(before=Version.parse("2.8.0").lowest)),
}
"""What a broker's version says by itself: the releases where it holds, and those where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the book says of one hazard: ``met`` are the versions that are (or may be) affected, ``open`` the
    conditions nobody told, ``unknown`` the roles whose version is missing."""

    hazard: Hazard
    standing: Standing
    met: tuple[Met, ...] = ()
    open: tuple[Trait, ...] = ()
    unknown: tuple[Role, ...] = ()

    @property
    def finding(self) -> Finding:
        """As a numbered finding."""
        hazard = self.hazard
        if self.standing is Standing.CLEAR:
            reason = f"{hazard.bug} is not met: {hazard.title}"
            return Finding(rule=hazard.number, verdict=self.standing.verdict, reason=reason)
        reason = f"{hazard.bug}: {hazard.title}{self._where()}; {hazard.happens}{self._condition()}"
        hint = f"{hazard.remedy}; see {hazard.source}"
        return Finding(rule=hazard.number, verdict=self.standing.verdict, reason=reason, hint=hint)

    def _where(self) -> str:
        return f" ({', '.join(str(each) for each in self.met)})" if self.met else ""

    def _condition(self) -> str:
        if not self.open:
            return ""
        return f" - if {' and '.join(MEANS[trait] for trait in self.open)}, which is not known"


def look(move: Comparison, facts: Facts) -> tuple[Judged, ...]:
    """What the book says of every hazard of the move, clear ones included, in the order of numbers."""
    if move is not Comparison.DOWNGRADE:  # nothing to go to, so nothing to ask for
        facts = replace(facts, versions={**facts.versions, Role.TARGET: ()})
    return tuple(_judge(hazard, facts) for hazard in BOOK if move in hazard.moves)


def hazards_of(move: Comparison, facts: Facts) -> tuple[Finding, ...]:
    """The same as findings. A version that is not known asks for itself once (`UNKNOWN`), with the hazards
    that depend on it."""
    judged = look(move, facts)
    unknown = tuple(_question(role, judged) for role in _missing(judged))
    return (*unknown, *(each.finding for each in judged if not each.unknown))


def _judge(hazard: Hazard, facts: Facts) -> Judged:
    touches = {role: _touch(spans, facts.met(role)) for role, spans in hazard.affected.items()}
    where = tuple(
        each
        for role, spans in hazard.affected.items()
        for each in facts.met(role)
        if touched(spans, each.version) is not Touch.NO
    )
    traits = {trait: _told(trait, facts, where) for trait in sorted(hazard.traits)}
    if Touch.NO in touches.values() or False in traits.values():
        return Judged(hazard=hazard, standing=Standing.CLEAR)
    untold = tuple(trait for trait, told in traits.items() if told is None)
    unknown = tuple(part for role in touches for part in facts.unknown(role))
    if all(touch is Touch.YES for touch in touches.values()):
        act = _ACTS[hazard.action]
        standing = Standing.ASKED if untold and act is Standing.REFUSED else act
        return Judged(hazard=hazard, standing=standing, met=where, open=untold)
    return Judged(hazard=hazard, standing=Standing.ASKED, met=where, open=untold, unknown=unknown)


def _touch(spans: tuple[Span, ...], found: tuple[Met, ...]) -> Touch:
    said = [touched(spans, each.version) for each in found]
    return next((touch for touch in (Touch.YES, Touch.PERHAPS) if touch in said), Touch.NO)


def _told(trait: Trait, facts: Facts, where: Iterable[Met]) -> bool | None:
    """Whether a condition holds: by the versions that are concerned, else as somebody said."""
    if trait in _IMPLIED:
        holds, not_holds = _IMPLIED[trait]
        versions = [each.version for each in where]
        if versions and all(holds.touch(version) is Touch.YES for version in versions):
            return True
        if versions and all(not_holds.touch(version) is Touch.YES for version in versions):
            return False
    return facts.traits.get(trait)


def _missing(judged: Iterable[Judged]) -> tuple[Role, ...]:
    found = {role for each in judged for role in each.unknown}
    return tuple(role for role in Role if role in found)


def _question(role: Role, judged: Iterable[Judged]) -> Finding:
    waiting = [each.hazard.number for each in judged if role in each.unknown]
    who = {Role.BROKER: "the brokers"}.get(role, role.value)
    named = f"hazard {waiting[0]}" if len(waiting) == 1 else f"hazards {', '.join(waiting)}"
    return Finding(
        rule=UNKNOWN,
        verdict=Standing.ASKED.verdict,
        reason=f"the version of {who} is not known, so {named} cannot be judged",
        hint=f"say it, such as {_OPTIONS[role]}",
    )
