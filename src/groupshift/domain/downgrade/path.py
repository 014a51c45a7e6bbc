"""From what a cluster has finalised and written to an older release: what must be lowered, and what cannot
be.

Source: specs/group-coordinator.md §§4, 5.5, 6.1 (steps 3b, 6, 7), 8.4; specs/verified-coordinator.md §§A,
D.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.domain.downgrade.releases import FIXED, Line, Target, line_of_version
from groupshift.domain.versions import METADATA, Span, Version, changes_between, name_of
from groupshift.log.releases import Coordinator

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
