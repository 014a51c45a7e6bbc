"""Moves of the protocol as in Kafka's own consumer_protocol_migration_test: five members, six partitions.

A case is one way and direction, one membership, one assignor, one client and one broker; `move` carries it
out, and `Moved.against` says what is not as it should be.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from threading import Lock

import pytest

from groupshift.domain.group_protocol import Kind, Protocol, Way
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.run import Findings, RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine.progress import Ended, Progress
from groupshift.errors import Rejected
from groupshift.moves.protocol.plan_and_rollback import KIND
from groupshift_sandbox.processes import wait_until
from support.protocol_fleet import (
    CONFLUENT,
    PATIENCE_S,
    Account,
    FleetOptions,
    ProtocolFleet,
    fleet_at,
    patiently,
    protocol_cluster,
)
from support.protocol_move import ProtocolBench, bench_of

JAVA_NEW, JAVA_OLD = "kafka-clients 4.3.1", "kafka-clients 3.9.2"
CLIENTS = (CONFLUENT, JAVA_NEW, JAVA_OLD)
RELEASES = ("4.0.2", "4.3.1", "4.4.0")
COOPERATIVE = "cooperative-sticky"
SERVERS_OWN = {"range": "range", "roundrobin": "uniform", COOPERATIVE: "uniform"}
"""Assignors of classic members, and the server's that is nearest."""
TURNS = 20
TURN_S = 60.0
"""How often, and how long each time, a group is rebalanced to get data into an assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One move of one fleet."""

    way: Way
    to: Protocol
    static: bool
    assignor: str
    client: str
    release: str

    @property
    def batch(self) -> str:
        """What it has in common with those that differ in the assignor only."""
        ids = "static" if self.static else "dynamic"
        return f"{self.way}-to-{self.to}-{ids}-{self.client.replace(' ', '-')}-on-{self.release}"

    @property
    def name(self) -> str:
        """As the test is called."""
        return f"{self.assignor}-{self.batch}"

    @property
    def refused(self) -> bool:
        """Librdkafka's cooperative assignor puts data into some assignments, which bars native members: such
        a group is refused online, and moved offline then."""
        upgraded = self.way is Way.ONLINE and self.to is Protocol.CONSUMER
        return upgraded and self.client == CONFLUENT and self.assignor == COOPERATIVE

    @property
    def goes(self) -> Way:
        """The way that it is moved in the end."""
        return Way.OFFLINE if self.refused else self.way

    @property
    def kinds(self) -> dict[str, Kind]:
        """The type of the group after each phase: one native member makes it a group of type consumer, and
        an empty one stays what it was."""
        new = Kind(self.to.value)
        if self.goes is Way.ONLINE:
            return {"canary": Kind.CONSUMER, "roll": new}
        return {"empty": Kind(self.to.other.value), "fill": new}

    def options(self) -> FleetOptions:
        """Five members as they are before the move, in a group of their own."""
        group = f"group-{uuid.uuid4().hex[:8]}"
        return FleetOptions(
            group=group,
            topic=f"moved-{group}",
            clients=(self.client,) * 5,
            kind=KIND[self.to.other],
            assignor=self.assignor,
            remote_assignor=SERVERS_OWN[self.assignor],
            static=self.static,
        )


def _case(way: Way, to: Protocol, members: str, assignor: str, client: str, release: str) -> Case:
    return Case(way=way, to=to, static=members == "static", assignor=assignor, client=client, release=release)


ON, OFF = Way.ONLINE, Way.OFFLINE
UP, DOWN = Protocol.CONSUMER, Protocol.CLASSIC
PAIRS = (
    _case(ON, UP, "static", "roundrobin", JAVA_NEW, "4.0.2"),
    _case(OFF, UP, "static", "range", CONFLUENT, "4.0.2"),
    _case(OFF, DOWN, "dynamic", COOPERATIVE, JAVA_OLD, "4.0.2"),
    _case(ON, DOWN, "dynamic", "range", CONFLUENT, "4.0.2"),
    _case(ON, UP, "static", "range", JAVA_OLD, "4.3.1"),
    _case(OFF, DOWN, "static", "roundrobin", CONFLUENT, "4.3.1"),
    _case(OFF, UP, "dynamic", COOPERATIVE, JAVA_NEW, "4.3.1"),
    _case(ON, DOWN, "static", COOPERATIVE, JAVA_OLD, "4.3.1"),
    _case(ON, UP, "dynamic", COOPERATIVE, CONFLUENT, "4.4.0"),
    _case(ON, DOWN, "static", "roundrobin", JAVA_NEW, "4.4.0"),
    _case(OFF, DOWN, "dynamic", "range", JAVA_NEW, "4.4.0"),
    _case(OFF, UP, "dynamic", "roundrobin", JAVA_OLD, "4.4.0"),
)
"""Every two values of two columns meet in some row. A way and its direction are one. Offline static ones
are few: such a group is empty only when its members' sessions have ended."""

