"""One look at both clusters of a link, and what it says of a group and partition.

Looks are made in this order: the commits on the source, the offset syncs, groups and commits on the target,
the logs of the target, and those of the source. So a group that goes on meanwhile never seems to be beyond a
log's end.

Source: docs/reference/cross-cluster-offsets.md §§8, 9, 9.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from groupshift.domain.commit_places import FORMER, ZERO_ID
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import Committed, OffsetRow
from groupshift.errors import Transient
from groupshift.links.link import Counterpart, Link
from groupshift.links.ports import GroupPartition, LinkSyncs, SourceSide, TargetSide, TopicLogs
from groupshift.links.proven_positions import ProvenPositions
from groupshift.links.translation import OffsetPair
from groupshift.links.write_rules import Failure, LogRange, Observation, TopicIds
from groupshift.ports.clock import Clock, NoStepCrash, StepCrashPoints

_Topics = Mapping[str, TopicLogs | Failure]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLink:
    """A link with everything that a sync works with."""

    link: Link
    source: SourceSide
    target: TargetSide
    syncs: LinkSyncs
    positions: ProvenPositions
    clock: Clock
    crash: StepCrashPoints = field(default_factory=NoStepCrash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """What was last written, or was there already, of one group and partition.

    ``committed`` is the source's commit of then, ``written`` the offset on the target. ``source_id`` and
    ``target_id`` are the topic ids of then; with others a position means nothing any more. ``proven`` is the
    newest pair of offsets that is exact-proven."""

    group: str
    source: TopicPartition
    target: TopicPartition
    committed: int
    written: int
    source_id: str | None = None
    target_id: str | None = None
    proven: OffsetPair | None = None
    at_ms: int = 0

    @property
    def key(self) -> GroupPartition:
        """Whose position it is."""
        return GroupPartition(self.group, self.source)


Positions = Mapping[GroupPartition, Position]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at both clusters came to. ``unread`` and ``target_unread`` say of a group what could not
    be read of its commits; a commit that is there was read all the same. ``copies`` are the target's topics
    of those of the source. ``sync_log_end`` is the log end of the offset-syncs topic after all of it."""

    commits: Mapping[GroupPartition, OffsetRow]
    unread: Mapping[str, str]
    states: Mapping[str, str | Failure]
    target_commits: Mapping[GroupPartition, OffsetRow]
    target_unread: Mapping[str, str]
    copies: Mapping[str, Counterpart]
    source_topics: _Topics
    target_topics: _Topics
    sync_log_end: int = 0

    def target_commit(self, group: str, at: TopicPartition) -> int | Failure | None:
        """The group's commit on the target; None: none, or one of a topic that had the name before."""
        row = self.target_commits.get(GroupPartition(group, at))
        if row is None:
            return Failure(self.target_unread[group]) if group in self.target_unread else None
        now = id_of(self.target_topics, at)
        is_former = row.topic_id == FORMER or bool(now and _known(row.topic_id) and row.topic_id != now)
        return None if is_former else row.offset


def look_at(at: OpenLink, groups: Collection[str], planned: Collection[str] | None = None) -> Look:
    """Look at these groups on both clusters, and at the topics of their commits; the order is the module's.

    ``planned``: the source's topics of a plan that is applied; they are looked at in any case, and no offset
    sync is read. Raises `Transient` where the source does not answer: nothing can be said without its
    commits."""
    commits, unread = commits_of(at.source.committed(groups))
    if planned is None:
        at.syncs.read()
    look = look_at_logs(at, commits, unread, look_at_target(at, groups), topics=planned or ())
    return look if planned is not None else replace(look, sync_log_end=at.syncs.log_end())


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLook:
    """What the target says of groups; see `Look`."""

    states: Mapping[str, str | Failure]
    commits: Mapping[GroupPartition, OffsetRow]
    unread: Mapping[str, str]


NOTHING_THERE = TargetLook(states={}, commits={}, unread={})
"""Where the target was not looked at."""


