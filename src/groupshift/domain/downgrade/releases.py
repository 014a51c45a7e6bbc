"""What each line of releases supports, and the release that a downgrade goes to.

Read off the released classes of 3.4.1, 3.5.2, 3.7.2, 3.8.1, 3.9.2, 4.0.2, 4.1.2, 4.2.1, 4.3.1 and 4.4.0;
3.6 is that of specs/group-coordinator.md §5.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupshift.domain.versions import METADATA, Version
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
