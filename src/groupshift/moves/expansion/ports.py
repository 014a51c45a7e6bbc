"""What the steps of an expansion work with, and what they know of the plan and of what was done.

Each function takes the run and asks its plan, its journal or its ports: how many partitions brokers are to
count, which groups move, what the snapshot has of them, who still uses a group. An empty list of groups
proves nothing while a broker loads its partitions, so `hidden` is asked before any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from groupshift.domain.cluster import PlacementView
from groupshift.domain.cluster_rules import unlisted
from groupshift.domain.facts import sentence_list
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.domain.run import Plan
from groupshift.engine.move import Run
from groupshift.engine.snapshots import ClusterPorts
from groupshift.errors import Conflict, Transient
from groupshift.moves.expansion.facts import PlacementFacts, listed, look_at
from groupshift.moves.expansion.logged_offsets import Hashed, held
from groupshift.moves.expansion.restore import Key
from groupshift.moves.expansion.rules import busy_groups, transacting
from groupshift.ports.changes import OffsetRestoring, TopicExpansion
from groupshift.ports.cluster import PlacementViews
from groupshift.ports.driver import BrokerReplacement
from groupshift.ports.log import LogVerification

SNAPSHOT, BEFORE_DELETE, VERIFIED, BACK = "S", "S0", "V", "D"
"""The snapshots of a run: after the drain, right before groups are deleted, at the end, of a rollback."""
DROPPED = "dropped"
"""What the rehearsal journals of offsets that cannot be committed again: group, topic, partition, offset and
why, each."""
COUNTED = "counted"
"""What is journaled of the count that brokers use, where it is not the plan's."""
_ALL = "groupshift audit placement --json"
_NAMED = 20
AT_A_TIME = 500
"""How many groups are committed or deleted between two looks at the fence."""
_TOMBSTONE, _TOMBSTONES = 32, 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionPorts(ClusterPorts):
    """Every port that an expansion needs."""

    views: PlacementViews
    topic: TopicExpansion
    restoring: OffsetRestoring
    verify: LogVerification
    nodes: BrokerReplacement