SLICE = tuple(each for number, each in enumerate(PAIRS) if number in {0, 7, 8, 10})
"""Every value is in some row, and so is the refusal of data in an assignment."""

EVERY = tuple(
    _case(way, to, members, assignor, client, release)
    for release, client, way, to, members, assignor in product(
        RELEASES, CLIENTS, Way, Protocol, ("dynamic", "static"), SERVERS_OWN
    )
)
"""The whole product, by release and client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a move showed: how it ended, the rules that refused it online before (empty: none), the type of
    the group after each phase, what runs in the places, where a committed offset was lower than at the look
    before, offsets that are not the log's end in the end, and the members' account."""

    progress: Progress
    refused: tuple[str, ...]
    kinds: Mapping[str, Kind]
    members: frozenset[MemberKind]
    steps_back: Sequence[str]
    not_at_end: Mapping[TopicPartition, int]
    account: Account

    def against(self, case: Case) -> dict[str, object]:
        """Everything that is not as expected of this case, by name; empty when all holds.

        Repeated records are allowed at hand-overs, so only others are told."""
        closing = self.progress.closing if isinstance(self.progress, Ended) else None
        moved = closing is not None and (closing.state, closing.verdict) == (RunState.MOVED, Verdict.PASS)
        rules = ("P08",) if case.refused else ()
        account = self.account
        held: tuple[tuple[str, bool, object], ...] = (
            ("ended otherwise", moved, self.progress),
            ("refused", self.refused == rules, self.refused),
            ("types", self.kinds == case.kinds, self.kinds),
            ("members", self.members == {KIND[case.to]}, self.members),
            ("offsets went back", not self.steps_back, self.steps_back),
            ("offsets not at the end", not self.not_at_end, self.not_at_end),
            ("lost", not account.lost, account.lost),
            ("repeated without a hand-over", not account.repeated_within, account.repeated_within),
            ("two owners", not account.overlaps, account.overlaps),
            ("fatal errors", not account.fatal, account.fatal),
        )
        return {name: found for name, holds, found in held if not holds}

    def told(self, case: Case) -> str:
        """A line for people: for how many ms each partition had no owner, and all at once."""
        each = {at.partition: list(found) for at, found in self.account.unowned_ms.items()}
        return f"{case.name}: ms without an owner {each}, all at once {list(self.account.all_unowned_ms)}"


def move(case: Case, bootstrap: str, folder: Path) -> Moved:
    """Start the fleet of the case at a broker, assess, move it, and end it.

    Offsets and the type of the group are looked at when the move begins, after each phase, and in the end."""
    options = case.options()
    with fleet_at(bootstrap, folder, options) as fleet, bench_of(fleet, folder) as bench:
        fleet.await_group(lambda found: len(found.members) == len(options.clients), "has all members")
        fleet.await_written(20)
        refused = refused_beforehand(bench) if case.refused else ()
        seen = looked_at(bench, case.kinds)
        run = bench.run(case.to, case.goes)
        seen.look("begun")
        progress = run.forward()
        members = frozenset(slot.kind for slot in patiently(lambda: fleet.driver.slots(options.group)))
        fleet.await_owned()
        fleet.await_written(20)
        found = fleet.settle()
        seen.look("ended")
        return Moved(
            progress=progress,
            refused=refused,
            kinds=seen.kinds,
            members=members,
            steps_back=seen.steps_back(),
            not_at_end=not_at_end(fleet),
            account=found,
        )


def not_at_end(fleet: ProtocolFleet) -> dict[TopicPartition, int]:
    """Committed offsets that are not the log's end when members had time to commit; nobody writes then."""
    ends = fleet.ends()
    found: dict[TopicPartition, int] = {}

    def complete() -> bool:
        found.clear()
        found.update({at: offset for at, offset in fleet.committed().items() if offset != ends[at]})
        return not found

    wait_until(complete, PATIENCE_S, "every record is committed", every_s=0.5)
    return found


