"""What the steps of an expansion work with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from groupshift.application.expansion_plan import SNAPSHOT, ExpansionPlan, run_plan
from groupshift.application.run_work import Key, RunTools, RunWork
from groupshift.domain.cluster_run.proofs import unproven
from groupshift.domain.placement import partition_of
from groupshift.domain.rows import OffsetRow, ProblemRow
from groupshift.domain.step import Journaled, RunAct, RunStep, Stand
from groupshift.moves.expansion.assess import plan_expansion
from groupshift.moves.expansion.facts import PlacementFacts
from groupshift.ports.changes import OffsetRestoring, TopicExpansion
from groupshift.ports.cluster import PlacementViews
from groupshift.ports.journal import RunStepRecord
from groupshift.ports.log import LogVerification

DROPPED = "dropped"
"""What the rehearsal journals of offsets that cannot be committed again: group, topic, partition, offset and
why, each."""
COUNTED = "counted"
"""What the step that asks brokers for their count journals where it is not the plan's."""
_NAMED = 20
_AT_A_TIME = 500
_TOMBSTONE, _TOMBSTONES = 32, 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionTools(RunTools):
    """Every port that an expansion needs."""

    views: PlacementViews
    topic: TopicExpansion
    restoring: OffsetRestoring
    verify: LogVerification


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanding(RunWork):
    """One claim of the run of an expansion."""

    tools: ExpansionTools
    plan: ExpansionPlan

    def facts(self) -> PlacementFacts:
        """Cluster and log now, on the way to the plan's count. Raises as `plan_expansion`."""
        return plan_expansion(self.tools.views, self.tools.log, self.plan.to).facts

    def met_now(self) -> Mapping[str, str]:
        """See `RunWork`. Raises as `facts`."""
        return run_plan(self.facts(), self.plan.to).met

    def logged(self) -> bool:
        """See `RunWork`: without the topic no plan is made."""
        return True

    def commits_go_on(self) -> bool:
        """See `RunWork`: every group is empty until the end."""
        return False

    def keeping(self) -> Callable[[str], bool]:
        """See `RunWork`: what moves is committed anew by the run itself, from its rehearsal on."""
        records, count = self.tools.runs.steps(self.run), self.count
        rehearsed = any(each.act is RunAct.REHEARSE and each.key in records for each in self.plan.steps)
        return lambda group: not (rehearsed and self.moves(group, count))

    @property
    def goes_back(self) -> bool:
        """Whether this claim undoes what was done."""
        return bool(self.steps) and self.steps[0].key.startswith("back")

    @property
    def count(self) -> int:
        """How many partitions brokers are to count: the plan's number, or a higher one that somebody gave the
        topic when there was only the way forward, and that a person accepted; or which brokers took up while
        the run goes back."""
        records, counting = self.tools.runs.steps(self.run), {RunAct.PLACE, RunAct.RESTORE}
        asked = (each.key for each in self.steps if each.act in counting and each.key in records)
        counted = (records[key].result.get(COUNTED) for key in asked)
        return next((int(each) for each in counted if each), self.plan.to)

    def harmless(self, problem: ProblemRow) -> bool:
        """See `RunWork`; and residue of a group that stays where it is (NEW coordinators let it expire)."""
        group = problem.group
        if problem.of_leftover:
            return True
        return problem.of_listing and group is not None and not self.moves(group, self.count)

    def unproven(self, before: RunStep) -> list[str]:
        """Steps ahead of ``before`` of which the journal does not show that they were done, in words."""
        results = {key: each.result for key, each in self.tools.runs.steps(self.run).items()}
        return list(unproven(self.steps, before, results))

    def residue(self) -> str:
        """See `RunWork`: groups that moved without being deleted, and what was committed while they did."""
        return (
            "what was not deleted may be listed where it was, too: groupshift repair placement --execute "
            "cures that on OLD coordinators, a NEW one deletes it when it expires"
        )

    def dropped(self) -> frozenset[Key]:
        """Offsets that a person let go of at the rehearsal: not restored, and not missed afterwards."""
        return dropped_by(self.plan.steps, self.tools.runs.steps(self.run))

    def moves(self, group: str, count: int) -> bool:
        """Whether a group is at another place when brokers count so many, or was deleted to be."""
        if count == self.plan.to or group in self.plan.moving_names:
            return group in self.plan.moving_names
        return partition_of(group, self.plan.before) != partition_of(group, count)

    def kept(self, count: int | None = None) -> tuple[OffsetRow, ...]:
        """The offsets of the groups that move (to ``count`` partitions, or else to as many as brokers are to
        count), by the snapshot. Raises `Broken` when it was altered."""
        taken = self.snapshot_of(SNAPSHOT)
        rows = self.tools.store.offsets(Path(taken["folder"]), taken["manifest_sha256"])
        count = count or self.count
        moving = {group for group in {row.group for row in rows} if self.moves(group, count)}
        return tuple(row for row in rows if row.group in moving and row.offset >= 0)


def dropped_by(steps: Iterable[RunStep], records: Mapping[str, RunStepRecord]) -> frozenset[Key]:
    """See `Expanding.dropped`: of what the rehearsal asked about, what somebody accepted."""
    found = [
        records[each.key].result for each in steps if each.act is RunAct.REHEARSE and each.key in records
    ]
    return frozenset(
        (str(group), str(topic), int(partition))
        for result in found
        if "accepted_by" in result
        for group, topic, partition, *_ in result.get(DROPPED, ())
    )


def journaled(work: Expanding) -> dict[str, Journaled]:
    """How far each step is, by its journal. A deletion that was written down may have been made."""
    records = work.tools.runs.steps(work.run)
    return {
        key: Journaled(stand=Stand(each.state.value), token=each.token, taken=True)
        for key, each in records.items()
    }


def naming(groups: Iterable[str], everything: str = "") -> str:
    """Their number and the first names; ``everything`` is what names all."""
    names = sorted(set(groups))
    where = f" ({everything} names all)" if everything else ""
    more = f" and {len(names) - _NAMED} more{where}" if len(names) > _NAMED else ""
    return f"{len(names)} group{'s' if len(names) != 1 else ''}: {', '.join(names[:_NAMED])}{more}"


def sized(groups: Sequence[str], rows: Iterable[OffsetRow]) -> Iterator[Sequence[str]]:
    """`batches`, cut where deleting the groups would write more than `_TOMBSTONES` bytes of ``rows``' keys: a
    coordinator writes the tombstones of one request to a partition as one batch, which has a limit (1 MiB by
    default)."""
    bytes_: Counter[str] = Counter()
    for row in rows:
        bytes_[row.group] += _TOMBSTONE + len((row.group + row.topic).encode())
    for some in batches(groups):
        begun, size = 0, 0
        for at, group in enumerate(some):
            if at > begun and size + bytes_[group] > _TOMBSTONES:
                yield some[begun:at]
                begun, size = at, 0
            size += bytes_[group]
        yield some[begun:]


def batches(groups: Sequence[str]) -> Iterator[Sequence[str]]:
    """Some at a time: a process that another one overtook stops between two of them."""
    for start in range(0, len(groups), _AT_A_TIME):
        yield groups[start : start + _AT_A_TIME]
