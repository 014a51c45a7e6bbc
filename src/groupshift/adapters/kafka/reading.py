"""One reading of many groups in rounds: what a coordinator does not answer yet is asked again of whoever
coordinates the group by then. Each round asks every coordinator once, for all its groups together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from groupshift.adapters.kafka.broker import BrokerConnection
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import DESCRIBED, describe, fetch_offsets, fetched, list_groups
from groupshift.adapters.kafka.rows import Described, described, offset_rows, told
from groupshift.adapters.kafka.transactions import FirstCommits
from groupshift.adapters.kafka.wire import error_name, raise_for
from groupshift.domain.group_protocol import Kind
from groupshift.domain.rows import GONE, GroupRow, OffsetRow, ProblemRow

_AGAIN = frozenset({14, 15, 16})
"""The coordinator loads, is not there, or is another broker now."""
_UNSUPPORTED, _GROUP_ID_NOT_FOUND, _UNSTABLE = 35, 69, 88


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A group as brokers list it; ``type`` and ``state`` are empty where they are too old to tell."""

    type: str = ""
    state: str = ""
    protocol_type: str = ""
    brokers: tuple[int, ...] = ()


def listing(cluster: KafkaCluster) -> tuple[dict[str, Listed], dict[int, int]]:
    """Every group that a broker lists, and how many each broker lists (by node id).

    Raises what `KafkaCluster` raises: a broker that does not answer hides groups, so nothing is told then."""
    found: dict[str, Listed] = {}
    counts: dict[int, int] = {}
    for node, answer in cluster.ask_every(list_groups):
        raise_for(answer.error_code, f"broker {node} does not list its groups")
        counts[node] = len(answer.groups)
        for each in answer.groups:
            other = found.get(each.group_id)
            found[each.group_id] = Listed(
                type=getattr(each, "group_type", "").lower(),
                state=getattr(each, "group_state", ""),
                protocol_type=each.protocol_type,
                brokers=(*other.brokers, node) if other else (node,),
            )
    return found, counts


