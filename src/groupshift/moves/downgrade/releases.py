"""What each line of releases reads, the release that a downgrade goes to, and the path to it: features to
lower, whether the log has to be compacted, whether a metadata snapshot has to be newer.

Source: KIP-584, KIP-848, KIP-915; the releases themselves, answers of real brokers
(docs/reference/downgrade-rules.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.domain.versions import METADATA, Span, Version, changes_between, name_of
from groupshift.errors import Rejected
from groupshift.log.releases import Coordinator, Loader, loader

GROUP, SHARE, STREAMS = "group.version", "share.version", "streams.version"
TRANSACTION, REPLICAS, QUORUM = "transaction.version", "eligible.leader.replicas.version", "kraft.version"
FIXED = frozenset({QUORUM})
"""Features that no release lowers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line, such as 3.9: ``newest`` is its last release that was looked at, ``metadata`` the newest
    ``metadata.version`` that it can read, ``features`` the newest level of every other feature (absent:
    0)."""

    name: str
    newest: str
    metadata: int
    features: Mapping[str, int] = field(default_factory=dict)

    def supports(self, feature: str) -> int:
        """The highest level of this feature that the line can read."""
        return self.metadata if feature == METADATA else self.features.get(feature, 0)


_OF_4_0 = {GROUP: 1, TRANSACTION: 2, REPLICAS: 1, QUORUM: 1}
_OF_4_1 = {**_OF_4_0, SHARE: 1}
_OF_4_2 = {**_OF_4_1, STREAMS: 1}

LINES = tuple(
    Line(name=name, newest=newest, metadata=metadata, features=features)
    for name, newest, metadata, features in (
        ("3.4", "3.4.1", 8, {}),
        ("3.5", "3.5.2", 11, {}),
        ("3.6", "3.6.2", 14, {}),
        ("3.7", "3.7.2", 19, {}),
        ("3.8", "3.8.1", 20, {}),
        ("3.9", "3.9.2", 21, {QUORUM: 1}),
        ("4.0", "4.0.2", 25, _OF_4_0),
        ("4.1", "4.1.2", 27, _OF_4_1),
        ("4.2", "4.2.1", 29, _OF_4_2),
        ("4.3", "4.3.1", 30, _OF_4_2),
        ("4.4", "4.4.0", 33, {**_OF_4_2, SHARE: 2}),
    )
)
"""In their order."""

_BY_NAME = {line.name: line for line in LINES}


def line_named(major: int, minor: int) -> Line | None:
    """The line, or None where it is none that we know."""
    return _BY_NAME.get(f"{major}.{minor}")


def line_of_version(version: Version) -> Line | None:
    """The line of a release."""
    return line_named(version.numbers[0], version.numbers[1])


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
            f"{LINES[-1].newest}; "
            "name one of them"
        )
    usual = Coordinator.NEW if version.numbers[0] >= _NEW_BY_DEFAULT else Coordinator.OLD
    chosen = coordinator or usual
    loader(str(version), chosen)
    return Target(version=version, line=line, coordinator=chosen)


_NEW_BY_DEFAULT = 4

_FLEXIBLE = Version.parse("4.1.0")
"""From here on every commit is written in version 4."""
_FLEXIBLE_COMMIT = 4


class Standing(StrEnum):
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
    def writes_flexible(self) -> bool:
        """Whether every commit is written in version 4 (since 4.1)."""
        oldest = self.version.since if isinstance(self.version, Span) else self.version
        return oldest is not None and oldest >= _FLEXIBLE


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

    standing: Standing
    lowered: tuple[Lowering, ...] = ()
    changes: tuple[str, ...] = ()
    fixed: tuple[Lowering, ...] = ()
    snapshot: bool = False
    compaction: Compaction = Compaction.NOT_NEEDED

    @property
    def possible(self) -> bool:
        """Whether there is a safe way at all."""
        blocked = self.changes or self.fixed or self.compaction is Compaction.IMPOSSIBLE
        return self.standing is Standing.OLDER and not blocked

    @property
    def open(self) -> bool:
        """Whether features and log are ready for the target now."""
        return self.possible and not self.lowered and self.compaction is Compaction.NOT_NEEDED


def path(current: Current, target: Target) -> Path:
    """What has to be done on the way from ``current`` to ``target``, and what forbids it. Never raises."""
    lowered: list[Lowering] = []
    fixed: list[Lowering] = []
    changes: tuple[str, ...] = ()
    for feature, level in sorted(current.features.items()):
        highest = target.line.supports(feature)
        if level <= highest:
            continue
        step = Lowering(feature=feature, level=level, to=highest)
        if feature == METADATA:
            changes = changes_between(highest, level)
        if feature in FIXED:
            fixed.append(step)
        elif feature != METADATA or not changes:
            lowered.append(step)
    return Path(
        standing=standing(current.version, current.coordinator, target),
        lowered=tuple(lowered),
        changes=changes,
        fixed=tuple(fixed),
        snapshot=_snapshot(current, target),
        compaction=_compaction(current, target),
    )


def standing(version: Version | Span | None, coordinator: Coordinator | None, target: Target) -> Standing:
    """Where the target stands to one broker; the same release with the old coordinator for the new one counts
    as older."""
    if version is None:
        return Standing.UNKNOWN
    if isinstance(version, Span):
        if version.since is not None and target.version < version.since.lowest:
            return Standing.OLDER
        after = version.before is not None and target.version >= version.before.lowest
        return Standing.NEWER if after else Standing.UNKNOWN
    if target.version != version:
        return Standing.OLDER if target.version < version else Standing.NEWER
    flipped = coordinator is Coordinator.NEW and target.coordinator is Coordinator.OLD
    return Standing.OLDER if flipped else Standing.SAME


def _snapshot(current: Current, target: Target) -> bool:
    """Whether what runs can have finalised what the target cannot read: the record of it may lie in the
    metadata log still, also where the feature is lowered by now. A cluster without features has no such
    log."""
    if not current.features:
        return False
    line = _line_of(current.version)
    if line is None:
        return True
    return any(line.supports(name) > target.line.supports(name) for name in (METADATA, *line.features))


def _line_of(version: Version | Span | None) -> Line | None:
    first = version.since if isinstance(version, Span) else version
    return None if first is None else line_of_version(first)


def _compaction(current: Current, target: Target) -> Compaction:
    reader = target.loader
    if current.writes_flexible and reader.commit_version < _FLEXIBLE_COMMIT:
        return Compaction.IMPOSSIBLE
    if current.commits is not None and current.commits > reader.commit_version:
        return Compaction.IMPOSSIBLE
    if reader.ignores_unknown_types or current.new_types is False:
        return Compaction.NOT_NEEDED
    return Compaction.NEEDED if current.new_types else Compaction.UNKNOWN
