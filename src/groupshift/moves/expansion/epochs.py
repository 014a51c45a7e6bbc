"""Commits whose leader epoch is not their partition's: found, written again without one, read back.

Source: docs/reference/epochs-and-topic-ids.md §A (a broker takes any epoch; only -1 is safe for every
client).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from groupshift.domain.commit_places import EPOCHS, Stray
from groupshift.domain.group_protocol import EMPTY
from groupshift.domain.rows import GONE, ClusterState, OffsetRow, ProblemRow
from groupshift.moves.expansion.restore import NotRestored, Restored, read_back, unlike
from groupshift.ports.changes import OffsetRestoring
from groupshift.ports.cluster import ClusterGroups, GroupSnapshots

_Key = tuple[str, str, int]
_GROUPS_AT_A_TIME = 100


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsRepaired:
    """``restored`` as read back; ``changed`` were not as planned when it came to writing, and left alone."""

    restored: Restored
    changed: tuple[NotRestored, ...] = ()


def plan_epochs(reader: GroupSnapshots, groups: Collection[str] | None = None) -> EpochPlan:
    """Look at these groups (None: all); nothing is changed. Raises as the port."""
    state = reader.take(groups)
    return EpochPlan(
        cluster_id=state.cluster_id,
        offsets=len(state.offsets),
        repairs=found_in(state),
        problems=(*(each for each in state.problems if each.group is not None), *_unknown(state, groups)),
    )


def _unknown(state: ClusterState, groups: Collection[str] | None) -> Iterator[ProblemRow]:
    """Groups that were asked for by name and that are not there: nothing is proven about them."""
    known = {each.group for each in state.groups if each.state != GONE}
    known |= {each.group for each in state.offsets}
    known |= {each.group for each in state.problems if each.group is not None}
    for group in sorted(set(groups or ()) - known):
        said = f"group {group!r}: no coordinator knows it: see that its name is right, letter by letter"
        yield ProblemRow(group=group, problem=said)


def found_in(state: ClusterState) -> tuple[EpochRepair, ...]:
    """Every commit with a foreign leader epoch, and why some may not be written again. Pure."""
    states = {each.group: each.state for each in state.groups}
    ends = {(each.topic, each.partition): each.log_end for each in state.log_ends}
    return tuple(
        EpochRepair(
            row=row,
            stray=stray,
            current=state.topics.current_epoch(row.topic, row.partition),
            end=state.topics.ends.get((row.topic, row.partition, row.leader_epoch or 0)),
            left=_left(row, states.get(row.group, ""), strays, ends),
        )
        for row in state.offsets
        for strays in (state.topics.strays(row),)
        for stray in sorted(strays & EPOCHS)
    )


def _left(row: OffsetRow, state: str, strays: frozenset[Stray], ends: dict[tuple[str, int], int]) -> str:
    """Why a commit is left alone; empty where it is not."""
    end = ends.get((row.topic, row.partition))
    if state not in {EMPTY, GONE}:
        return f"group {row.group!r} has members (state {state or 'not told'}): stop them first"
    if Stray.FORMER_TOPIC in strays:
        return f"it belongs to a former topic {row.topic!r}: set or delete the offset instead"
    if end is None:
        return f"the log end of {row.topic}-{row.partition} is not known: look again"
    if row.offset > end:
        return f"offset {row.offset} is beyond the log end {end}: set it to where the group should go on"
    return ""


def repair_epochs(plan: EpochPlan, restoring: OffsetRestoring, reader: ClusterGroups) -> EpochsRepaired:
    """Write the planned commits again with leader epoch -1, for groups without members, and read them back:
    some groups at a time, looked at right before. Other offsets of a group are not touched. Safe to repeat.

    Raises as the ports."""
    groups = sorted({each.row.group for each in plan.to_do})
    planned = {_key(each.row): each for each in plan.to_do}
    equal, differing, changed = 0, list[NotRestored](), list[NotRestored]()
    for start in range(0, len(groups), _GROUPS_AT_A_TIME):
        part = groups[start : start + _GROUPS_AT_A_TIME]
        again = plan_epochs(reader, part)
        still = {_key(each.row): each for each in again.to_do}
        wanted = []
        for key, each in planned.items():
            if key[0] not in part:
                continue
            now = still.get(key)
            if now is None or unlike(now.row, each.row):
                changed.append(NotRestored(wanted=each.wanted, found=None, reason=_why(again, key)))
            else:
                wanted.append(each.wanted)
        refused = restoring.commit(wanted)
        done = read_back(reader, wanted, refused)
        equal, differing = equal + done.equal, [*differing, *done.differing]
    return EpochsRepaired(restored=Restored(equal=equal, differing=tuple(differing)), changed=tuple(changed))


def _why(again: EpochPlan, key: _Key) -> str:
    """Why a planned commit is not written now."""
    left = next((each.left for each in again.left if _key(each.row) == key), "")
    problem = next((each.problem for each in again.problems if each.group == key[0]), "")
    return left or problem or "somebody changed it since it was planned: nothing was written"


def _key(row: OffsetRow) -> _Key:
    return row.group, row.topic, row.partition
