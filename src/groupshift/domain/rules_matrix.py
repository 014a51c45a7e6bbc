"""Which members may share a group, and in which mode: the compatibility matrix as one table.

Source: docs/reference/zookeeper-coordination.md §9 (matrix and path), 8.9 (D11), 8.10 (F6).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind, Mode


class Part(StrEnum):
    """What a group can be made of, as far as the matrix tells its members apart."""

    OLD = "old"
    """OZKCC or MDZKCC that commits to ZooKeeper."""
    OLD_IN_KAFKA = "old_in_kafka"
    """OZKCC or MDZKCC with ``offsets.storage=kafka``."""
    FENCED = "fenced"
    """MEZKCC that holds owner nodes in both modes (F1) and says so by ``fence`` (F6)."""
    UNFENCED = "unfenced"
    """MEZKCC like the reference: its owner nodes are a shadow in kafka mode."""
    PLAIN = "plain"
    """KC: a member of the Kafka group only."""


_OLD = frozenset({Part.OLD, Part.OLD_IN_KAFKA})
_AWARE = frozenset({Part.FENCED, Part.UNFENCED})
_PLAIN = frozenset({Part.PLAIN})
_ANY = frozenset(Part)
_BOTH = frozenset(Mode)
_ZOOKEEPER = frozenset({Mode.ZOOKEEPER})
_KAFKA = frozenset({Mode.KAFKA})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """One line of the matrix.

    It speaks of a group that has a member of each set in ``needs`` and none outside ``within``;
    ``modes`` are the modes in effect in which that group is allowed (empty: never), ``rule`` is the
    rule that refuses it in the others, ``source`` the section that says so.
    """

    number: str
    needs: tuple[frozenset[Part], ...]
    within: frozenset[Part]
    modes: frozenset[Mode]
    rule: str | None
    source: str

    def speaks_of(self, parts: Collection[Part]) -> bool:
        """Whether a group of these parts is one of this line."""
        present = set(parts)
        return present <= self.within and all(present & needed for needed in self.needs)


MATRIX = (
    Mix(number="M1", needs=(_OLD,), within=_OLD, modes=_ZOOKEEPER, rule=None, source="§9 line 1"),
    Mix(number="M2", needs=(_OLD, _AWARE), within=_OLD | _AWARE, modes=_ZOOKEEPER, rule=None,
        source="§9 line 2: zookeeper, whatever the node says"),
    Mix(number="M3", needs=(_AWARE,), within=_AWARE, modes=_BOTH, rule=None,
        source="§9 line 3: as the node says"),
    Mix(number="M4", needs=(_AWARE, _PLAIN), within=_AWARE | _PLAIN, modes=_KAFKA, rule="C04",
        source="§9 line 4: must be kafka (D11)"),
    Mix(number="M5", needs=(_OLD, _PLAIN), within=_ANY, modes=frozenset(), rule="C04",
        source="§9 line 5: double consumption (D11)"),
    Mix(number="M6", needs=(frozenset({Part.OLD_IN_KAFKA}), _AWARE), within=_ANY, modes=frozenset(),
        rule="C24", source="§9 line 6, §6.1: commits with generation -1 are refused"),
    Mix(number="M7", needs=(frozenset({Part.FENCED}), frozenset({Part.UNFENCED})), within=_ANY,
        modes=_ZOOKEEPER, rule="C28", source="§9 line 7, §8.10 F6"),
    Mix(number="M8", needs=(_PLAIN,), within=_PLAIN, modes=_BOTH, rule=None, source="§9, end of the path"),
)  # fmt: skip
"""Every line of the matrix of §9, and the end of its path. Every group is spoken of by one at least."""


def forbidden(parts: Collection[Part], modes: Collection[Mode]) -> tuple[Mix, ...]:
    """The lines that forbid a group of these parts in one of these modes; empty: it is allowed."""
    wanted = set(modes)
    return tuple(mix for mix in MATRIX if mix.speaks_of(parts) and not wanted <= mix.modes)


def parts_of(view: GroupView, commits_to_kafka: Collection[str] = ()) -> frozenset[Part]:
    """What the group is made of; ``commits_to_kafka`` are the old members known to do so."""
    return frozenset(_part(member.kind, member.fence, member.member_id in commits_to_kafka)
                     for member in view.members)  # fmt: skip


def _part(kind: MemberKind, fence: int | None, in_kafka: object) -> Part:
    if kind is MemberKind.PLAIN:
        return Part.PLAIN
    if kind is MemberKind.AWARE:
        return Part.FENCED if fence else Part.UNFENCED
    return Part.OLD_IN_KAFKA if in_kafka else Part.OLD
