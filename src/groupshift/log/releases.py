"""What the group coordinator of each release does with the records that it loads: one table.

OLD is the Scala coordinator (all releases up to 3.6, default up to 3.9, an internal switch in 4.0), NEW
the Java one (opt-in from 3.7, the only one from 4.1). Sources: docs/reference/group-coordinator.md §§1.3,
1.4, 4, 5.5; docs/reference/coordinator-on-real-brokers.md §D (3.4.0, 3.4.1, 3.5.2, 3.9.2, 4.x seen); for NEW
the replay methods of the released classes 3.7.2, 3.9.2, 4.0.2, 4.1.2, 4.2.1, 4.3.1 and 4.4.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.tables import table_of
from groupshift.errors import Rejected
from groupshift.log.schema import Family

Release = tuple[int, ...]


class Coordinator(StrEnum):
    """Which of the two group coordinators a broker runs."""

    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """One line: the releases from ``since`` up to, not including, ``before``.

    * ``types`` are the record types it knows. Of others, ``ignores_unknown_types`` says: a warning and on
      with the next record; else the load of the partition breaks off and it is served empty (OLD).
    * ``commit_version`` and ``group_version`` are the newest versions of the values of types 1 and 2
      that it reads.
    * ``strict``: families whose records must not come before those that create their group (NEW).
    * ``replaces_simple``: families whose records may come after offsets of the same group (NEW).
    * ``early``: types that it reads in their early-access layout (NEW).
    """

    coordinator: Coordinator
    since: Release
    before: Release
    types: frozenset[int]
    commit_version: int = 4
    group_version: int = 4
    ignores_unknown_types: bool = True
    strict: frozenset[Family] = frozenset()
    replaces_simple: frozenset[Family] = frozenset()
    early: frozenset[int] = frozenset()
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaders:
    """The file."""

    loaders: tuple[Loader, ...]


LOADERS = table_of(Loaders, "log/releases.toml").loaders
"""Every release from 0.9 on, with each coordinator that it offers."""

_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){1,3}", re.ASCII)


def loader(release: str, coordinator: Coordinator) -> Loader:
    """The line for a release as its jar names it ("3.4.0", "4.1.2"; a suffix is ignored).

    Raises `Rejected` for what is no release, and for a coordinator that this release does not have.
    """
    match = _VERSION.match(release)
    if match is None:
        raise Rejected(f"release {release!r} is no Kafka version; give one such as 3.9.2")
    numbers = tuple(int(part) for part in match[0].split("."))
    for line in LOADERS:
        if line.coordinator is coordinator and line.since <= numbers < line.before:
            return line
    kinds = [line.coordinator.value for line in LOADERS if line.since <= numbers < line.before] or [
        "none (0.9 is the first)"
    ]
    raise Rejected(
        f"release {release} has no {coordinator.value} group coordinator; it has {' and '.join(kinds)}"
    )
