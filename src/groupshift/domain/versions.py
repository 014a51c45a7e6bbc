"""Versions in their order and ranges of them; release lines of brokers; levels of ``metadata.version``.

``3.4.0 < 3.4.1 < 4.0.0-rc1 < 4.0.0``.

A broker does not send its version. ApiVersions has the range of ``metadata.version``, whose upper end is
one number a line: 8 is 3.4, 33 is 4.4. Within a line nothing tells the releases apart, so groupshift asks
about a bug that was fixed inside one. Read off ``MetadataVersion.latestProduction`` of 3.4.1, 3.5.2, 3.7.2,
3.9.2, 4.0.2, 4.1.2, 4.3.1 and 4.4.0; 3.6, 3.8 and 4.2 are those of docs/reference/group-coordinator.md §5.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import total_ordering

from groupshift.domain.foreign_json import shown
from groupshift.errors import Rejected

_FORM = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){1,3})(?:[-.+]?([A-Za-z]+)[-.]?(\d{0,18}))?", re.ASCII)
_LINE = re.compile(r"\d{1,9}\.\d{1,9}", re.ASCII)
_BEFORE_RELEASE = {"snapshot": 0, "dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "c": 3, "rc": 3}
_RELEASE = 4
_PARTS = 4
_COMPLETE = 3


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """One version: its numbers (filled up to four), and what it is: 0 snapshot … 3 candidate, 4 release."""

    numbers: tuple[int, ...]
    stage: int = _RELEASE
    turn: int = 0
    text: str = ""

    @classmethod
    def parse(cls, text: str, field: str = "version") -> Version:
        """``3.9.2``, ``4.0.0-rc1``, ``2.16.1rc2``, ``0.10.2.2``; ``field`` is where it was given.

        Raises `Rejected` for what is no version, for a line such as ``3.9`` (see `met`), and for the numbers
        of a distribution (``7.6.0-ccs``), which are not those of Apache Kafka."""
        found = _FORM.fullmatch(text.strip())
        if found is None or found[1].count(".") + 1 < _COMPLETE:
            raise Rejected(
                f"{field} {shown(text)} is no version; give all its numbers, such as 3.9.2 or 4.0.0-rc1"
            )
        stage = _RELEASE if found[2] is None else _BEFORE_RELEASE.get(found[2].lower())
        if stage is None:
            raise Rejected(
                f"{field} {text!r} is numbered by a distribution; give the version of Apache Kafka or of the "
                "library that it contains, such as 3.9.2"
            )
        return cls(_filled(found[1]), stage, int(found[3] or 0), text.strip().removeprefix("v"))

    @property
    def lowest(self) -> Version:
        """The first snapshot of this version, which is older than its candidates."""
        return Version(self.numbers, 0, 0, self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._rank() == other._rank()

    def __lt__(self, other: Version) -> bool:
        return self._rank() < other._rank()

    def __hash__(self) -> int:
        return hash(self._rank())

    def __str__(self) -> str:
        return self.text

    def _rank(self) -> tuple[tuple[int, ...], int, int]:
        return self.numbers, self.stage, self.turn


class Fix(StrEnum):
    """What the upper border of a range is."""

    RELEASED = "released"
    """A release that is known to hold the fix."""
    MERGED = "merged"
    """The next release of a branch that the fix was merged to; that release was not seen."""
    NOT_CONFIRMED = "not confirmed"
    """The first release that surely holds the fix; an older one may."""
    LINE = "line"
    """Nothing was fixed: the line of releases ends here, or the bug cannot be met any more."""


class Touch(StrEnum):
    """Whether a version lies in a range."""

    YES = "yes"
    PERHAPS = "perhaps"
    """Not known exactly enough."""
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The versions from ``since`` up to, not including, ``before``; None is open.

    Candidates of ``since`` belong to it, those of ``before`` too: they may lack the fix. ``last`` is the
    newest release that is known to be affected; ``fix`` says what ``before`` is."""

    since: Version | None = None
    last: Version | None = None
    before: Version | None = None
    fix: Fix = Fix.RELEASED

    def holds(self, version: Version) -> bool:
        """Whether the version is one of these."""
        return (self.since is None or self.since.lowest <= version) and (
            self.before is None or version < self.before
        )

    def covers(self, other: Span) -> bool:
        """Whether every version of the other range is one of these."""
        low = self.since is None or (other.since is not None and self.since.lowest <= other.since.lowest)
        high = self.before is None or (other.before is not None and other.before.lowest <= self.before)
        return low and high

    def meets(self, other: Span) -> bool:
        """Whether a version can be in both."""
        return _begins_before_end(self, other) and _begins_before_end(other, self)

    def touch(self, version: Version | Span | None) -> Touch:
        """Whether what was met is one of these: a version, a range in which it lies, or None for unknown."""
        if version is None:
            return Touch.PERHAPS
        if isinstance(version, Version):
            return Touch.YES if self.holds(version) else Touch.NO
        if self.covers(version):
            return Touch.YES
        return Touch.PERHAPS if self.meets(version) else Touch.NO

    def __str__(self) -> str:
        if self.since is None:
            return "all" if self.before is None else f"before {self.before}"
        return f"{self.since} and later" if self.before is None else f"{self.since} to before {self.before}"


