"""What became different between two scans."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.scan import GroupState


class Aspect(StrEnum):
    """What of a group changed."""

    APPEARED = "appeared"
    VANISHED = "vanished"
    LIFE = "life"
    MEMBERS = "members"
    MODE = "mode"
    NEXT = "next stage"
    PARTITIONS = "partitions"
    MOVED = "at rest"
    """Same members and mode, but somebody restarted or partitions changed hands since the last scan."""
    PROBLEMS = "problems"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference; ``before`` and ``after`` are short texts for people, empty where there was nothing."""

    group: str
    aspect: Aspect
    before: str = ""
    after: str = ""


def members_text(state: GroupState) -> str:
    """``3 old, 1 aware``, or ``none``."""
    counts = ((state.old, "old"), (state.aware, "aware"), (state.plain, "plain"))
    return ", ".join(f"{count} {kind}" for count, kind in counts if count) or "none"


def next_text(state: GroupState) -> str:
    """``toggle: ready``, or ``-`` when there is nothing left to move."""
    return f"{state.next.stage}: {state.next.state}" if state.next else "-"


def appeared(state: GroupState) -> Change:
    """A group that the last scan did not know."""
    return Change(group=state.group, aspect=Aspect.APPEARED, after=f"{state.life}, {members_text(state)}")


def vanished(group: str, before: GroupState) -> Change:
    """A group that the last scan knew and that is gone from both systems."""
    text = f"{before.life}, {members_text(before)}"
    return Change(group=group, aspect=Aspect.VANISHED, before=text)


def difference(before: GroupState, after: GroupState) -> tuple[Change, ...]:
    """Every difference but those that always are there (lag, offsets that advance)."""
    told = [
        (Aspect.LIFE, before.life.value, after.life.value),
        (Aspect.MEMBERS, members_text(before), members_text(after)),
        (Aspect.MODE, before.mode.value, after.mode.value),
        (Aspect.NEXT, next_text(before), next_text(after)),
        (Aspect.PARTITIONS, str(before.partitions), str(after.partitions)),
        (Aspect.PROBLEMS, "; ".join(before.problems), "; ".join(after.problems)),
    ]
    found = [(aspect, then, now) for aspect, then, now in told if then != now]
    if not found and before.fingerprint != after.fingerprint:
        found = [(Aspect.MOVED, "", "members restarted or partitions changed hands")]
    return tuple(
        Change(group=after.group, aspect=aspect, before=then, after=now) for aspect, then, now in found
    )
