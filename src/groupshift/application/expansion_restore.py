"""Steps of an expansion that commit what the snapshot has: once where it is already, and where it belongs
then.

Source: docs/reference/group-coordinator.md §3.4 step 10. What somebody else committed is never overwritten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from groupshift.application.expansion_counts import placing, still_placed
from groupshift.application.expansion_work import COUNTED, DROPPED, Expanding, batches
from groupshift.application.run_work import HOLDS, Handler, Look
from groupshift.domain.commit_places import Topics
from groupshift.domain.placement import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.domain.step import RunAct, RunStep, Seen
from groupshift.moves.expansion.facts import disagreements
from groupshift.moves.expansion.load import Elsewhere, LogReading
from groupshift.moves.expansion.restore import NotRestored, demand_answers, read_back, unlike
from groupshift.ports.changes import refusal_of
from groupshift.ports.journal import RunStepRecord

_SAID = 10
"""How many sentences are journaled."""
_REMEDY = (
    "stop the members where it says 25, let this login read group and topic where it says 29 or 30, set what "
    "clients committed, restart the brokers that are named; then run it again, or leave these offsets as "
    "they are: --seen"
)
_Key = tuple[str, str, int]


def _rehearse(work: Expanding, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = work.kept()
    found = _lasting(work, rows)
    free = [row for row in rows if _key(row) not in found]
    said = [*_committed(work, step, free, {}), *found.values()]
    changed = sorted({each.wanted.group for each in _unlike(work, rows)})
    told = {**_told(work, step, rows, said), "changed": changed[:_SAID]}
    dropped = [[*_key(row), row.offset, found[_key(row)]] for row in rows if _key(row) in found]
    return {**told, DROPPED: dropped} if dropped else told


def _lasting(work: Expanding, rows: Sequence[OffsetRow]) -> dict[_Key, str]:
    """Offsets that cannot be committed again, whoever asks: the topic has no such partition, or another topic
    has its name now. By the snapshot and what brokers tell now. Raises as `GroupSnapshots.take`."""
    topics = work.tools.views.topics(sorted({row.topic for row in rows})) if rows else Topics()
    found = {_key(row): topics.unrestorable(row.topic, row.partition, row.topic_id) for row in rows}
    return {
        (group, topic, partition): f"{group!r} {topic}-{partition}: it cannot be committed again ({why})"
        for (group, topic, partition), why in found.items()
        if why
    }


def _rehearsed(work: Expanding, step: RunStep, record: RunStepRecord) -> Look:
    changed = record.result["changed"]
    if changed:
        said = (
            f"offsets of {', '.join(changed)} changed since the snapshot; take the run back, and begin anew"
        )
        return Look(seen=Seen.FAILED, detail=said, hopeless=True)
    return _restored(work, step, record)


def _restore(work: Expanding, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """What nobody committed since is committed; what somebody did is left to a person. Then the log is asked
    where it lies: a broker whose answers fit several counts may put it where another one wants it."""
    told: Mapping[str, Any] = {}
    for count in placing(work):
        told, astray = _restored_by(work, step, count)
        if not astray:
            break
    return told


def _restored_by(work: Expanding, step: RunStep, count: int) -> tuple[Mapping[str, Any], bool]:
    """What is journaled where groups are placed by this count, and whether the log has another one."""
    other = {COUNTED: count} if work.goes_back and count != work.plan.before else {}
    moved = other.get(COUNTED, work.plan.to if work.goes_back else work.count)
    dropped = work.dropped()
    rows = [row for row in work.kept(moved) if _key(row) not in dropped]
    said = _committed(work, step, rows, _elsewhere(work, count, moved))
    astray = _astray(work, count, frozenset(row.group for row in rows))
    return {**_told(work, step, rows, [*said, *astray]), **other}, bool(astray)


def _told(
    work: Expanding, step: RunStep, rows: Sequence[OffsetRow], said: Sequence[str]
) -> Mapping[str, Any]:
    """What is journaled: how many offsets are as in the snapshot, and what is not."""
    return {
        "offsets": len(rows),
        "equal": len(rows) - min(len(said), len(rows)),
        "left": len(said),
        "reasons": list(said[:_SAID]),
        **work.asking(step, said),
    }


def _astray(work: Expanding, count: int, groups: frozenset[str]) -> list[str]:
    """What coordinators answer of these groups and the log does not have where ``count`` puts it, with who
    is to be restarted. Raises `Transient` where a group does not answer."""
    state, log = work.tools.reader.take(sorted(groups)), work.tools.log
    demand_answers(state)
    leaders = work.tools.views.look().topic.leaders
    found = disagreements(state.offsets, log.read(log.position()), count)
    return [
        f"{said}: broker {leaders[partition_of(group, count)]} does not count {count} partitions; restart it"
        for group, said in found
        if group in groups
    ]


def _elsewhere(work: Expanding, count: int, moved: int) -> Mapping[_Key, Elsewhere]:
    """What groups that move (to ``moved`` partitions) committed elsewhere than ``count`` puts them, at a
    former coordinator, since they were deleted. Raises as `OffsetsLog.read`."""
    found = LogReading().take(work.tools.log.read(work.tools.log.position())).places(count, 0, newest=False)
    return {
        (each.group, each.topic, each.partition): each
        for each in sorted(found.elsewhere, key=lambda each: each.committed_ms)  # the newest counts
        if work.moves(each.group, moved)
    }


def _committed(
    work: Expanding, step: RunStep, rows: Sequence[OffsetRow], former: Mapping[_Key, Elsewhere]
) -> list[str]:
    """Commit those of ``rows`` that are not answered, or all where all are; read back. In batches, each of
    which is looked at and fenced right before; what is not as wanted. Raises `Conflict` when another process
    claimed the run."""
    by_group: dict[str, list[OffsetRow]] = defaultdict(list)
    for row in rows:
        by_group[row.group].append(row)
    said: list[str] = []
    for groups in batches(sorted(by_group)):
        chosen = [row for group in groups for row in by_group[group]]
        work.hold_again(step)
        said += [_sentence(each, former) for each in _batch(work, step, chosen, former)]
    return sorted(said)


def _batch(
    work: Expanding, step: RunStep, rows: Sequence[OffsetRow], former: Mapping[_Key, Elsewhere]
) -> tuple[NotRestored, ...]:
    """What is not as wanted afterwards, what somebody else committed among it."""
    differing = _unlike(work, rows)
    theirs = tuple(each for each in differing if each.found is not None or _differs(former, each.wanted))
    keep, missing = ({_key(each.wanted) for each in found} for found in (theirs, differing))
    wanted = [row for row in rows if _key(row) not in keep]
    missing |= {_key(row) for row in wanted if _cached(former, row)}
    everything = step.act is RunAct.REHEARSE
    refused = work.tools.restoring.commit([row for row in wanted if everything or _key(row) in missing])
    if everything:  # what was refused is there, and would not be committed again
        return (*(_refused(row, refused) for row in wanted if refusal_of(refused, row)), *theirs)
    return (*read_back(work.tools.reader, wanted, refused, whole=True).differing, *theirs)


def _unlike(work: Expanding, rows: Iterable[OffsetRow]) -> tuple[NotRestored, ...]:
    """Raises `Transient` where a group does not answer: that is not the same as no offset."""
    return read_back(work.tools.reader, rows, whole=True).differing


def _differs(former: Mapping[_Key, Elsewhere], row: OffsetRow) -> bool:
    """Whether something else was committed elsewhere: an offset, an epoch or metadata."""
    found = former.get(_key(row))
    return found is not None and unlike(found.row, row)


def _cached(former: Mapping[_Key, Elsewhere], row: OffsetRow) -> bool:
    """Whether it may be answered, and lies only where another count puts it."""
    found = former.get(_key(row))
    return found is not None and found.lost and not unlike(found.row, row)


def _refused(row: OffsetRow, refused: Mapping[str, str]) -> NotRestored:
    return NotRestored(wanted=row, found=None, reason=refusal_of(refused, row))


def _sentence(found: NotRestored, former: Mapping[_Key, Elsewhere]) -> str:
    wanted, there = found.wanted, found.found
    said = f"{wanted.group!r} {wanted.topic}-{wanted.partition}: {wanted.offset} in the snapshot"
    elsewhere = former.get(_key(wanted))
    if there is not None:
        return f"{said}, {_what(there, wanted)} was committed since"
    if elsewhere is not None:
        return f"{said}, {_what(elsewhere.row, wanted)} was committed at its former coordinator since"
    return f"{said}, not committed ({found.reason or 'it is not answered'})"


def _what(found: OffsetRow, wanted: OffsetRow) -> str:
    same = found.offset == wanted.offset
    return f"{found.offset} with another epoch or other metadata" if same else str(found.offset)


def _key(row: OffsetRow) -> _Key:
    return row.group, row.topic, row.partition


def _restored(work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    result = record.result
    if not result["left"]:
        return HOLDS
    said = f"{result['left']} of {result['offsets']} offsets are not as in the snapshot: "
    said += "; ".join(result["reasons"])
    if work.said(record):
        return Look(seen=Seen.HOLDS, detail=said, result={"accepted_by": work.terms.who})
    return Look(seen=Seen.PERSON, detail=f"{said}; {_REMEDY}")


HANDLERS: Mapping[RunAct, Handler[Expanding]] = {
    RunAct.REHEARSE: Handler(act=_rehearse, read_back=_rehearsed),
    RunAct.RESTORE: still_placed(Handler(act=_restore, read_back=_restored)),
}
"""By what a step does."""