Expanding = Run[ExpansionPorts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a plan says. ``before`` is the count by which brokers coordinate, ``partitions`` how many the
    topic has (more where somebody changed it and restarted nobody), ``to`` how many it is to have.
    ``brokers`` serve clients; ``moving`` are the groups that move."""

    before: int
    partitions: int
    to: int
    brokers: tuple[int, ...]
    moving: frozenset[str]


def counts_of(plan: Plan) -> Counts:
    """Return what the plan of a run says."""
    about = plan.about
    moving = frozenset(group for group, _, _ in about["movers"])
    numbers = {name: about[name] for name in ("before", "partitions", "to")}
    return Counts(**numbers, brokers=tuple(about["brokers"]), moving=moving)


def facts_now(run: Expanding) -> PlacementFacts:
    """Return cluster and log now, on the way to the plan's count. Raises as `look_at`."""
    return look_at(run.ports.views, run.ports.log, counts_of(run.there).to)


def count_of(run: Expanding) -> int:
    """Return how many partitions brokers are to count: the plan's number, or a higher one that somebody gave
    the topic when there was only the way forward, and that a person accepted; or which brokers took up while
    the run goes back."""
    records = run.records
    placed = [each for kind in ("place", "restore") for each in run.plan.steps if each.kind == kind]
    results = (records[each.key].result for each in placed if each.key in records)
    counted = next((int(count) for each in results if (count := each.get(COUNTED))), 0)
    return counted or counts_of(run.there).to


def moves(run: Expanding, group: str, count: int) -> bool:
    """Return whether a group is at another place when brokers count so many, or was deleted to be."""
    plan = counts_of(run.there)
    if count == plan.to or group in plan.moving:
        return group in plan.moving
    return partition_of(group, plan.before) != partition_of(group, count)


def kept(run: Expanding, count: int | None = None) -> tuple[OffsetRow, ...]:
    """Return the offsets of the groups that move (to ``count`` partitions, or else to as many as brokers are
    to count), by the snapshot. Raises `Broken` when it was altered."""
    taken = run.snapshot(SNAPSHOT)
    rows = run.ports.store.offsets(Path(taken.folder), taken.manifest_sha256)
    count = count or count_of(run)
    moving = {group for group in {row.group for row in rows} if moves(run, group, count)}
    return tuple(row for row in rows if row.group in moving and row.offset >= 0)


def dropped(run: Expanding) -> frozenset[Key]:
    """Return the offsets that a person let go of at the rehearsal: not restored, and not missed
    afterwards."""
    records = run.records
    results = (records[each.key].result for each in run.there.steps if each.key in records)
    return frozenset(
        (str(group), str(topic), int(partition))
        for result in results
        if "accepted_by" in result
        for group, topic, partition, *_ in result.get(DROPPED, ())
    )


def hidden(run: Expanding, view: PlacementView) -> str:
    """Return why brokers may not list all groups now, so that an empty list proves nothing; empty when they
    do."""
    leaderless = [number for number, node in enumerate(view.topic.leaders) if node < 0]
    return unlisted(view.cluster, counts_of(run.there).brokers, leaderless)


def undrained(run: Expanding, view: PlacementView) -> str:
    """Return who still uses groups, and why that may not be all; empty when nobody does."""
    if unseen := hidden(run, view):
        return unseen
    if busy := busy_groups(view.cluster):
        return f"members are in {naming(busy, _ALL)}; stop them"
    return transacting(view)


def require_drained(run: Expanding, view: PlacementView) -> None:
    """Raise `Conflict` while somebody uses a group: while the run changes brokers two of them may serve one
    group. Raise `Transient` where a broker does not list all its groups."""
    if why := hidden(run, view):
        raise Transient(f"{why}; run it again")
    if busy := undrained(run, view):
        raise Conflict(
            f"{busy}, then run it again: groups are safe in snapshot {SNAPSHOT}, and nobody may use one "
            "before every broker uses the new count"
        )


def movers_now(run: Expanding, view: PlacementView) -> frozenset[str]:
    """Return the groups that a broker lists or the log has, and that the plan's counts move: more than the
    plan's where some came since."""
    plan = counts_of(run.there)
    names = {each.group for each in listed(view.cluster)} | live_in_log(run, view)
    movers = Hashed(names).movers(plan.before, plan.to)
    return frozenset(each.group for each in movers)


def live_in_log(run: Expanding, view: PlacementView) -> frozenset[str]:
    """Return the groups of which the log, as far as all replicas have it, holds anything live that
    coordinators load.

    An OLD coordinator answers a deletion before followers have its tombstones: a broker that is stopped right
    then hands its partitions to one without them, and they are gone (docs/reference/placement-rules.md)."""
    return frozenset(held(run.ports.log, counts_of(run.there).before, old=view.old).groups)


def naming(groups: Iterable[str], everything: str = "") -> str:
    """Return their number and the first names; ``everything`` is what names all."""
    names = sorted(set(groups))
    where = f" ({everything} names all)" if everything and len(names) > _NAMED else ""
    return f"{len(names)} group{'s' if len(names) != 1 else ''}: {sentence_list(names, _NAMED)}{where}"


def sized(groups: Sequence[str], rows: Iterable[OffsetRow]) -> Iterator[Sequence[str]]:
    """Yield some groups at a time, fewer where deleting them would write more than `_TOMBSTONES` bytes of
    ``rows``' keys: a coordinator writes the tombstones of one request to a partition as one batch, which has
    a limit (1 MiB by default). A process that another one overtook stops between two of them."""
    bytes_ = Counter[str]()
    for row in rows:
        bytes_[row.group] += _TOMBSTONE + len((row.group + row.topic).encode())
    some, size = list[str](), 0
    for group in groups:
        if some and (len(some) == AT_A_TIME or size + bytes_[group] > _TOMBSTONES):
            yield some
            some, size = [], 0
        some.append(group)
        size += bytes_[group]
    if some:
        yield some
