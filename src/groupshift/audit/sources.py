"""The three sources of an audit, by key: what each says about one (group, topic, partition)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from groupshift.audit.inputs import Key, LogSide, Terms, ZookeeperGroup
from groupshift.domain.commit_places import ZERO_ID, Stray
from groupshift.domain.modes import Mode
from groupshift.domain.rows import ClusterState
from groupshift.log import DecodeStatus
from groupshift.log.group_states import Commit, ForeignCommit, retention_risks

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

    def row(self, key: Key) -> dict[str, Any]:
        """What each source says of one key (`groupshift.audit.offsets.TOLD`), and every fact about it that a
        rule may ask for, under the names of the columns of ``sql/audit/facts.sql``.

        The winner and its history are of the group's own partition of the log. What its coordinator may have
        answered is the ``bracket``: the last record before the log's position was first taken, and every one
        since."""
        answer, winner, foreign = self._answers.get(key), self._winners.get(key), self._foreign.get(key, [])
        side, end, strays = self._zookeeper.get(key[0]), self._ends.get(key[1:]), self._strays(key)
        log_partition = None if winner is None else winner.src_partition
        history = self._log.history(key)
        live = [one for one in history if one.says is not None]
        opened = 0 if log_partition is None else self._log.opened.get(log_partition, 0)
        before = [one for one in history if one.record_offset < opened]
        bracket = [*before[-1:], *(one for one in history if one.record_offset >= opened)]
        answered = None if answer is None or answer.offset < 0 else answer.offset
        logged = None if winner is None else winner.says
        node = None if side is None else side.offsets.get(key[1:])
        # A record that cannot be read for certain says nothing about an absence.
        unreadable = winner is not None and winner.status is not DecodeStatus.OK
        agrees = answered == logged and not (unreadable and logged is None)
        possible = {one.says for one in bracket} | (set() if before else {None})
        epoch = -1 if answer is None or answer.leader_epoch is None else answer.leader_epoch
        details = answer and (answer.metadata or "", epoch)
        alike = ((one.metadata, one.leader_epoch) == details for one in bracket if one.says == answered)
        by_retention = self._removed_by_retention(winner, live)
        behind = answered is not None and (node is None or node < answered)
        # Kafka's own last commit tells how far it is behind: the znode of a busy group is always a new one.
        committed_ms = live[-1].commit_timestamp if live and live[-1].commit_timestamp >= 0 else None
        kafka_mode = side is not None and side.mode is Mode.KAFKA
        return {
            "answered": answered,
            "logged": logged,
            "zookeeper": node,
            "mode": None if side is None else side.mode.value,
            "log_partition": log_partition,
            "log_offset": None if winner is None else winner.record_offset,
            "foreign_partition": foreign[0].commit.src_partition if foreign else None,
            "foreign_offset": foreign[0].commit.offset if foreign else None,
            "log_end": None if end is None else end.log_end,
            "answered_in_full": key[0] in self._answered,
            "has_answer": answered is not None,
            "has_logged": logged is not None,
            "is_tombstone": winner is not None and winner.is_tombstone,
            "unreadable": unreadable,
            "agrees": agrees,
            "follows": agrees or answered in possible,
            "same_details": answered is None or any(alike),
            "served_before": answered is not None and answered in {one.says for one in history},
            "overdue": answered is None and logged is not None and self._is_overdue(key),
            "silent": log_partition in self._silent,
            "has_foreign": bool(foreign),
            "foreign_moving": any(map(self._moves, foreign)),
            "answers_foreign": answered is not None and answered in {one.commit.offset for one in foreign},
            "beyond_end": end is not None and answered is not None and answered > end.log_end,
            "below_start": end is not None and answered is not None and answered < end.log_start,
            **{stray.name.lower(): stray in strays for stray in Stray},
            "has_node": node is not None,
            "nodes_unread": side is not None and bool(side.problems),
            "only_node": answered is None and agrees and node is not None,
            "expired": by_retention is True,
            "removed": by_retention is False,
            "kafka_mode": kafka_mode,
            "stores_agree": side is None or node == answered or (node is not None and node in possible),
            "node_behind": behind,
            "node_within_interval": self._is_recent(_first_beyond(history, -1 if node is None else node)),
            "kafka_within_interval": node is not None and self._is_recent(committed_ms),
            "kafka_dated": committed_ms is not None,
            # The store that is behind is one that no member of the group commits to.
            "unwritten": side is not None
            and (side.members == 0 if behind else not kafka_mode and side.aware == 0),
        }

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

    def _is_overdue(self, key: Key) -> bool:
        """Whether the retention of a live commit is over, so that the coordinator may have forgotten it."""
        retention_ms, group = self._terms.retention_ms, self._log.state.groups.get(key[0])
        if retention_ms is None or group is None:
            return False
        risks = retention_risks(group, retention_ms=retention_ms, now_ms=self._terms.now_ms)
        return any(one.overdue for one in risks if (one.topic, one.partition) == key[1:])

    def _removed_by_retention(self, winner: Commit | None, live: Sequence[Commit]) -> bool | None:
        """Of a tombstone: whether it is old enough after the last of the ``live`` commits to be an expiry;
        None: the log does not tell (the commit is gone, or the retention is not known)."""
        if winner is None or not winner.is_tombstone or not live:
            return None
        if live[-1].expire_timestamp >= 0:
            return live[-1].expire_timestamp <= winner.record_ts
        if self._terms.retention_ms is None:
            return None
        return live[-1].commit_timestamp + self._terms.retention_ms <= winner.record_ts

    def _is_recent(self, at_ms: int | None) -> bool:
        """Whether this is no longer ago than a commit interval; None: it is not known, or was never."""
        return at_ms is not None and self._terms.now_ms - at_ms <= self._terms.commit_interval_ms

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


def _first_beyond(history: Sequence[Commit], reached: int) -> int | None:
    """When Kafka's first commit beyond what ZooKeeper has reached was made; None: there is none."""
    beyond: int | None = None
    for one in reversed(history):
        if one.says is None or one.says <= reached:
            break
        beyond = one.commit_timestamp
    return beyond


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
