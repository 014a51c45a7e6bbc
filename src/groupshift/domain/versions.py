"""Versions in their order and ranges of them; release lines of brokers; levels of ``metadata.version``.

``3.4.0 < 3.4.1 < 4.0.0-rc1 < 4.0.0``.

A broker does not send its version. ApiVersions has the range of ``metadata.version``, whose upper end is
one number a line: 8 is 3.4, 33 is 4.4. Within a line nothing tells the releases apart, so groupshift asks
about a bug that was fixed inside one.
``releases.toml`` has the lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from groupshift.domain.foreign_json import shown
from groupshift.domain.tables import table_of
from groupshift.errors import Rejected

_FORM = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){1,3})(?:[-.+]?([A-Za-z]+)[-.]?(\d{0,18}))?", re.ASCII)
_LINE = re.compile(r"\d{1,9}\.\d{1,9}", re.ASCII)
_BEFORE_RELEASE = {"snapshot": 0, "dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "c": 3, "rc": 3}
_RELEASE = 4
_PARTS = 4
_COMPLETE = 3


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """One version: its numbers (filled up to four), and what it is: 0 snapshot … 3 candidate, 4 release."""

    numbers: tuple[int, ...]
    stage: int = _RELEASE
    turn: int = 0
    text: str = field(default="", compare=False)

    @classmethod
    def parse(cls, text: str, name: str = "version") -> Version:
        """``3.9.2``, ``4.0.0-rc1``, ``2.16.1rc2``, ``0.10.2.2``; ``name`` is where it was given.

        Raises `Rejected` for what is no version, for a line such as ``3.9`` (see `version_in`), and for the
        numbers of a distribution (``7.6.0-ccs``), which are not those of Apache Kafka."""
        match = _FORM.fullmatch(text.strip())
        if match is None or match[1].count(".") + 1 < _COMPLETE:
            raise Rejected(
                f"{name} {shown(text)} is no version; give all its numbers, such as 3.9.2 or 4.0.0-rc1"
            )
        stage = _RELEASE if match[2] is None else _BEFORE_RELEASE.get(match[2].lower())
        if stage is None:
            raise Rejected(
                f"{name} {text!r} is numbered by a distribution; give the version of Apache Kafka or of the "
                "library that it contains, such as 3.9.2"
            )
        numbers = [*map(int, match[1].split(".")), 0][:_PARTS]
        return cls(tuple(numbers), stage, int(match[3] or 0), text.strip().removeprefix("v"))

    @property
    def lowest(self) -> Version:
        """The first snapshot of this version, which is older than its candidates."""
        return Version(self.numbers, 0, 0, self.text)

    def __str__(self) -> str:
        return self.text


_FIRST, _LAST = Version((-1,)), Version((10**9,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The versions from ``since`` up to, not including, ``before``; None is open.

    Candidates of ``since`` belong to it, those of ``before`` too: they may lack the fix. ``last`` is the
    newest release that is known to be affected; ``fix`` says what ``before`` is, for
    docs/reference/hazards.md (see ``hazards.toml``)."""

    since: Version | None = None
    last: Version | None = None
    before: Version | None = None
    fix: str = "released"

    @property
    def begins(self) -> Version:
        """What every version of the range is not older than."""
        return self.since.lowest if self.since else _FIRST

    @property
    def ends(self) -> Version:
        """What every version of the range is older than."""
        return self.before or _LAST

    def holds(self, version: Version) -> bool:
        """Whether the version is one of these."""
        return self.begins <= version < self.ends

    def meets(self, other: Span) -> bool:
        """Whether a version can be in both."""
        return self.begins < other.ends and other.begins < self.ends

    def touch(self, version: Version | Span | None) -> bool | None:
        """Whether what was met is one of these: a version, a range in which it lies, or None for unknown.
        None where that is not known exactly enough."""
        if isinstance(version, Version):
            return self.holds(version)
        if version is None:
            return None
        if self.begins <= version.begins and version.ends.lowest <= self.ends:
            return True
        return None if self.meets(version) else False

    def __str__(self) -> str:
        if self.since is None:
            return "all" if self.before is None else f"before {self.before}"
        return f"{self.since} and later" if self.before is None else f"{self.since} to before {self.before}"


def version_in(text: str, field: str = "version") -> Version | Span | None:
    """What somebody says about a version: exactly (``3.9.2``), by its line (``3.9``), or ``unknown``.

    Raises `Rejected` as `Version.parse` does."""
    bare = text.strip().removeprefix("v")
    if bare.lower() in {"", "unknown", "?"}:
        return None
    if _LINE.fullmatch(bare):
        major, minor = map(int, bare.split("."))
        first, after = (Version.parse(f"{major}.{each}.0") for each in (minor, minor + 1))
        return Span(since=first, before=after.lowest)
    return Version.parse(bare, field)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Supported:
    """What groupshift works with: the ``releases`` that are supported, and those that were ``tried``."""

    what: str
    releases: str
    tried: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """The file ``releases.toml``."""

    lines: tuple[Line, ...]
    supported: tuple[Supported, ...]


_READ = table_of(Releases, "domain/releases.toml")
LINES = _READ.lines
"""Lines of releases of brokers, in their order."""
SUPPORTED = _READ.supported
"""The one table that ``groupshift --version`` prints and README.md shows."""


def version_text(version: str) -> str:
    """What ``groupshift --version`` prints."""
    wide = max(len(each.what) for each in SUPPORTED)
    far = max(len(each.releases) for each in SUPPORTED)
    rows = [
        f"{each.what:{wide}}  {each.releases:{far}}  tried: {', '.join(each.tried)}" for each in SUPPORTED
    ]
    return "\n".join([f"groupshift {version}", *rows])


def line_of(newest_metadata: int) -> Span | None:
    """The line of a broker that supports ``metadata.version`` up to this level; None where it is none that we
    know: a newer release, or one with unstable features switched on."""
    line_name = next((line.name for line in LINES if line.metadata == newest_metadata), "")
    line = version_in(line_name)
    return line if isinstance(line, Span) else None
