"""Commits whose leader epoch is not their partition's: found, written again without one, read back.

Source: docs/reference/epochs-and-topic-ids.md §A (a broker takes any epoch; only -1 is safe for all clients).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from groupshift.domain.commit_places import EPOCHS, Stray
from groupshift.domain.group_protocol import EMPTY
from groupshift.domain.rows import GONE, OffsetRow, ProblemRow
from groupshift.moves.expansion.restore import (
    NotRestored,
    Restored,
    key_of,
    restore_offsets,
    some_groups,
    unlike,
)
from groupshift.ports.changes import OffsetRestoring
from groupshift.ports.cluster import ClusterGroups, GroupSnapshots

_CHANGED = "somebody changed it since it was planned: nothing was written"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRepair:
    """A commit with a foreign leader epoch. ``current`` is the partition's epoch, ``end`` where the committed
    one ended (None: not told); ``left`` says why it is left alone (empty: it is written again)."""

    row: OffsetRow
    stray: Stray
    current: int
    end: int | None = None
    left: str = ""

    @property
    def wanted(self) -> OffsetRow:
        """The same commit without an epoch."""
        return replace(self.row, leader_epoch=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """What was found in ``offsets`` commits; ``problems`` are of groups that were not read in full."""

    cluster_id: str
    offsets: int
    repairs: tuple[EpochRepair, ...]
    problems: tuple[ProblemRow, ...] = ()

    @property
    def to_do(self) -> tuple[EpochRepair, ...]:
        """Those that are written again."""
        return tuple(each for each in self.repairs if not each.left)

    @property
    def left(self) -> tuple[EpochRepair, ...]:
        """Those that are left alone."""
        return tuple(each for each in self.repairs if each.left)


def plan_epochs(reader: GroupSnapshots, groups: Collection[str] | None = None) -> EpochPlan:
    """Look at these groups (None: all); nothing is changed. Raises as the port."""
    state = reader.take(groups)
    problems = [each for each in state.problems if each.group is not None]
    known = {each.group for each in state.groups if each.state != GONE}
    known |= {each.group for each in state.offsets} | {each.group or "" for each in problems}
    for group in sorted(set(groups or ()) - known):  # asked for by name, and nothing is proven about it
        said = f"group {group!r}: no coordinator knows it: see that its name is right, letter by letter"
        problems.append(ProblemRow(group=group, problem=said))
    states = {each.group: each.state for each in state.groups}
    ends = {(each.topic, each.partition): each.log_end for each in state.log_ends}
    repairs = [
        EpochRepair(
            row=row,
            stray=stray,
            current=state.topics.current_epoch(row.topic, row.partition),
            end=state.topics.ends.get((row.topic, row.partition, row.leader_epoch or 0)),
            left=_left(row, states.get(row.group, ""), strays, ends.get((row.topic, row.partition))),
        )
        for row in state.offsets
        for strays in (state.topics.strays(row),)
        for stray in sorted(strays & EPOCHS)
    ]
    return EpochPlan(
        cluster_id=state.cluster_id,
        offsets=len(state.offsets),
        repairs=tuple(repairs),
        problems=tuple(problems),
    )


def _left(row: OffsetRow, state: str, strays: frozenset[Stray], end: int | None) -> str:
    """Why a commit is left alone, where its partition's log ends at ``end``; empty where it is not."""
    if state not in {EMPTY, GONE}:
        return f"group {row.group!r} has members (state {state or 'not told'}): stop them first"
    if Stray.FORMER_TOPIC in strays:
        return f"it belongs to a former topic {row.topic!r}: set or delete the offset instead"
    if end is None:
        return f"the log end of {row.topic}-{row.partition} is not known: look again"
    beyond = f"offset {row.offset} is beyond the log end {end}: set it to where the group should go on"
    return beyond if row.offset > end else ""


def repair_epochs(plan: EpochPlan, restoring: OffsetRestoring, reader: ClusterGroups) -> Restored:
    """Write the planned commits again with leader epoch -1, for groups without members, and read them back:
    some groups at a time, looked at right before. Other offsets of a group are not touched. Safe to repeat.

    Raises as the ports."""
    done = Restored()
    for some in some_groups(plan.to_do, lambda each: each.row.group):
        again = plan_epochs(reader, sorted({each.row.group for each in some}))
        wanted, changed = list[OffsetRow](), list[NotRestored]()
        now = {key_of(each.row): each for each in again.repairs}
        problems = {each.group: each.problem for each in reversed(again.problems)}
        for each in some:
            there = now.get(key_of(each.row))
            if there is not None and not there.left and not unlike(there.row, each.row):
                wanted.append(each.wanted)
                continue
            why = (there and there.left) or problems.get(each.row.group) or _CHANGED
            changed.append(NotRestored(wanted=each.wanted, current=None, reason=why))
        done += Restored(differing=tuple(changed))
        done += restore_offsets(restoring, reader, wanted)
    return done