def met(text: str, field: str = "version") -> Version | Span | None:
    """What somebody says about a version: exactly (``3.9.2``), by its line (``3.9``), or ``unknown``.

    Raises `Rejected` as `Version.parse` does."""
    bare = text.strip().removeprefix("v")
    if bare.lower() in {"", "unknown", "?"}:
        return None
    if _LINE.fullmatch(bare):
        major, minor = (int(part) for part in bare.split("."))
        return Span(
            since=Version.parse(f"{major}.{minor}.0"), before=Version.parse(f"{major}.{minor + 1}.0").lowest
        )
    return Version.parse(bare, field)


def _filled(numbers: str) -> tuple[int, ...]:
    parts = [int(part) for part in numbers.split(".")]
    return tuple(parts + [0] * (_PARTS - len(parts)))


def _begins_before_end(one: Span, other: Span) -> bool:
    return one.since is None or other.before is None or one.since.lowest < other.before


METADATA = "metadata.version"


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


_OF_4_0 = {
    "group.version": 1,
    "transaction.version": 2,
    "eligible.leader.replicas.version": 1,
    "kraft.version": 1,
}
_OF_4_1 = {**_OF_4_0, "share.version": 1}
_OF_4_2 = {**_OF_4_1, "streams.version": 1}
LINES = tuple(
    Line(name=name, newest=newest, metadata=metadata, features=features)
    for name, newest, metadata, features in (
        ("3.4", "3.4.1", 8, {}),
        ("3.5", "3.5.2", 11, {}),
        ("3.6", "3.6.2", 14, {}),
        ("3.7", "3.7.2", 19, {}),
        ("3.8", "3.8.1", 20, {}),
        ("3.9", "3.9.2", 21, {"kraft.version": 1}),
        ("4.0", "4.0.2", 25, _OF_4_0),
        ("4.1", "4.1.2", 27, _OF_4_1),
        ("4.2", "4.2.1", 29, _OF_4_2),
        ("4.3", "4.3.1", 30, _OF_4_2),
        ("4.4", "4.4.0", 33, {**_OF_4_2, "share.version": 2}),
    )
)
"""In their order."""


def line_of(newest_metadata: int) -> Span | None:
    """The line of a broker that supports ``metadata.version`` up to this level; None where it is none that we
    know: a newer release, or one with unstable features switched on."""
    found = next((line.name for line in LINES if line.metadata == newest_metadata), "")
    line = met(found)
    return line if isinstance(line, Span) else None