def look_at_target(at: OpenLink, groups: Collection[str]) -> TargetLook:
    """Describe these groups on the target and list their commits. A target that does not answer is a failure
    of each of them."""
    try:
        states = at.target.states(groups)
        commits, unread = commits_of(at.target.committed(groups))
    except Transient as why:
        failed = dict.fromkeys(groups, str(why))
        return TargetLook(states=dict.fromkeys(groups, Failure(str(why))), commits={}, unread=failed)
    return TargetLook(states=states, commits=commits, unread=unread)


def look_at_logs(
    at: OpenLink,
    commits: Mapping[GroupPartition, OffsetRow],
    unread: Mapping[str, str],
    target: TargetLook,
    *,
    topics: Collection[str] = (),
) -> Look:
    """Look at the topics of these commits, and at more ``topics`` of the source."""
    names = {key.partition.topic for key in commits} | set(topics)
    copies = {name: at.link.target_topic(name) for name in names}
    target_topics = at.target.logs({copy.topic for copy in copies.values() if copy.topic is not None})
    return Look(
        commits=commits,
        unread=unread,
        states=target.states,
        target_commits=target.commits,
        target_unread=target.unread,
        copies=copies,
        source_topics=at.source.logs(names),
        target_topics=target_topics,
    )


def commits_of(committed: Committed) -> tuple[dict[GroupPartition, OffsetRow], dict[str, str]]:
    """Commits by whose they are; and why a group's were not read in full."""
    rows = {GroupPartition(row.group, row.at): row for row in committed.offsets}
    return rows, {each.group: each.problem for each in committed.problems if each.group is not None}


def log_of(topics: _Topics, at: TopicPartition) -> LogRange | Failure | None:
    """The log of a partition; None: there is no such partition."""
    topic = topics.get(at.topic)
    return topic.logs.get(at.partition) if isinstance(topic, TopicLogs) else topic


def id_of(topics: _Topics, at: TopicPartition) -> str | None:
    """The id of a partition's topic; None: not known."""
    topic = topics.get(at.topic)
    return topic.topic_id if isinstance(topic, TopicLogs) else None


def _known(topic_id: str | None) -> bool:
    return topic_id not in {None, "", ZERO_ID}


def observation_of(
    look: Look, key: GroupPartition, position: Position | None, *known: int | None
) -> Observation:
    """Return what a look says of one group and partition, without a translation. ``position`` is what was
    kept of it before. ``known`` are commits on the target that are no news: if there is another one now, and
    it is not ours, somebody uses the group (nothing known: that cannot be told)."""
    group, source = key
    row, counterpart = look.commits.get(key), look.copies[source.topic]
    target = None if counterpart.topic is None else TopicPartition(counterpart.topic, source.partition)
    ids_now = TopicIds(
        id_of(look.source_topics, source), None if target is None else id_of(look.target_topics, target)
    )
    commit = row.offset if row else Failure(look.unread[group]) if group in look.unread else None
    source_log = log_of(look.source_topics, source)
    same = position is not None and (position.source_id, position.target_id) == (
        ids_now.source,
        ids_now.target,
    )
    target_commit = None if target is None else look.target_commit(group, target)
    ours = {-1, *known, position.written if position else None}
    return Observation(
        group=group,
        source=source,
        target=target,
        state=look.states.get(group, Failure("it was not described")),
        target_commit=target_commit,
        source_commit=commit,
        source_log=source_log,
        target_log=None if target is None else log_of(look.target_topics, target),
        ids_before=TopicIds(id_of_commit(row, position, ids_now.source, source_log), ids_now.target),
        ids_now=ids_now,
        source_went_back=bool(same and position and row and 0 <= row.offset < position.committed),
        commits_without_members=bool(known and isinstance(target_commit, int) and target_commit not in ours),
        unmapped=counterpart.reason,
    )


def id_of_commit(
    row: OffsetRow | None, position: Position | None, now: str | None, log: LogRange | Failure | None
) -> str | None:
    """The id of the source topic that a commit belongs to; None: not known."""
    if row is None:
        return None
    if _known(row.topic_id):
        return row.topic_id
    if position is not None and position.committed == row.offset and position.source_id:
        return position.source_id
    return now if isinstance(log, LogRange) and row.offset <= log.end else None
