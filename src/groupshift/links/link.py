"""A replication link: what copies records from a source cluster to a target cluster, how it names topics, and
which groups and topics its sync takes.

Topic names are mapped both ways, and the two ways agree: what `Link.target_topic` maps, `Link.source_topic`
maps back, and the other way round. A name that cannot be mapped has a reason instead; it is never guessed.

`Filters` are lists of regular expressions, as MirrorMaker has them. An expression has to match the whole
name, whatever is excluded is out, and an empty list matches nothing. Lists are lists here, not texts with
commas, so an expression may hold a comma. Expressions are those that Java and Python read alike, and their
cost is bounded: `groupshift.domain.topic_filter`. Names of topics are those on the source.

Source: docs/reference/cross-cluster-offsets.md §§2, 9; KIP-382 (policies, multi-hop names), KIP-690.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from groupshift.domain.foreign_json import shown
from groupshift.domain.modes import Isolation
from groupshift.domain.topic_filter import LONGEST_NAME, TopicFilter, compile_expression
from groupshift.errors import Rejected
from groupshift.links.position_search import HeaderEncoding

HEARTBEATS: Final = "heartbeats"
"""The topic in which MirrorMaker writes heartbeats, on the target of each flow."""
POSITIONS: Final = "groupshift.positions."
"""What the name of a link's topic of last proven positions begins with (§8.1)."""

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_CHARACTERS: Final = "letters, digits, '.', '_' and '-'"
_DEFAULT_SEPARATOR: Final = "."
_E = TypeVar("_E", bound=StrEnum)


class LinkKind(StrEnum):
    """What replicates, as far as names and offsets are concerned."""

    MM2_DEFAULT = "mm2-default"
    """MirrorMaker 2 with DefaultReplicationPolicy: topics get the source's alias in front."""
    MM2_IDENTITY = "mm2-identity"
    """MirrorMaker 2 with IdentityReplicationPolicy: names stay, but those of heartbeats."""
    HEADER = "header"
    """A replicator that writes the source offset into a header of each record."""
    OFFSET_PRESERVING = "offset-preserving"
    """A link whose target has each record at its source offset."""
    NONE = "none"
    """Nothing is known of how the records came to the target."""


MIRRORMAKER: Final = frozenset({LinkKind.MM2_DEFAULT, LinkKind.MM2_IDENTITY})
"""The kinds that have separators and topics of MirrorMaker's own."""


class SyncLocation(StrEnum):
    """The cluster that has the offset-syncs topic (``offset-syncs.topic.location``)."""

    SOURCE = "source"
    TARGET = "target"


class Counterpart(NamedTuple):
    """The topic on the other cluster; None with a ``reason``, a clause, where there is none."""

    topic: str | None
    reason: str = ""


