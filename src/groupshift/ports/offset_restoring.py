"""Giving groups without members the offsets that they had, and taking groups away before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from groupshift.domain.rows import OffsetRow


class Refusals(dict[str, str]):
    """Why offsets were refused, by group; ``rows`` has only those that were."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[tuple[str, str, int], str] = {}

    def add(self, row: OffsetRow, why: str) -> None:
        """One offset was refused."""
        self.rows[row.group, row.topic, row.partition] = why
        self.setdefault(row.group, why)


def refusal_of(refused: Mapping[str, str], row: OffsetRow) -> str:
    """Why this offset was refused; empty where it was not, and the group's word where no more is told."""
    if isinstance(refused, Refusals):
        return refused.rows.get((row.group, row.topic, row.partition), "")
    return refused.get(row.group, "")


def unheld() -> None:
    """Nobody can take the place of who deletes."""


class OffsetRestoring(Protocol):
    """Changes offsets of groups that have no members, by their coordinators; safe to repeat.

    Raises `Transient` when brokers do not answer within the bounded retries, `Rejected` when credentials are
    refused or a broker is too old. What a coordinator refuses of one group hides no other group."""

    def commit(self, rows: Iterable[OffsetRow]) -> Mapping[str, str]:
        """Commit these offsets exactly: leader epoch and metadata as they are; one with a topic id only to
        the topic of that id, where the broker can tell (since 4.1), one of a former topic never. Why a
        group's were refused, by group; of such a group some partitions may be committed (`refusal_of`). The
        time of a commit is now, and an expiry
        of its own is lost (specs/group-coordinator.md §3.4 step 10)."""
        ...

    def delete(self, groups: Collection[str], hold: Callable[[], None] = unheld) -> Mapping[str, str]:
        """Delete these groups with their offsets; one that is not there is no error. Why a group was not
        deleted, by group (it has members). ``hold`` is called before each request that deletes, and may
        raise: then nothing more is deleted."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
