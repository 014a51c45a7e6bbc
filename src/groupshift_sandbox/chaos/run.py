"""Carries a schedule out on real servers and members, waits for the group to settle, and reads the logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.retry import KazooRetry

from groupshift.audit.ownership import history
from groupshift.audit.txnlog import merge, parse
from groupshift.domain.modes import Mode
from groupshift.domain.registration import parse_awareness
from groupshift.domain.znodes import GroupPaths
from groupshift.errors import Broken
from groupshift_sandbox import faults
from groupshift_sandbox.chaos.judgement import Judged, Pause, Ran, judge
from groupshift_sandbox.chaos.members import Members
from groupshift_sandbox.chaos.schedule import Act, ChaosEvent, Fleet, draw_schedule
from groupshift_sandbox.faults import expire_session, restart_server
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions, create_topic, log_ends, start_kafka
from groupshift_sandbox.ledger import lost, read_ledgers
from groupshift_sandbox.legacy import seed_offsets
from groupshift_sandbox.processes import is_running, known, stop, wait_until
from groupshift_sandbox.up import UpOptions, start_producer
from groupshift_sandbox.zookeeper import start_zookeeper

GROUP, TOPIC = "chaos", "storm"
SETTLED_S = 120.0
_PATIENT = KazooRetry(max_tries=-1, max_delay=1.0, deadline=60.0)
"""The run restarts ZooKeeper itself: its own session may end with it."""
_SESSION_S = 10.0
"""A server that is just starting may take a connection and never answer: a client waits that long for it."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions:
    """``seed`` gives the faults, ``seconds`` how long they go on; ``rate`` is records/s on each partition."""

    seed: int
    seconds: float
    partitions: int = 24
    rate: float = 10.0

    @property
    def load(self) -> UpOptions:
        """What the producer is started with."""
        return UpOptions(partitions=self.partitions, rate=self.rate, group=GROUP, topic=TOPIC)

    @property
    def enough(self) -> int:
        """Fewer records than this were no load: brokers restart, and the producer waits for them."""
        return int(0.7 * self.partitions * self.rate * self.seconds)


@dataclass(slots=True)
class Chaos:
    """One run. ``begun`` is the monotonic time of its start."""

    home: Home
    options: ChaosOptions
    members: Members
    zookeeper: str
    bootstrap: str
    client: KazooClient
    tell: Tell
    begun: float = field(default_factory=time.monotonic)
    stopped: dict[str, int] = field(default_factory=dict)
    pauses: list[Pause] = field(default_factory=list)

    def play(self, events: Sequence[ChaosEvent]) -> Ran:
        """Start the members, carry everything out, wait for calm."""
        for slot in self.members.places:
            self.members.start(slot)
        wait_until(lambda: all(map(self.members.ready, self.members.places)), SETTLED_S, "all members run")
        self.begun = time.monotonic()
        for event in events:
            self.carry_out(event)
        return self.ran(self.settle(Mode.ZOOKEEPER))

    def carry_out(self, event: ChaosEvent) -> None:
        """Wait for its time, then do it."""
        due = self.begun + event.at_s
        wait_until(lambda: time.monotonic() >= due, max(due - time.monotonic(), 0) + 5, str(event))
        self.tell(f"{event.at_s:7.1f} s  {event}")
        _CARRY_OUT[event.act](self, event.target)
        self.keep_load()

    def keep_load(self) -> None:
        """A broker that has just started may say that the topic has no partitions (observed), which ends the
        producer; started again, it goes on at the log end."""
        producer = known(self.home, "producer")
        if producer is None or not is_running(producer):
            self.tell("           the producer had ended: started again")
            start_producer(self.home, self.options.load, self.bootstrap)

    def pause(self, slot: str) -> None:
        """Stop the present occupant."""
        self.stopped[slot] = _now_ms()
        faults.pause(self.members.processes[slot])

    def resume(self, slot: str) -> None:
        """Let it go on; the moment before is what counts."""
        resumed = _now_ms()
        faults.resume(self.members.processes[slot])
        pause = Pause(
            member=self.members.member_id(slot), stopped_ms=self.stopped.pop(slot), resumed_ms=resumed
        )
        self.pauses.append(pause)

    def expire(self, slot: str) -> None:
        """End its ZooKeeper session at the server, if it has one now."""
        try:
            stat = self.client.exists(GroupPaths(GROUP).id_of(self.members.member_id(slot)))
        except KazooException:
            stat = None
        if stat is not None:
            expire_session(self.zookeeper, stat.ephemeralOwner)

    def restart_broker(self, _target: str) -> None:
        """Down until its own ZooKeeper session is gone, then up again."""
        broker = known(self.home, "kafka")
        assert broker is not None  # noqa: S101 (started by this run)
        stop(broker)
        there = partial(self.client.retry, self.client.get_children, "/brokers/ids")
        wait_until(lambda: not there(), 30.0, "the broker's session ended")
        restart_server(self.home, "kafka")

    def toggle(self, mode: str) -> None:
        """As an operator with a ZooKeeper shell does it: whatever the group is doing."""
        self.client.retry(self._write_mode, mode)

    def _write_mode(self, mode: str) -> None:
        path = GroupPaths(GROUP).mode
        if self.client.exists(path):
            self.client.set(path, mode.encode())
        else:
            self.client.create(path, mode.encode(), makepath=True)

    # -- afterwards ------------------------------------------------------------------------------

    def settle(self, effective: Mode) -> int:
        """All members run, obey ``effective``, own everything and have consumed everything; when it was
        calm (epoch ms)."""
        calm = _now_ms()
        slots = list(self.members.places)
        wait_until(self._all_ready, SETTLED_S, "all members run", every_s=0.5)
        obeys = partial(self.client.retry, self._obeys, effective)
        wait_until(obeys, SETTLED_S, f"all of ours obey {effective}", every_s=0.2)
        self.tell(f"calm: {len(slots)} members run in {effective} mode")
        producer = known(self.home, "producer")
        if producer is not None:
            stop(producer, 20.0)
        return calm

    def _all_ready(self) -> bool:
        for slot in self.members.revive():
            self.tell(f"{slot} had ended by itself: started again")
        return all(self.members.ready(slot) for slot in self.members.places)

    def _obeys(self, effective: Mode) -> bool:
        paths = GroupPaths(GROUP)
        node = self.client.exists(paths.mode)
        wanted = f"{node.czxid}:{node.mzxid}" if node is not None else None
        for slot in self.members.links:
            try:
                said = parse_awareness(
                    self.client.get(paths.migration_id_of(self.members.member_id(slot)))[0]
                )
            except NoNodeError:
                return False
            if said.mode is not effective or (wanted is not None and said.acting_on != wanted):
                return False
        return True

    def ran(self, calm_ms: int) -> Ran:
        """Wait until every record was delivered (or is known to be lost), then read all logs."""
        ends = log_ends(self.bootstrap, TOPIC, self.options.partitions)
        deadline = time.monotonic() + SETTLED_S
        wait_until(
            lambda: not lost(read_ledgers(self.home.ledgers), ends) or time.monotonic() > deadline,
            SETTLED_S + 30,
            "everything is delivered",
            every_s=1.0,
        )
        logs = sorted((self.home.zookeeper / "version-2").glob("log.*"))
        known_history = history(merge(parse(path.read_bytes(), path.name) for path in logs), GROUP)
        old = tuple(
            f"{GROUP}_{slot}-{number}"
            for slot, place in self.members.places.items()
            if slot not in self.members.links
            for number in range(1, place.incarnation + 1)
        )
        return Ran(
            history=known_history,
            deliveries=read_ledgers(self.home.ledgers),
            ends=ends,
            old=old,
            pauses=self.pauses,
            calm_ms=calm_ms,
        )


