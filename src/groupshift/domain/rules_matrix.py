"""Which members may share a group, and in which mode: the compatibility matrix as one table.

Source: docs/reference/zookeeper-coordination.md §9 (matrix and path), 8.9 (D11), 8.10 (F6).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.tables import table_of


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """One line of the matrix.

    It speaks of a group that has a member of each set in ``needs`` and none outside ``within``;
    ``modes`` are the modes in effect in which that group is allowed (empty: never), ``rule`` is the
    rule that refuses it in the others (empty: none), ``source`` the section that says so.
    """

    number: str
    needs: tuple[frozenset[Part], ...]
    within: frozenset[Part]
    modes: frozenset[Mode]
    rule: str = ""
    source: str

    def speaks_of(self, parts: Collection[Part]) -> bool:
        """Whether a group of these parts is one of this line."""
        present = set(parts)
        return present <= self.within and all(present & needed for needed in self.needs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The file ``rules_matrix.toml``."""

    lines: tuple[Mix, ...]


MATRIX = table_of(Matrix, "domain/rules_matrix.toml").lines
"""Every line of the matrix of §9, and the end of its path. Every group is spoken of by one at least."""


def forbidden(parts: Collection[Part], modes: Collection[Mode]) -> tuple[Mix, ...]:
    """The lines that forbid a group of these parts in one of these modes; empty: it is allowed."""
    return tuple(mix for mix in MATRIX if mix.speaks_of(parts) and not set(modes) <= mix.modes)


def parts_of(view: GroupView, commits_to_kafka: Collection[str] = ()) -> frozenset[Part]:
    """What the group is made of; ``commits_to_kafka`` are the old members known to do so."""
    parts = set()
    for member in view.members:
        if member.kind is MemberKind.PLAIN:
            parts.add(Part.PLAIN)
        elif member.kind is MemberKind.AWARE:
            parts.add(Part.FENCED if member.fence else Part.UNFENCED)
        else:
            parts.add(Part.OLD_IN_KAFKA if member.member_id in commits_to_kafka else Part.OLD)
    return frozenset(parts)
