"""What the steps of an expansion work with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from groupshift.application.placement import plan_expansion
from groupshift.application.run_work import RunTools, RunWork
from groupshift.domain.cluster_rows import OffsetRow
from groupshift.domain.cluster_run.progress import Journaled, Stand
from groupshift.domain.cluster_run.steps import RunAct
from groupshift.domain.expansion.facts import PlacementFacts
from groupshift.domain.expansion.run_plan import SNAPSHOT, ExpansionPlan, run_plan
from groupshift.domain.placement import partition_of
from groupshift.ports.offset_restoring import OffsetRestoring
from groupshift.ports.placement_views import PlacementViews
from groupshift.ports.topic_expansion import TopicExpansion

COUNTED = "counted"
"""What the step that asks brokers for their count journals where it is not the plan's."""
_NAMED = 20
_AT_A_TIME = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionTools(RunTools):
    """Every port that an expansion needs."""

    views: PlacementViews
    topic: TopicExpansion
    restoring: OffsetRestoring


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

    def keeps_record(self, group: str) -> bool:
        """See `RunWork`: what moves is deleted at one place and committed at another."""
        return not self.moves(group, self.count)

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

    def residue(self) -> str:
        """See `RunWork`: groups that moved without being deleted, and what was committed while they did."""
        return (
            "what was not deleted may be listed where it was, too: groupshift repair placement --execute "
            "cures that on OLD coordinators, a NEW one deletes it when it expires"
        )

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


def batches(groups: Sequence[str]) -> Iterator[Sequence[str]]:
    """Some at a time: a process that another one overtook stops between two of them."""
    for start in range(0, len(groups), _AT_A_TIME):
        yield groups[start : start + _AT_A_TIME]
