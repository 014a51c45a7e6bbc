"""Asks the hazard book: what concerns a move, of what is known of versions and conditions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.hazards.clients import CLIENTS
from groupshift.domain.hazards.clusters import CLUSTERS
from groupshift.domain.hazards.commits import COMMITS
from groupshift.domain.hazards.coordinators import COORDINATORS
from groupshift.domain.hazards.downgrades import DOWNGRADES
from groupshift.domain.hazards.model import (
    MEANS,
    Action,
    Facts,
    Hazard,
    Met,
    Role,
    Standing,
    Trait,
    touched,
)
from groupshift.domain.verdict import Finding
from groupshift.domain.versions import Span, Touch, Version

BOOK = (*DOWNGRADES, *COORDINATORS, *CLIENTS, *CLUSTERS, *COMMITS)
"""Every hazard, in the order of its number."""

UNKNOWN = "H00"
"""The number of the question for versions that nobody gave."""

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