_CARRY_OUT: Mapping[Act, Callable[[Chaos, str], object]] = {
    Act.KILL: lambda chaos, slot: faults.kill(chaos.members.processes[slot]),
    Act.START: lambda chaos, slot: chaos.members.start(slot),
    Act.PAUSE: Chaos.pause,
    Act.RESUME: Chaos.resume,
    Act.EXPIRE: Chaos.expire,
    Act.CUT_ZOOKEEPER: lambda chaos, slot: chaos.members.links[slot][0].cut(),
    Act.CUT_KAFKA: lambda chaos, slot: chaos.members.links[slot][1].cut(),
    Act.RESTORE: lambda chaos, slot: chaos.members.restore(slot),
    Act.RESTART_ZOOKEEPER: lambda chaos, _: restart_server(chaos.home, "zookeeper"),
    Act.RESTART_BROKER: Chaos.restart_broker,
    Act.LEAVE: lambda chaos, slot: stop(chaos.members.processes[slot], 20.0),
    Act.TOGGLE: Chaos.toggle,
}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def run(home: Home, options: ChaosOptions, tell: Tell) -> Judged:
    """Everything from nothing to the verdict; the caller ends the home. Raises `Transient` when the group
    does not settle within `SETTLED_S`."""
    fleet = Fleet()
    events = draw_schedule(options.seed, options.seconds, fleet)
    if not events:
        raise Broken("the schedule holds no fault: a run this short proves nothing; give more minutes")
    zookeeper = start_zookeeper(home.create())
    broker = start_kafka(home, zookeeper, KafkaOptions(relayed=len(fleet.ours), initial_rebalance_delay_ms=0))
    create_topic(broker.address, TOPIC, options.partitions)
    seed_offsets(zookeeper, GROUP, TOPIC, options.partitions)
    start_producer(home, options.load, broker.address)
    client = KazooClient(zookeeper, timeout=_SESSION_S, command_retry=_PATIENT)
    client.start(timeout=30.0)
    try:
        chaos = Chaos(
            home=home, options=options, zookeeper=zookeeper, bootstrap=broker.address, client=client,
            tell=tell,
            members=Members.make(home, fleet, group=GROUP, topic=TOPIC, zookeeper=zookeeper, broker=broker),
        )  # fmt: skip
        return judge(chaos.play(events))
    finally:
        client.stop()
        client.close()