def refused_beforehand(bench: ProtocolBench) -> tuple[str, ...]:
    """Rebalance until an assignment has data in it: then assess names the error, and nothing is planned. The
    rules that refused, those with error 69 only."""
    fleet, request = bench.fleet, bench.request(Protocol.CONSUMER)
    bench.await_ready(bench.request(Protocol.CONSUMER, Way.OFFLINE))
    before = bench.assess(request)
    assert warned(before), "P11 warns in any case"
    turns = iter(range(TURNS))
    limit_s = TURNS * TURN_S + PATIENCE_S
    wait_until(lambda: has_data(fleet, next(turns)), limit_s, "an assignment has data in it")
    found = bench.assess(request)
    assert not bench.ready(request, found)
    with pytest.raises(Rejected, match="69"):
        bench.begin(request)
    failed = [each for each in found if each.verdict is Verdict.FAIL]
    return tuple(each.rule if "69" in each.reason else f"{each.rule}: {each.reason}" for each in failed)


def has_data(fleet: ProtocolFleet, turn: int) -> bool:
    """One member goes and comes: whether an assignment has data in it then."""
    members = len(fleet.options.clients)

    def resting(count: int) -> Callable[..., bool]:
        return lambda found: len(found.members) == count and found.state == "Stable"

    fleet.carry_out(fleet.change(f"out-{turn}", MemberKind.VACANT, "m1"))
    fleet.await_group(resting(members - 1), "has lost one")
    fleet.carry_out(fleet.change(f"in-{turn}", MemberKind.PLAIN, "m1"))
    settled = fleet.await_group(resting(members), "is whole again")
    return any(member.user_data for member in settled.members)


def warned(found: Findings) -> bool:
    """Whether the rule of assignors says that data in assignments is possible."""
    said = [each.verdict for each in found if each.rule == "P11" and "data" in each.reason]
    return said == [Verdict.INCONCLUSIVE]


@dataclass(slots=True)
class Seen:
    """Types and committed offsets after each phase, in order."""

    fleet: ProtocolFleet
    kinds: dict[str, Kind] = field(default_factory=dict)
    offsets: list[tuple[str, dict[TopicPartition, int]]] = field(default_factory=list)

    def look(self, moment: str) -> None:
        """Write down the offsets of now."""
        self.offsets.append((moment, self.fleet.committed()))

    def phase(self, phase: str) -> None:
        """Write down type and offsets after a phase."""
        self.kinds[phase] = self.fleet.look().kind
        self.look(phase)

    def steps_back(self) -> list[str]:
        """Where an offset was lower than at the look before, as a clause each."""
        pairs = zip(self.offsets, self.offsets[1:], strict=False)
        return [
            f"{at}: {before[at]} at {one}, {after[at]} at {other}"
            for (one, before), (other, after) in pairs
            for at in before
            if after[at] < before[at]
        ]


def looked_at(bench: ProtocolBench, phases: Mapping[str, Kind]) -> Seen:
    """Looks at the group whenever one of these phases has passed."""
    seen = Seen(bench.fleet)
    for phase in phases:
        bench.judged.after[phase] = partial(seen.phase, phase)
    return seen


class Brokers:
    """A broker of each release, started when it is first asked for; `brokers` ends them."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self._folder, self._running = folder, running
        self._bootstraps: dict[str, str] = {}
        self._lock = Lock()

    def at(self, release: str) -> str:
        """Its bootstrap servers."""
        with self._lock:
            if release not in self._bootstraps:
                started = protocol_cluster(self._folder / release, release)
                self._bootstraps[release] = self._running.enter_context(started).bootstrap
            return self._bootstraps[release]


@contextmanager
def brokers(folder: Path) -> Iterator[Brokers]:
    """Brokers below this folder, which are ended with the block."""
    with ExitStack() as running:
        yield Brokers(folder, running)


@contextmanager
def moves(
    cases: Sequence[Case], at: Brokers, folder: Path, at_once: int
) -> Iterator[dict[str, Future[Moved]]]:
    """The moves of these cases by their names, under way in their order, ``at_once`` at a time; those that
    have not begun when the block ends never do."""

    def moved(case: Case) -> Moved:
        place = folder / case.name
        place.mkdir()
        return move(case, at.at(case.release), place)

    pool = ThreadPoolExecutor(at_once)
    try:
        yield {case.name: pool.submit(moved, case) for case in cases}
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def chosen_moves(
    request: pytest.FixtureRequest, folder: Path, cases: Sequence[Case], at_once: int
) -> Iterator[Mapping[str, Future[Moved]]]:
    """Of these cases the moves of those whose test ``test_a_fleet_is_moved`` was chosen, as `moves` has them,
    with brokers below this folder."""
    tests = {item.name for item in request.session.items}
    chosen = [each for each in cases if f"test_a_fleet_is_moved[{each.name}]" in tests]
    with brokers(folder) as running, moves(chosen, running, folder, at_once) as futures:
        yield futures