class InternalTopics(NamedTuple):
    """MirrorMaker's own topics of one flow. ``offset_syncs`` is on the link's ``sync_location``; the others
    are on the target."""

    offset_syncs: str
    checkpoints: str
    heartbeats: str = HEARTBEATS


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One flow from a source cluster to a target cluster.

    ``separator`` is MirrorMaker's ``replication.policy.separator``; with ``separator_in_internal_topics``
    off, names of its own topics have a dot. ``isolation`` is the level at which the replicator reads the
    source. ``provenance_header`` is the header that carries a source offset (empty: none), and
    ``provenance_encoding`` how (None: as the replicator of that name does, else as digits).
    ``altered_topics`` are source topics whose records an SMT changes, so that content proves nothing.
    ``drops_records``: the replicator leaves out some records, by a filter or a predicate.
    ``foreign_writers``: others write to the copies, too.

    Raises:
        Rejected: a field cannot be used; names the link, the field, the value and the remedy.
    """

    name: str
    kind: LinkKind
    source_alias: str
    target_alias: str
    separator: str = _DEFAULT_SEPARATOR
    separator_in_internal_topics: bool = True
    sync_location: SyncLocation = SyncLocation.SOURCE
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    provenance_header: str = ""
    provenance_encoding: HeaderEncoding | None = None
    altered_topics: frozenset[str] = frozenset()
    drops_records: bool = False
    foreign_writers: bool = False

    def __post_init__(self) -> None:
        self._require_text("name", LONGEST_NAME - len(POSITIONS))
        self._take("kind", LinkKind)
        self._take("sync_location", SyncLocation)
        self._take("isolation", Isolation)
        for alias in ("source_alias", "target_alias"):
            self._require_text(alias, LONGEST_NAME)
        if self.source_alias == self.target_alias:
            raise Rejected(
                f"link {self.name}: source_alias and target_alias are both {shown(self.source_alias)}; a "
                "link joins two clusters, name each by its own alias"
            )
        self._require_text("separator", LONGEST_NAME)
        if self.kind not in MIRRORMAKER and self.separator != _DEFAULT_SEPARATOR:
            raise Rejected(
                f"link {self.name}: separator {shown(self.separator)} is a setting of MirrorMaker, and the "
                f"kind is {self.kind}; leave it unset"
            )
        for alias in (self.source_alias, self.target_alias):
            if self.kind is LinkKind.MM2_DEFAULT and self.is_internal(f"{alias}{self.separator}orders"):
                raise Rejected(
                    f"link {self.name}: copies from {shown(alias)} would have names of internal topics "
                    f"({alias}{self.separator}orders); use an alias that begins with a letter"
                )
        self._require_header()
        topics: Any = self.altered_topics
        if isinstance(topics, str) or not all(isinstance(topic, str) for topic in topics):
            raise Rejected(
                f"link {self.name}: altered_topics is {shown(str(topics))}, which is no list of texts; write "
                'one, such as ["orders"]'
            )
        object.__setattr__(self, "altered_topics", frozenset(topics))
        for topic in sorted(self.altered_topics):
            if problem := _illegal(topic):
                raise Rejected(
                    f"link {self.name}: altered_topics has {shown(topic)}, which {problem}; correct it"
                )

    def _require_header(self) -> None:
        """Raise `Rejected` where the header with the source offset is not known, or not how it is written."""
        if self.provenance_encoding is not None:
            self._take("provenance_encoding", HeaderEncoding)
        if self.kind is LinkKind.HEADER and not self.provenance_header:
            raise Rejected(
                f"link {self.name}: provenance_header is empty, and kind {self.kind} reads source offsets "
                "from a header; name the header that the replicator writes"
            )

    def _require_text(self, name: str, longest: int) -> None:
        """Raise `Rejected` unless the field has text that a topic's name may hold."""
        value, where = getattr(self, name), f"link {shown(self.name)}: " if name != "name" else "link: "
        if not isinstance(value, str) or not value:
            raise Rejected(f"{where}{name} is empty; write {_CHARACTERS}")
        if not _LEGAL.fullmatch(value):
            raise Rejected(
                f"{where}{name} {shown(value)} becomes part of topic names, which hold {_CHARACTERS} only; "
                "write it with these"
            )
        if len(value) > longest:
            raise Rejected(
                f"{where}{name} {shown(value)} has {len(value)} characters; shorten it to {longest} or less"
            )

    def _take(self, name: str, vocabulary: type[_E]) -> None:
        """Make the field's text a word of its vocabulary; raise `Rejected` for another one."""
        value: Any = getattr(self, name)
        try:
            object.__setattr__(self, name, vocabulary(value))
        except ValueError:
            known = ", ".join(vocabulary)
            raise Rejected(
                f"link {self.name}: {name} {shown(str(value))} is not known; use one of {known}"
            ) from None

    @property
    def internal_topics(self) -> InternalTopics | None:
        """MirrorMaker's own topics; None for a kind that has none. The offset-syncs topic has the alias of
        the cluster that it does not lie on."""
        if self.kind not in MIRRORMAKER:
            return None
        dot = self._internal_separator
        other = self.target_alias if self.sync_location is SyncLocation.SOURCE else self.source_alias
        return InternalTopics(
            offset_syncs=f"mm2-offset-syncs{dot}{other}{dot}internal",
            checkpoints=f"{self.source_alias}{dot}checkpoints{dot}internal",
        )

    @property
    def positions_topic(self) -> str:
        """The compacted topic on the target that keeps the last proven positions (§8.1)."""
        return f"{POSITIONS}{self.name}"

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.separator_in_internal_topics else _DEFAULT_SEPARATOR

    def is_internal(self, topic: str) -> bool:
        """Whether the name, on either cluster, is one that the link never replicates. MirrorMaker leaves out
        its own topics and Connect's by their ends, so a topic of yours that ends in ``-internal`` is one."""
        if self.kind not in MIRRORMAKER:
            return topic.startswith("__")
        return topic.startswith(("__", ".")) or topic.endswith(
            (".internal", "-internal", f"{self._internal_separator}internal")
        )

    def alias_in(self, topic: str) -> str:
        """The alias of the cluster that the topic was copied from, as the name says it: the text before the
        first separator. Empty where the name says nothing. A name like ``eu.orders`` counts as one of ``eu``,
        and an alias that holds the separator is never recognised: MirrorMaker reads names so, too."""
        if not self._renames(topic):
            return ""
        alias, _, rest = topic.partition(self.separator)
        return alias if self._holds_more(rest) else ""

    def target_topic(self, source: str) -> Counterpart:
        """Return the target's topic for a topic of the source.

        A topic that the source has from the target itself maps to the topic that it is a copy of: one alias
        is removed. MirrorMaker removes all (`mirrormaker_topic`), and so takes ``backup.eu.orders`` for the
        backup's own ``orders``, which is another topic than its ``eu.orders``.
        """
        if unmapped := self._unmapped(source):
            return unmapped
        if not self._renames(source):
            return Counterpart(source)
        if not self._holds_more(source):
            return Counterpart(
                None, f"{source} holds nothing but separators, so its copy cannot be recognised"
            )
        if self.alias_in(source) != self.target_alias:
            return self._legal(f"{self.source_alias}{self.separator}{source}")
        original = source[len(self.target_alias) + len(self.separator) :]
        if self._copied_from_source(original) is not None:
            return Counterpart(
                None,
                f"{source} would be a copy of {self.target_alias}'s {original}, which is a copy of a topic "
                f"of {self.source_alias} itself: replication leaves such topics out",
            )
        return self._legal(original)

    def source_topic(self, target: str) -> Counterpart:
        """Return the source's topic for a topic of the target. The target's own topic maps to the copy that
        the reverse flow makes of it on the source."""
        if unmapped := self._unmapped(target):
            return unmapped
        if not self._renames(target):
            return Counterpart(target)
        original = self._copied_from_source(target)
        if original is None:
            copied = f"{self.target_alias}{self.separator}{target}"
            if self.alias_in(copied) != self.target_alias:
                return Counterpart(
                    None,
                    f"{copied} on {self.source_alias} does not say that it comes from {self.target_alias}: "
                    f"the text before its first {self.separator!r} is another one",
                )
            return self._legal(copied)
        if self.alias_in(original) == self.target_alias:
            return Counterpart(
                None,
                f"{original} came to {self.source_alias} from {self.target_alias} itself: replication does "
                "not copy it back",
            )
        return self._legal(original)

    def mirrormaker_topic(self, source: str) -> Counterpart:
        """Return the topic that MirrorMaker's checkpoints name for a topic of the source. It differs from
        `target_topic` where a topic of the target has come over several clusters."""
        mapped = self.target_topic(source)
        if mapped.topic is None or self.alias_in(source) != self.target_alias:
            return mapped
        topic = mapped.topic
        while alias := self.alias_in(topic):
            topic = topic[len(alias) + len(self.separator) :]
        return Counterpart(topic)

    def _renames(self, topic: str) -> bool:
        """Whether the name changes when the topic is copied. IdentityReplicationPolicy renames whatever ends
        like the heartbeats topic."""
        if self.kind is LinkKind.MM2_IDENTITY:
            return topic.endswith(HEARTBEATS)
        return self.kind is LinkKind.MM2_DEFAULT

    def _holds_more(self, rest: str) -> bool:
        """Whether anything but separators follows an alias; else the name is not a copy's."""
        return bool(rest.replace(self.separator, ""))

    def _copied_from_source(self, target: str) -> str | None:
        """The source's name of a topic of the target; None where it does not begin with the source's alias.
        The alias is known here, so it may hold the separator."""
        before = f"{self.source_alias}{self.separator}"
        rest = target.removeprefix(before)
        return rest if target.startswith(before) and self._holds_more(rest) else None

    def _legal(self, topic: str) -> Counterpart:
        """The name, unless no replicated topic can have it."""
        return self._unmapped(topic) or Counterpart(topic)

    def _unmapped(self, topic: str) -> Counterpart | None:
        """Why a name has no counterpart, whatever the way; None where it may have one."""
        if problem := _illegal(topic):
            return Counterpart(None, f"{shown(topic)} {problem}")
        if self.is_internal(topic):
            return Counterpart(None, f"{topic} counts as an internal topic, and those are not replicated")
        return None


