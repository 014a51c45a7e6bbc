"""What the log of the offsets topic says about a downgrade: the replay lint for the target, and what lies
in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from groupshift.domain.downgrade.inventory import LoggedGroup
from groupshift.domain.downgrade.releases import Target
from groupshift.log.decode import Decoded
from groupshift.log.replay import GroupVerdict, lint
from groupshift.log.state import GroupFamily, materialise

_COMMITS = frozenset({0, 1})
_FIRST_NEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """``records`` were read; ``groups`` are those with anything live, ``verdicts`` what the target's
    coordinator makes of each. ``new_types`` counts records with keys of type 3 or above, tombstones
    included, by type; ``commits`` is the newest version of a commit (None: there is none)."""

    records: int = 0
    groups: Mapping[str, LoggedGroup] = field(default_factory=dict)
    verdicts: Mapping[str, GroupVerdict] = field(default_factory=dict)
    new_types: Mapping[int, int] = field(default_factory=dict)
    commits: int | None = None


def log_facts(records: Iterable[Decoded], target: Target) -> LogFacts:
    """The facts of a whole log, decoded with the partition count in force, in any order.

    Raises `Rejected` as `lint` does."""
    read = list(records)
    new_types: dict[int, int] = {}
    commits: int | None = None
    for each in read:
        number = each.record_type
        if number is not None and number >= _FIRST_NEW:
            new_types[number] = new_types.get(number, 0) + 1
        if number in _COMMITS and each.value_version is not None:
            commits = each.value_version if commits is None else max(commits, each.value_version)
    state = materialise(read)
    groups = {
        name: LoggedGroup(group=name, family=each.family, protocol_type=each.protocol_type)
        for name, each in state.groups.items()
        if each.family is not GroupFamily.GONE
    }
    return LogFacts(
        records=len(read),
        groups=groups,
        verdicts=lint(read, target.release, target.coordinator),
        new_types=dict(sorted(new_types.items())),
        commits=commits,
    )
