"""The release that a downgrade goes to, and the path to it: features to lower, whether the log has to be
compacted, whether a metadata snapshot has to be newer. And properties of a broker's file that it does not
know.

A `Target` is the release with its coordinator, `Current` what runs, and `path` what lies between: pure, and
never more than the two tell. A property that is not known is only warned of; a known one with an unknown
value ends the start.

Source: KIP-584 (features), KIP-848 (group.version), KIP-915 (records that older coordinators skip); the
releases themselves, answers of real brokers (docs/reference/downgrade-rules.md, group-coordinator.md §6.1,
step 8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.domain.cluster import Property
from groupshift.domain.group_protocol import ASSIGNORS, PROTOCOLS
from groupshift.domain.tables import table_of
from groupshift.domain.versions import LINES, METADATA, Line, Span, Version
from groupshift.errors import Rejected
from groupshift.log.releases import Coordinator, Loader, loader

GROUP, SHARE, STREAMS = "group.version", "share.version", "streams.version"
FIXED = frozenset({"kraft.version"})
"""Features that no release lowers."""


LEVELS_FILE = "moves/downgrade/metadata_levels.toml"
"""The table of levels, below the package ``groupshift``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Levels:
    """Names of the levels of ``metadata.version``, in order, and of those that changed the metadata log: then
    nothing goes back to below it. Kafka lowers it only where that undoes no change; every release refuses an
    unsafe downgrade."""

    levels: tuple[str, ...]
    changes: frozenset[str]


_READ = table_of(_Levels, LEVELS_FILE)
LEVELS = dict(enumerate(_READ.levels, 1))
"""The name of every level up to 4.4.0's, by number."""
CHANGES = frozenset(level for level, name in LEVELS.items() if name in _READ.changes)
"""Those that changed the metadata log."""


def name_of(level: int) -> str:
    """``4.3-IV0 (30)``; of a level that we do not know its number."""
    return f"{LEVELS[level]} ({level})" if level in LEVELS else f"level {level}"


def changes_between(lower: int, upper: int) -> tuple[str, ...]:
    """Names of the levels above ``lower`` and up to ``upper`` that changed the metadata log, in order; a
    level that we do not know counts as one that did."""
    levels = range(lower + 1, upper + 1)
    return tuple(name_of(level) for level in levels if level not in LEVELS or level in CHANGES)