def _illegal(topic: str) -> str:
    """Why the text cannot be the name of a topic, as a predicate; empty where it can."""
    if len(topic) > LONGEST_NAME:
        return f"has {len(topic)} characters, and a topic's name at most {LONGEST_NAME}"
    if topic in {".", ".."} or not _LEGAL.fullmatch(topic):
        return f"is no name of a topic ({_CHARACTERS})"
    return ""


ALL: Final = (".*",)
EXCLUDED_GROUPS: Final = ("console-consumer-.*", "connect-.*", "__.*")
"""MirrorMaker's default of ``groups.exclude``."""
EXCLUDED_TOPICS: Final = (r".*[\-\.]internal", r".*\.replica", "__.*")
"""MirrorMaker's default of ``topics.exclude``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What is taken: each field is a list of regular expressions.

    Raises:
        Rejected: a field is no list of texts, or an expression cannot be used; names field and expression.
    """

    groups: tuple[str, ...] = ALL
    groups_exclude: tuple[str, ...] = EXCLUDED_GROUPS
    topics: tuple[str, ...] = ALL
    topics_exclude: tuple[str, ...] = EXCLUDED_TOPICS

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
                raise Rejected(
                    f"{each.name}: {shown(str(value))} is no list of texts; write a list of regular "
                    'expressions, such as ["orders-.*"]'
                )
            object.__setattr__(self, each.name, tuple(value))
            for expression in value:
                _compiled(each.name, expression)

    def accepts_group(self, group: str) -> bool:
        """Whether the group is taken."""
        return not self.refusal_of_group(group)

    def accepts_topic(self, topic: str) -> bool:
        """Whether the source's topic is taken."""
        return not self.refusal_of_topic(topic)

    def refusal_of_group(self, group: str) -> str:
        """Return why the group is left out, as a clause; empty where it is taken."""
        return _refusal(group, "groups", self.groups, self.groups_exclude)

    def refusal_of_topic(self, topic: str) -> str:
        """Return why the source's topic is left out, as a clause; empty where it is taken."""
        return _refusal(topic, "topics", self.topics, self.topics_exclude)


def _refusal(name: str, field: str, include: tuple[str, ...], exclude: tuple[str, ...]) -> str:
    if len(name) > LONGEST_NAME:  # an exclusion could not be tried either
        return f"{shown(name)} has more than {LONGEST_NAME} characters, which no filter matches"
    excluding = _first_match(name, f"{field}_exclude", exclude)
    if excluding is not None:
        return f"{field}_exclude has {shown(excluding)}"
    if _first_match(name, field, include) is None:
        return f"{field} has no expression that matches it" if include else f"{field} is empty"
    return ""


def _first_match(name: str, field: str, expressions: tuple[str, ...]) -> str | None:
    """The first expression that matches the whole name. One by one is what joining them by ``|`` means, but
    for numbers of groups, which a join would shift."""
    return next((each for each in expressions if _compiled(field, each).fullmatch(name)), None)


@lru_cache(maxsize=1_024)
def _compiled(field: str, expression: str) -> TopicFilter:
    return compile_expression(expression, f"{field}: {shown(expression)}")