@dataclass(slots=True)
class Reading:
    """What is known so far of ``groups``, and what is still to be asked; without ``members`` only their
    offsets are, and nothing needs to be ``listed``: just of a group without any it is asked whether it is
    there, for one that is not has no offset on its way."""

    groups: Sequence[str]
    listed: Mapping[str, Listed] = field(default_factory=dict)
    members: bool = True
    described: dict[str, Described] = field(default_factory=dict)
    offsets: dict[str, list[OffsetRow]] = field(default_factory=dict)
    problems: list[ProblemRow] = field(default_factory=list)
    _ask: dict[str, Kind] = field(init=False, default_factory=dict)
    _unfetched: set[str] = field(init=False, default_factory=set)
    _tried: set[str] = field(init=False, default_factory=set)
    _causes: dict[str, str] = field(init=False, default_factory=dict)
    _coordinators: dict[str, int] = field(init=False, default_factory=dict)
    _first: FirstCommits = field(init=False, default_factory=FirstCommits)

    def __post_init__(self) -> None:
        for group in self.groups:
            kind = self.listed.get(group, Listed()).type
            if self.members and kind in {"", *DESCRIBED}:
                self._ask[group] = Kind(kind or Kind.CLASSIC)
            elif self.members:
                self._undescribed(group, f"its members are not read, for it is of type {kind}")
            if kind != Kind.SHARE:  # share groups commit no offsets
                self._unfetched.add(group)

    @property
    def pending(self) -> int:
        """How many groups are not read in full."""
        return len(self._unfetched | self._ask.keys())

    def round(self, cluster: KafkaCluster, done: Callable[[], None]) -> None:
        """Ask each coordinator for its groups of ``pending``; calls ``done`` after every answer."""
        self._ask_each(cluster, done)
        while not self.pending and self._doubt(cluster):
            self._ask_each(cluster, done)

    def _ask_each(self, cluster: KafkaCluster, done: Callable[[], None]) -> None:
        nodes, errors = cluster.coordinators(self._unfetched | self._ask.keys())
        for group, code in errors.items():
            if self._final(group, code, "has no coordinator"):
                self._unfetched.discard(group)
                if group in self._ask:
                    self._undescribed(group, "")
        self._coordinators |= nodes
        places = ((nodes[group], group) for group in sorted(nodes))
        for read, answer in cluster.ask_at(places, self._questions):
            read(answer)
            done()

    def _doubt(self, cluster: KafkaCluster) -> bool:
        """Groups are to be asked again whose first commit may be on its way; whether some at once, for there
        is no transaction that they would wait for."""
        unknown = [group for group, rows in self.offsets.items() if not rows and group not in self.described]
        if unknown:
            self._ask |= dict.fromkeys(unknown, Kind.CLASSIC)
            return True
        lacking = [group for group in self.offsets if self._lacks_offsets(group)]
        again = self._first.doubtful(cluster, lacking)
        self._causes |= again
        self._unfetched |= again.keys()
        return not all(again.values())

    def _lacks_offsets(self, group: str) -> bool:
        """No offset at all, or none of a partition that a member has."""
        rows = self.offsets[group]
        if rows and not self.members:
            return False
        found = self.described[group]
        if found.group.state == GONE or (rows and not found.assignments):
            return False
        committed = {(row.topic, row.partition) for row in rows}
        return not rows or any((at.topic, at.partition) not in committed for at in found.assignments)

    def give_up(self) -> None:
        """Say of every group that is still pending what could not be read, and end."""
        for group in sorted(self._unfetched | self._ask.keys()):
            missing = {"members": self._ask, "offsets": self._unfetched}
            what = " and ".join(name for name, groups in missing.items() if group in groups)
            self._problem(group, f"{what} are not read in full ({self._causes.get(group, 'no answer')})")
            if group in self._ask:
                self._undescribed(group, "")
        self._unfetched.clear()

    def _questions(self, connection: BrokerConnection, groups: Sequence[str]) -> Iterator[tuple[Any, Any]]:
        kinds: dict[Kind, list[str]] = defaultdict(list)
        for group in groups:
            if group in self._ask:
                able = connection.highest(DESCRIBED[self._ask[group]]) >= 0
                kinds[self._ask[group] if able else Kind.CLASSIC].append(group)
        for kind, names in kinds.items():
            read = partial(self._read_described, kind)
            yield from ((request, read) for request, _ in describe(connection, kind, names))
        unfetched = [group for group in groups if group in self._unfetched]
        for request, part in fetch_offsets(connection, unfetched):
            yield request, partial(self._read_fetched, part)

    def _read_described(self, kind: Kind, answer: Any) -> None:
        for each in answer.groups:
            group, code = each.group_id, int(each.error_code)
            if group not in self._ask:
                continue
            absent = code == _UNSUPPORTED and group in self._tried and self._ask[group] is Kind.CONSUMER
            if absent or code == _GROUP_ID_NOT_FOUND or (not code and each.group_state == GONE):
                self._other_protocol(group)
            elif not code:
                self._described(group, described(told(kind, each, self._coordinators[group])))
            elif self._final(group, code, "is not described"):
                self._undescribed(group, "")

    def _described(self, group: str, found: Described) -> None:
        self.described[group] = found
        self.problems += [ProblemRow(group=group, problem=text) for text in found.unread]
        del self._ask[group]

    def _other_protocol(self, group: str) -> None:
        """The group is not of the type that was asked for: it may have been converted since the listing, but
        for an OLD coordinator, which has no other type (35) and may not know what another broker lists."""
        kind = self._ask[group]
        if group not in self._tried and (group in self.listed or not self.members):
            self._tried.add(group)
            self._ask[group] = Kind.CONSUMER if kind is Kind.CLASSIC else Kind.CLASSIC
            return
        del self._ask[group]
        self.described[group] = Described(
            group=GroupRow(group=group, type="", state=GONE, coordinator=self._coordinators.get(group))
        )

    def _read_fetched(self, asked: Sequence[str], answer: Any) -> None:
        for group, code, topics in fetched(asked, answer):
            if code == _GROUP_ID_NOT_FOUND:
                self._unfetched.discard(group)
            elif not code:
                self._offsets(group, topics)
            elif self._final(group, code, "offsets are not given"):
                self._unfetched.discard(group)

    def _offsets(self, group: str, topics: Any) -> None:
        self.offsets[group], failed = offset_rows(group, topics)
        unstable = [f"{topic}-{number}" for topic, number, code in failed if code == _UNSTABLE]
        if unstable:
            self._causes[group] = f"a transaction that commits {', '.join(unstable)} is open"
            return
        for topic, number, code in failed:
            self._problem(group, f"the offset of {topic}-{number} is not given ({error_name(code)})")
        self._unfetched.discard(group)

    def _final(self, group: str, code: int, what: str) -> bool:
        """Note why a group was not answered; True (and a problem) when asking again is of no use."""
        self._causes[group] = error_name(code)
        if code in _AGAIN:
            return False
        self._problem(group, f"{what} ({error_name(code)}): check the ACLs and the broker's log")
        return True

    def _undescribed(self, group: str, why: str) -> None:
        """Keep of a group what the listing told."""
        self._ask.pop(group, None)
        known = self.listed.get(group, Listed())
        if why:
            self._problem(group, why)
        self.described[group] = Described(
            group=GroupRow(
                group=group,
                type=known.type,
                state=known.state,
                protocol_type=known.protocol_type,
                coordinator=self._coordinators.get(group),
            )
        )

    def _problem(self, group: str, text: str) -> None:
        self.problems.append(ProblemRow(group=group, problem=f"group {group!r}: {text}"))
