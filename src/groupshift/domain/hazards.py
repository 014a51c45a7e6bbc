"""The hazard book: known bugs of brokers and clients that make a move unsafe, by range of versions.

``hazards.toml`` beside this module is the book. This module reads and checks it, and asks it what concerns a
move: of what is known of versions and conditions, and of versions as people name them on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.tables import table_of
from groupshift.domain.verdict import Finding, Verdict
from groupshift.domain.versions import Span, Version, version_in
from groupshift.errors import Rejected


class Role(StrEnum):
    """Whose version a range speaks of."""

    BROKER = "broker"
    """The brokers as they run before the move."""
    TARGET = "target"
    """The release that a downgrade goes to."""
    LOADER = "loader"
    """Every broker that will load the offsets topic: `BROKER` and `TARGET`."""
    LIBRDKAFKA = "librdkafka"
    """Members on librdkafka, confluent-kafka among them."""
    KAFKA_CLIENTS = "kafka-clients"
    """Members on Kafka's own Java library."""
    MIRROR_MAKER = "mirror-maker"


class Trait(StrEnum):
    """What else must be so that a bug shows; the word is what people type."""

    NEW_COORDINATOR = "new-coordinator"
    OLD_COORDINATOR = "old-coordinator"
    KRAFT = "kraft"
    POLICY_DISABLED = "policy-disabled"
    ONLINE = "online"
    STATIC_MEMBERS = "static-members"
    OTHER_SUBSCRIPTION = "other-subscription"
    COOPERATIVE_STICKY = "cooperative-sticky"
    ASSIGNMENT_DATA = "assignment-data"
    STREAMS_GROUPS = "streams-groups"
    NEW_RECORDS = "new-records"
    GROUP_VERSION = "group-version"
    METADATA_CHANGED = "metadata-changed"
    GROUP_CONFIGS = "group-configs"
    FORMATTED_NEWER = "formatted-newer"
    COMMIT_METADATA = "commit-metadata"
    OLD_BROKER_PROTOCOL = "old-broker-protocol"
    OFFSETS_IN_TRANSACTIONS = "offsets-in-transactions"
    FORMER_TOPIC = "former-topic"
    FOREIGN_EPOCHS = "foreign-epochs"


class Action(StrEnum):
    """What groupshift does where a hazard is met."""

    REFUSE = "refuse"
    """The move is refused: verdict fail."""
    ASK = "ask"
    """A person decides at a gate: verdict inconclusive."""
    WARN = "warn"
    """Said, and gone on: verdict pass."""


VERDICTS = {Action.REFUSE: Verdict.FAIL, Action.ASK: Verdict.INCONCLUSIVE, Action.WARN: Verdict.PASS}
"""What a finding of a hazard that is met says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """One known bug or incompatibility.

    It is met where, for each role of ``affected``, some version lies in one of the ranges, and all
    ``traits`` hold. ``bug`` names it where it is kept, ``happens`` what becomes of the group, ``remedy`` what
    to do, ``source`` where it is described, ``sure`` and ``basis`` how the borders
    are known (see ``hazards.toml``)."""

    number: str
    bug: str
    title: str
    happens: str
    moves: frozenset[Comparison]
    affected: Mapping[Role, tuple[Span, ...]]
    traits: frozenset[Trait] = frozenset()
    action: Action
    remedy: str
    source: str
    sure: str
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """A version that was met, and where: exactly, as a range in which it lies, or None for unknown.

    ``said`` is how somebody named it, for people to recognise."""

    where: str
    version: Version | Span | None
    said: str = ""

    def __str__(self) -> str:
        return f"{self.where} {self.said or self.version or 'of unknown version'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of the cluster and its members.

    A role of ``versions`` with an empty tuple is known not to be there; one that is missing is unknown, and
    asked for. ``traits`` that are missing are unknown too."""

    versions: Mapping[Role, tuple[Met, ...]] = field(default_factory=dict)
    traits: Mapping[Trait, bool] = field(default_factory=dict)

    def met(self, role: Role) -> tuple[Met, ...]:
        """The versions of a role; one of unknown version where nothing is known of it."""
        if role is Role.LOADER:
            return (*self.met(Role.BROKER), *self.met(Role.TARGET))
        return self.versions.get(role, (Met(where=role.value, version=None),))


