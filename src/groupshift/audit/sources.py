"""The three sources of an audit, by key: what each says about one (group, topic, partition)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from groupshift.audit.case import Case, Key, LogSide, Terms, ZookeeperGroup
from groupshift.domain.commit_places import ZERO_ID, Stray
from groupshift.domain.rows import ClusterState
from groupshift.log import DecodeStatus
from groupshift.log.state import ForeignCommit

ENOUGH_TO_BE_SILENT = 2
"""Live commits of a partition of the log, none of them answered, from which on it is served empty."""
UNREADABLE_KEYS, UNKNOWN_TYPES = "unreadable keys", "unknown types"


class Sources:
    """Look-ups over what was read; changes nothing. Arguments as `groupshift.audit.offsets.audit`."""

    def __init__(
        self, admin: ClusterState, log: LogSide, zookeeper: Mapping[str, ZookeeperGroup], terms: Terms
    ) -> None:
        self._admin, self._log, self._zookeeper, self._terms = admin, log, zookeeper, terms
        self._answers = {(row.group, row.topic, row.partition): row for row in admin.offsets}
        self._ends = {(row.topic, row.partition): row for row in admin.log_ends}
        self._winners = {
            (group, one.topic, one.partition): one
            for group, state in log.state.groups.items()
            for one in state.commits
        }
        self._foreign: dict[Key, list[ForeignCommit]] = defaultdict(list)
        for each in log.state.foreign_commits:
            if each.commit.live:
                self._foreign[each.commit.group_id, each.commit.topic, each.commit.partition].append(each)
        self._answered = asked_in_full(admin)
        self._silent = self._silent_partitions()

    def all_keys(self) -> tuple[Key, ...]:
        """Every key for which a source has an offset, in order."""
        live = {key for key, one in self._winners.items() if one.live}
        nodes = {(group, *at) for group, side in self._zookeeper.items() for at in side.offsets}
        return tuple(sorted({*self._answers, *live, *self._foreign, *nodes}))

    def plainly_agrees(self, key: Key) -> bool:
        """Whether all sources say the same without a closer look; False says nothing yet."""
        answer, winner = self._answers.get(key), self._winners.get(key)
        if answer is None or winner is None or winner.status is not DecodeStatus.OK:
            return False
        side, end = self._zookeeper.get(key[0]), self._ends.get(key[1:])
        epoch = -1 if answer.leader_epoch is None else answer.leader_epoch
        return (
            (answer.offset, answer.metadata or "", epoch)
            == (winner.offset, winner.metadata, winner.leader_epoch)
            and answer.offset >= 0
            and key not in self._foreign
            and (side is None or side.offsets.get(key[1:]) == answer.offset)
            and (end is None or end.log_start <= answer.offset <= end.log_end)
            and not self._strays(key)
        )

    def case(self, key: Key) -> Case:
        """Everything known about one key."""
        winner, foreign = self._winners.get(key), tuple(self._foreign.get(key, ()))
        partition = winner.src_partition if winner else -1
        return Case(
            key=key,
            answered_in_full=key[0] in self._answered,
            answer=self._answers.get(key),
            winner=winner,
            history=self._log.history(key),
            opened=self._log.opened.get(partition, 0),
            foreign=foreign,
            foreign_moving=any(self._moves(one) for one in foreign),
            group=self._log.state.groups.get(key[0]),
            silent=partition in self._silent,
            zookeeper=self._zookeeper.get(key[0]),
            end=self._ends.get(key[1:]),
            terms=self._terms,
            strays=self._strays(key),
        )

    def unsaid(self) -> Iterator[str]:
        """Sentences about what in the log says nothing."""
        state = self._log.state
        for what, records in ((UNREADABLE_KEYS, state.unreadable), (UNKNOWN_TYPES, state.unknown)):
            if records:
                first = min((each.src_partition, each.src_offset) for each in records)
                yield unsaid(what, len(records), first)

    def _strays(self, key: Key) -> frozenset[Stray]:
        """What is wrong with where the answered offset belongs; the log tells the id of its topic for
        certain, where the record has one."""
        answer, winner, topics = self._answers.get(key), self._winners.get(key), self._admin.topics
        if answer is None or answer.offset < 0:
            return frozenset()
        strays = topics.strays(answer)
        has_id = winner is not None and winner.live and winner.topic_id not in {"", ZERO_ID}
        if Stray.NO_PARTITION in strays or winner is None or not has_id:
            return strays
        former = strays | {Stray.FORMER_TOPIC}
        return former if topics.is_former(key[1], winner.topic_id) else former - {Stray.FORMER_TOPIC}

    def _moves(self, foreign: ForeignCommit) -> bool:
        """Whether somebody commits to the wrong partition: within the bracket, or later than to the right
        one."""
        commit = foreign.commit
        within = commit.record_offset >= self._log.opened.get(commit.src_partition, 0)
        return bool(foreign.home) and (within or bool(foreign.newer))

    def _silent_partitions(self) -> frozenset[int]:
        """Partitions of the log of whose live commits their coordinator answers none, without a problem."""
        expected = [(key, one) for key, one in self._winners.items() if one.live and key[0] in self._answered]
        live = Counter(one.src_partition for _, one in expected)
        answered = {one.src_partition for key, one in expected if key in self._answers}
        return frozenset(
            number
            for number, count in live.items()
            if count >= ENOUGH_TO_BE_SILENT and number not in answered
        )


def asked_in_full(admin: ClusterState) -> frozenset[str]:
    """The groups of which the coordinators told all."""
    troubled = {row.group for row in admin.problems if row.group is not None}
    return frozenset(row.group for row in admin.groups) - troubled


def unsaid(what: str, keys: int, first: tuple[int, int]) -> str:
    """About so many keys of the log that say nothing; ``first`` is partition and offset of one of them."""
    return (
        f"the log holds records with {what} ({keys} keys, one at offset {first[1]} of partition {first[0]}): "
        "they say nothing here; dump them with the release's own tool"
    )
