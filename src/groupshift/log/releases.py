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


_CLASSIC = frozenset({0, 1, 2})
_CONSUMER = frozenset(range(9))
_NEWEST = frozenset(range(24)) - {9, 18}
_LAST = (99,)
_BOTH = frozenset({Family.CONSUMER, Family.SHARE})

LOADERS = (
    Loader(coordinator=Coordinator.OLD, since=(0, 9), before=(0, 10, 1), types=_CLASSIC, commit_version=1,
           group_version=0, ignores_unknown_types=False, source="§1.4"),
    Loader(coordinator=Coordinator.OLD, since=(0, 10, 1), before=(2, 1), types=_CLASSIC, commit_version=1,
           group_version=1, ignores_unknown_types=False, source="§1.4"),
    Loader(coordinator=Coordinator.OLD, since=(2, 1), before=(2, 3), types=_CLASSIC, commit_version=3,
           group_version=2, ignores_unknown_types=False, source="§1.4"),
    Loader(coordinator=Coordinator.OLD, since=(2, 3), before=(3, 4, 1), types=_CLASSIC, commit_version=3,
           group_version=3, ignores_unknown_types=False, source="§4; verified on 3.4.0"),
    Loader(coordinator=Coordinator.OLD, since=(3, 4, 1), before=(4, 1), types=_CLASSIC,
           source="§4 (KIP-915); verified on 3.4.1, 3.5.2, 3.9.2"),
    Loader(coordinator=Coordinator.NEW, since=(3, 7), before=(3, 8), types=_CONSUMER, strict=_BOTH,
           early=frozenset({4, 5, 7, 8}), source="classes of 3.7.2"),
    Loader(coordinator=Coordinator.NEW, since=(3, 8), before=(3, 9), types=_CONSUMER, strict=_BOTH,
           source="taken to be as 3.9"),
    Loader(coordinator=Coordinator.NEW, since=(3, 9), before=(4, 0), types=frozenset(range(12)),
           strict=_BOTH, early=frozenset({9, 11}), source="classes of 3.9.2"),
    Loader(coordinator=Coordinator.NEW, since=(4, 0), before=(4, 1), types=frozenset(range(17)),
           strict=frozenset({Family.SHARE}), replaces_simple=frozenset({Family.CONSUMER}),
           early=frozenset({11, 15}), source="classes of 4.0.2"),
    Loader(coordinator=Coordinator.NEW, since=(4, 1), before=(4, 2, 1), types=_NEWEST,
           replaces_simple=frozenset({Family.CONSUMER}),
           source="classes of 4.1.2; KAFKA-20254 was fixed after 4.2.0"),
    Loader(coordinator=Coordinator.NEW, since=(4, 2, 1), before=_LAST, types=_NEWEST,
           replaces_simple=frozenset({Family.CONSUMER, Family.STREAMS}),
           source="classes of 4.2.1, 4.3.1, 4.4.0"),
)  # fmt: skip
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