def _worst(said: Iterable[bool | None]) -> bool | None:
    """Whether any of these is true; None where one that is not known may be."""
    known = set(said)
    return True if True in known else None if None in known else False


FILE = "domain/hazards.toml"
"""The book, below the package ``groupshift``."""

UNKNOWN = "H00"
"""The number of the question for versions that nobody gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """Hazards that stand together in ``docs/reference/hazards.md``."""

    title: str
    hazards: tuple[Hazard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The file. ``means`` has each condition as half a sentence."""

    means: Mapping[Trait, str]
    chapters: tuple[Chapter, ...]


_READ = table_of(Book, FILE)
MEANS = _READ.means
"""Each condition as half a sentence."""
CHAPTERS = _READ.chapters
"""The book that ships with groupshift."""
BOOK = tuple(hazard for chapter in CHAPTERS for hazard in chapter.hazards)
"""Every hazard, in the order of its number."""

_OPTIONS = {
    Role.BROKER: "--broker 4.3.1",
    Role.TARGET: "--target 3.9.2",
    Role.LIBRDKAFKA: "--client confluent-kafka=2.16.1",
    Role.KAFKA_CLIENTS: "--client kafka-clients=4.3.1",
    Role.MIRROR_MAKER: "--client mirror-maker=4.3.1",
}
_IMPLIED: Mapping[Trait, tuple[Span, Span]] = {
    Trait.NEW_COORDINATOR: (Span(since=Version.parse("4.0.0")), Span(before=Version.parse("3.7.0").lowest)),
    Trait.OLD_COORDINATOR: (Span(before=Version.parse("3.7.0").lowest), Span(since=Version.parse("4.1.0"))),
    Trait.KRAFT: (Span(since=Version.parse("4.0.0")), Span(before=Version.parse("2.8.0").lowest)),
}
"""What a broker's version says by itself: the releases where it holds, and those where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the book says of one hazard: ``does`` what groupshift does about it (None: it is not met), ``met``
    are the versions that are (or may be) affected, ``open`` the conditions nobody told, ``unknown`` the roles
    whose version is missing."""

    hazard: Hazard
    does: Action | None = None
    met: tuple[Met, ...] = ()
    open: tuple[Trait, ...] = ()
    unknown: tuple[Role, ...] = ()

    @property
    def finding(self) -> Finding:
        """As a numbered finding."""
        hazard = self.hazard
        if self.does is None:
            reason = f"{hazard.bug} is not met: {hazard.title}"
            return Finding(rule=hazard.number, verdict=Verdict.PASS, reason=reason)
        where = f" ({', '.join(map(str, self.met))})" if self.met else ""
        means = " and ".join(MEANS[trait] for trait in self.open)
        reason = f"{hazard.bug}: {hazard.title}{where}; {hazard.happens}"
        if means:
            reason = f"{reason} - if {means}, which is not known"
        hint = f"{hazard.remedy}; see {hazard.source}"
        return Finding(rule=hazard.number, verdict=VERDICTS[self.does], reason=reason, hint=hint)


def look(move: Comparison, facts: Facts) -> tuple[Judged, ...]:
    """What the book says of every hazard of the move, clear ones included, in the order of numbers."""
    if move is not Comparison.DOWNGRADE:  # nothing to go to, so nothing to ask for
        facts = replace(facts, versions={**facts.versions, Role.TARGET: ()})
    return tuple(_judge(hazard, facts) for hazard in BOOK if move in hazard.moves)


def hazards_of(move: Comparison, facts: Facts) -> tuple[Finding, ...]:
    """The same as findings. A version that is not known asks for itself once (`UNKNOWN`), with the hazards
    that depend on it."""
    judged, questions = look(move, facts), []
    for role in Role:
        waiting = [each.hazard.number for each in judged if role in each.unknown]
        if waiting:
            who = "the brokers" if role is Role.BROKER else role.value
            named = f"hazard{'s' if len(waiting) > 1 else ''} {', '.join(waiting)}"
            reason = f"the version of {who} is not known, so {named} cannot be judged"
            hint = f"say it, such as {_OPTIONS[role]}"
            questions.append(Finding(rule=UNKNOWN, verdict=VERDICTS[Action.ASK], reason=reason, hint=hint))
    return (*questions, *(each.finding for each in judged if not each.unknown))