def line_of_version(version: Version) -> Line | None:
    """The line of a release, or None where it is of none that we know."""
    name = f"{version.numbers[0]}.{version.numbers[1]}"
    return next((line for line in LINES if line.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The release to go to, its line, and the coordinator that it is going to run."""

    version: Version
    line: Line
    coordinator: Coordinator

    @property
    def release(self) -> str:
        """As people write it."""
        return str(self.version)

    @property
    def loader(self) -> Loader:
        """What its coordinator makes of the log."""
        return loader(self.release, self.coordinator)

    @property
    def proven(self) -> bool:
        """Whether the release is one of a line that was looked at up to it."""
        return self.version <= Version.parse(self.line.newest)

    def __str__(self) -> str:
        return f"{self.release} ({self.coordinator.value.upper()} coordinator)"


def target_of(text: str, coordinator: Coordinator | None = None) -> Target:
    """The target that ``3.9.2`` names; without a coordinator the one that the release runs by default.

    Raises `Rejected` for what is no release, for one of a line that we do not know, and for a coordinator
    that it does not have."""
    version = Version.parse(text, "--to")
    line = line_of_version(version)
    if line is None:
        raise Rejected(
            f"--to {text} is no release that groupshift knows: it knows {LINES[0].name}.0 to "
            f"{LINES[-1].newest}; name one of them"
        )
    usual = Coordinator.NEW if version >= _V40.lowest else Coordinator.OLD
    chosen = coordinator or usual
    loader(str(version), chosen)
    return Target(version=version, line=line, coordinator=chosen)


_V37, _V39, _V40, _V41 = (Version.parse(text) for text in ("3.7.0", "3.9.0", "4.0.0", "4.1.0"))
_FLEXIBLE_COMMIT = 4
"""The version of every commit that a release since 4.1 writes."""


class ReleaseOrder(StrEnum):
    """Where the target stands to what runs."""

    OLDER = "older"
    SAME = "same"
    NEWER = "newer"
    UNKNOWN = "unknown"
    """What runs is not known exactly enough."""


class Compaction(StrEnum):
    """Whether the offsets topic has to be compacted before the target may read it."""

    NOT_NEEDED = "not needed"
    NEEDED = "needed"
    IMPOSSIBLE = "impossible"
    """What is live cannot be read, and compaction keeps what is live."""
    UNKNOWN = "unknown"
    """The log was not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """What runs now. ``version`` of the brokers as far as it is known; ``features`` their finalised
    levels; ``new_types`` whether the log holds a key of type 3 or above, tombstones included, and
    ``commits`` the newest version of a commit in it (None: the log was not read, or holds none)."""

    version: Version | Span | None
    coordinator: Coordinator | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    new_types: bool | None = None
    commits: int | None = None

    @property
    def oldest(self) -> Version | None:
        """The oldest release that it may be; None where that is not known."""
        return self.version.since if isinstance(self.version, Span) else self.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """A feature that must be lowered before the first broker is replaced."""

    feature: str
    level: int
    to: int

    def __str__(self) -> str:
        if self.feature == METADATA:
            return f"{self.feature} from {name_of(self.level)} to {name_of(self.to)}"
        return f"{self.feature} from {self.level} to {self.to}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """What lies between. ``changes`` are levels of metadata.version that cannot be undone, ``fixed``
    other features that cannot be lowered; ``snapshot`` whether the target could meet a feature's record
    that it does not know, so that a newer metadata snapshot must cover it."""

    standing: ReleaseOrder
    lowered: tuple[Lowering, ...] = ()
    changes: tuple[str, ...] = ()
    fixed: tuple[Lowering, ...] = ()
    snapshot: bool = False
    compaction: Compaction = Compaction.NOT_NEEDED

    @property
    def possible(self) -> bool:
        """Whether there is a safe way at all."""
        blocked = self.changes or self.fixed or self.compaction is Compaction.IMPOSSIBLE
        return self.standing is ReleaseOrder.OLDER and not blocked


def path(current: Current, target: Target) -> Path:
    """What has to be done on the way from ``current`` to ``target``, and what forbids it. Never raises."""
    every = (
        Lowering(feature=feature, level=level, to=target.line.supports(feature))
        for feature, level in sorted(current.features.items())
    )
    above = [each for each in every if each.level > each.to]
    changed = [
        name for each in above if each.feature == METADATA for name in changes_between(each.to, each.level)
    ]
    stay = FIXED | {METADATA} if changed else FIXED
    # what runs can have finalised what the target cannot read: the record of it may lie in the metadata log
    # still, also where the feature is lowered by now; a cluster without features has no such log
    line = None if current.oldest is None else line_of_version(current.oldest)
    names = (METADATA, *line.features) if line else ()
    hidden = line is None or any(line.supports(name) > target.line.supports(name) for name in names)
    return Path(
        standing=standing(current.version, current.coordinator, target),
        lowered=tuple(each for each in above if each.feature not in stay),
        changes=tuple(changed),
        fixed=tuple(each for each in above if each.feature in FIXED),
        snapshot=bool(current.features) and hidden,
        compaction=_compaction(current, target),
    )


def standing(version: Version | Span | None, coordinator: Coordinator | None, target: Target) -> ReleaseOrder:
    """Where the target stands to one broker; the same release with the old coordinator for the new one counts
    as older."""
    if version is None:
        return ReleaseOrder.UNKNOWN
    if isinstance(version, Span):
        if version.since is not None and target.version < version.since.lowest:
            return ReleaseOrder.OLDER
        after = version.before is not None and target.version >= version.before.lowest
        return ReleaseOrder.NEWER if after else ReleaseOrder.UNKNOWN
    if target.version != version:
        return ReleaseOrder.OLDER if target.version < version else ReleaseOrder.NEWER
    flipped = coordinator is Coordinator.NEW and target.coordinator is Coordinator.OLD
    return ReleaseOrder.OLDER if flipped else ReleaseOrder.SAME


def _compaction(current: Current, target: Target) -> Compaction:
    """By what is in the log, and by what the running release writes into it."""
    reader, oldest = target.loader, current.oldest
    flexible = oldest is not None and oldest >= _V41
    newest = max(current.commits or 0, _FLEXIBLE_COMMIT if flexible else 0)
    if newest > reader.commit_version:
        return Compaction.IMPOSSIBLE
    if reader.ignores_unknown_types or current.new_types is False:
        return Compaction.NOT_NEEDED
    return Compaction.NEEDED if current.new_types else Compaction.UNKNOWN


INTER_BROKER = "inter.broker.protocol.version"
"""With ZooKeeper: the version that brokers speak to each other and write by, in the place of features."""
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})", re.ASCII)
_PROTOCOLS_SINCE = {"classic": _V37, "consumer": _V37, "share": _V39, "streams": _V40}
FILE = "moves/downgrade/property_names.toml"
"""The table of names, below the package ``groupshift``."""
FIRST_LINE = {name: line for line, names in table_of(dict[str, list[str]], FILE).items() for name in names}
"""Name → line of releases that knows it first, such as ``4.3``. What is not in it is as old as 3.4, or a
plugin's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A property that the target does not take as it is; ``fatal`` when the broker ends at its start."""

    name: str
    value: str
    why: str
    fatal: bool


def misfits(properties: Mapping[str, Property], target: Target) -> Iterator[Misfit]:
    """What in a broker's file the target does not know, by name."""
    for name in sorted(properties):
        value = properties[name].value or ""
        if not properties[name].static:
            continue
        if why := _fatal(name, value, target):
            yield Misfit(name=name, value=value, why=why, fatal=True)
        elif name in FIRST_LINE and target.version < Version.parse(f"{FIRST_LINE[name]}.0").lowest:
            yield Misfit(name=name, value=value, why=f"{target.release} ignores it", fatal=False)


def speaks_newer(properties: Mapping[str, Property], target: Target) -> bool:
    """With ZooKeeper: whether a broker speaks and writes by a version that the target does not know (by
    that of its own release where none is set)."""
    version = properties.get(INTER_BROKER)
    return version is None or bool(_fatal(INTER_BROKER, version.value or "", target))


def _fatal(name: str, value: str, target: Target) -> str:
    """Why the target ends at its start where a broker's file has this value; empty where it does not."""
    version, release = target.version, target.release
    parts = [each.strip() for each in value.split(",") if each.strip()]
    match name:
        case "controller.quorum.bootstrap.servers" if value and version < _V39.lowest:
            return f"{release} wants controller.quorum.voters in its place (KIP-853 came with 3.9)"
        case _ if name == PROTOCOLS and version >= _V37.lowest:
            since = ((each.lower(), _PROTOCOLS_SINCE.get(each.lower(), _V37)) for each in parts)
            unknown = ", ".join(each for each, first in since if version < first.lowest)
            return f"{release} does not know {unknown} and ends at its start" if unknown else ""
        case _ if name == ASSIGNORS and _V37.lowest <= version < _V40.lowest:
            short = ", ".join(each for each in parts if "." not in each)
            return f"{release} wants names of classes, not {short}, and ends at its start" if short else ""
        case _ if name == INTER_BROKER and version < _V40.lowest:  # also in KRaft, where nobody checks it
            match, highest = _VERSION.match(value), tuple(map(int, target.line.name.split(".")))
            newer = match is not None and (int(match[1]), int(match[2])) > highest
            return f"{release} knows versions up to {target.line.name}" if newer else ""
        case _:
            return ""
