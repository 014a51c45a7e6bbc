"""After an expansion, for as long as offsets are kept: what lies elsewhere, who is listed twice, and offsets
that fell below the snapshot. Nothing is changed.

Source: docs/reference/group-coordinator.md §3.4 step 12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from groupshift.application import expansion_plan as plans
from groupshift.application.expansion_work import ExpansionTools, dropped_by
from groupshift.domain.cluster import retention_ms
from groupshift.domain.rows import OffsetRow
from groupshift.domain.step import RunAct
from groupshift.errors import Rejected, Transient
from groupshift.moves.expansion.assess import PlacementAudit, audit_placement
from groupshift.moves.expansion.restore import demand_answers
from groupshift.ports.journal import ClusterRun, ClusterRuns, RunState
from groupshift.ports.log import LogProgress

_LOOKED_AT = 100
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallen:
    """An offset that is lower than it was when its group moved (``kept``), or gone (``now`` None)."""

    group: str
    topic: str
    partition: int
    kept: int
    now: int | None

    @property
    def sentence(self) -> str:
        """For a person: who may have done it."""
        where = f"{self.group!r} {self.topic}-{self.partition}: {self.kept} when it moved"
        if self.now is None:
            return f"{where}, nothing is answered now: somebody deleted it, or its topic, or it is lost"
        return f"{where}, {self.now} now: somebody reset it, or an older record came back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The audit of what is; of ``compared`` offsets of the snapshot in ``folder`` those that fell; until when
    (epoch ms) nothing that was committed again expires, and whether that is ``over``: then what is gone does
    not count. ``strays`` are groups that moved and have something elsewhere, where the run left nothing: a
    client committed at a former coordinator, or the run went on in spite of it."""

    run: str
    audit: PlacementAudit
    compared: int
    fallen: tuple[Fallen, ...]
    strays: tuple[str, ...]
    folder: str
    until_ms: int
    over: bool

    @property
    def clean(self) -> bool:
        """Whether nothing was found that a person has to look at."""
        return self.audit.clean and not self.fallen and not self.strays


def watched_run(runs: ClusterRuns, cluster_id: str, run: str = "") -> ClusterRun | None:
    """This run, or the latest of the cluster that is done; None where there is none. Raises `Rejected` for a
    run that is not done, or of another move or cluster."""
    if not run:
        found = runs.recent(_LOOKED_AT, move=plans.MOVE)
        done = (each for each in found if (each.state, each.cluster_id) == (RunState.DONE, cluster_id))
        return next(done, None)
    one = runs.find(run)
    if (one.move, one.state, one.cluster_id) != (plans.MOVE, RunState.DONE, cluster_id):
        raise Rejected(
            f"run {run} is {one.state}, of cluster {one.cluster_id}: an expansion of cluster {cluster_id} "
            "that is done is watched; without RUN it is the latest"
        )
    return one


def watch_expansion(tools: ExpansionTools, run: ClusterRun, told: LogProgress | None = None) -> Watched:
    """Audit placement, and hold what every group of the snapshot answers now against it.

    Where the audit finds something and groups do not answer because of it, nothing is compared. Raises as
    `audit_placement`; `Transient` where a group does not answer else, `Broken` for a snapshot that was
    altered."""
    audit = audit_placement(tools.views, tools.log, told)
    until_ms = run.updated_at_ms + retention_ms(audit.facts.view)
    over = tools.clock.now_ms() > until_ms
    folder, kept = _kept(tools, run)
    moved = plans.from_json(run.plan).moving_names
    try:
        fallen = [each for each in _fallen(tools, kept) if each.now is not None or not over]
    except Transient:
        if audit.clean:
            raise
        kept, fallen = (), []
    return Watched(
        run=run.run,
        audit=audit,
        compared=len(kept),
        fallen=tuple(fallen),
        strays=tuple(sorted(moved & (audit.facts.log.residue if audit.facts.log else frozenset()))),
        folder=folder,
        until_ms=until_ms,
        over=over,
    )


def _kept(tools: ExpansionTools, run: ClusterRun) -> tuple[str, tuple[OffsetRow, ...]]:
    """Where the snapshot of the drained groups is, and its offsets."""
    steps = plans.from_json(run.plan).steps
    step = next(each for each in steps if (each.act, each.subject) == (RunAct.SNAPSHOT, plans.SNAPSHOT))
    records = tools.runs.steps(run.run)
    taken, dropped = records[step.key].result, dropped_by(steps, records)
    rows = tools.store.offsets(Path(taken["folder"]), taken["manifest_sha256"])
    kept = (row for row in rows if (row.group, row.topic, row.partition) not in dropped)
    return str(taken["folder"]), tuple(row for row in kept if row.offset > _NONE)


def _fallen(tools: ExpansionTools, kept: Iterable[OffsetRow]) -> Iterator[Fallen]:
    rows = list(kept)
    groups = sorted({row.group for row in rows})
    if not groups:
        return
    state = tools.reader.take(groups)
    demand_answers(state)
    now: Mapping[tuple[str, str, int], int] = {
        (row.group, row.topic, row.partition): row.offset for row in state.offsets if row.offset > _NONE
    }
    for row in rows:
        found = now.get((row.group, row.topic, row.partition))
        if found is None or found < row.offset:
            yield Fallen(
                group=row.group, topic=row.topic, partition=row.partition, kept=row.offset, now=found
            )