def met_hazards(move: Comparison, facts: Facts) -> tuple[Finding, ...]:
    """Findings of the hazards of a cluster that are met or may be; those of members are left out."""
    judged = (each for each in look(move, facts) if each.does is not None)
    return tuple(each.finding for each in judged if not each.hazard.affected.keys() & set(_ROLES))


def _judge(hazard: Hazard, facts: Facts) -> Judged:
    touches: list[bool | None] = []
    where: list[Met] = []
    for role, spans in hazard.affected.items():
        each_touch = [(_worst(span.touch(each.version) for span in spans), each) for each in facts.met(role)]
        touches.append(_worst(touch for touch, _ in each_touch))
        where += [each for touch, each in each_touch if touch is not False]
    traits = {trait: _told(trait, facts, where) for trait in sorted(hazard.traits)}
    if False in (*touches, *traits.values()):
        return Judged(hazard=hazard)
    untold = tuple(trait for trait, value in traits.items() if value is None)
    if None not in touches:
        does = Action.ASK if untold and hazard.action is Action.REFUSE else hazard.action
        return Judged(hazard=hazard, does=does, met=tuple(where), open=untold)
    unknown = tuple(
        part
        for role in hazard.affected
        for part in ((Role.BROKER, Role.TARGET) if role is Role.LOADER else (role,))
        if any(each.version is None for each in facts.met(part))
    )
    return Judged(hazard=hazard, does=Action.ASK, met=tuple(where), open=untold, unknown=unknown)


def _told(trait: Trait, facts: Facts, where: Iterable[Met]) -> bool | None:
    """Whether a condition holds: by the versions that are concerned, else as somebody said."""
    versions = [each.version for each in where]
    for implied, spans in zip((True, False), _IMPLIED.get(trait, ()), strict=False):
        if versions and all(spans.touch(version) for version in versions):
            return implied
    return facts.traits.get(trait)


_BOUND = "confluent-kafka"
_ROLES = (Role.LIBRDKAFKA, Role.KAFKA_CLIENTS, Role.MIRROR_MAKER)
CLIENTS = (_BOUND, *_ROLES)
"""The names of clients; confluent-kafka brings some librdkafka of its line."""
NOBODY = "none"
"""What stands for no client at all."""


def broker_versions(brokers: Sequence[str], target: str = "") -> dict[Role, tuple[Met, ...]]:
    """What --broker and --target say, by role; nothing of what was not named. Raises `Rejected`."""
    releases = {Role.BROKER: brokers, Role.TARGET: (target,) if target else ()}
    return {
        role: tuple(Met(where=role, version=version_in(text, f"--{role}"), said=text) for text in texts)
        for role, texts in releases.items()
        if texts
    }


def client_versions(clients: Sequence[str]) -> dict[Role, tuple[Met, ...]]:
    """What --client says, by role; nothing where none is named: then all are unknown. Raises `Rejected`."""
    versions: dict[Role, tuple[Met, ...]] = dict.fromkeys(_ROLES if clients else (), ())
    for each in clients:
        if each == NOBODY:
            continue
        name, _, text = each.partition("=")
        if name not in CLIENTS:
            raise Rejected(
                f"--client {each} is not known; name one of {', '.join(CLIENTS)} with its version, such as "
                f"{_BOUND}=2.16.1, or {NOBODY}"
            )
        version = version_in(text, f"--client {name}")
        if name == _BOUND and isinstance(version, Version):  # 2.16.1 brings some librdkafka 2.16
            version = version_in(".".join(map(str, version.numbers[:2])))
        role = Role.LIBRDKAFKA if name == _BOUND else Role(name)
        versions[role] = (*versions[role], Met(where=name, version=version, said=text))
    return versions
