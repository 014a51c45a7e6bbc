"""What the application is told, by whom and when."""

from __future__ import annotations

import threading
from collections.abc import Callable

from groupshift.consumers import group_state
from groupshift.consumers.callbacks import Notice
from groupshift.domain.group_protocol import KafkaGroup
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Transient


def listening(member, *, failing: bool = False):
    """Callbacks that write down what they hear."""

    def hear(name):
        def heard(consumer, partitions):
            member.append((name, [(each.partition, each.offset) for each in partitions]))
            if failing:
                raise ValueError(name)

        return heard

    return {f"on_{name}": hear(name) for name in ("assign", "revoke", "lost")}


def test_an_assignment_is_told_with_its_offsets_before_the_first_record(bench) -> None:
    """As in confluent-kafka: the callback runs where the application reads."""
    heard: list[tuple[str, list[tuple[int, int]]]] = []
    member = bench.join(1, **listening(heard))
    bench.settle()
    assert heard == []
    assert len(member.read()) == 16
    assert heard == [("assign", [(0, 0), (1, 0), (2, 0), (3, 0)])]


def test_a_revocation_waits_for_the_reader_and_its_commit(bench) -> None:
    """The owner node is still there while on_revoke runs, so its commit counts; then it is deleted."""
    heard: list[tuple[str, int | None]] = []
    ready = threading.Event()

    def revoke(member, partitions):
        where = TopicPartition("t", partitions[0].partition)
        for _ in range(20):  # long enough for a reconciler that does not wait to delete the node
            threading.Event().wait(0.01)
            owner = bench.zookeeper.owners.get(where, ("nobody", 0))[0]
        heard.append(("owner", owner))
        member.reconciler.commit(dict.fromkeys([where], 2))

    member = bench.join(1, on_assign=lambda *_: None, on_revoke=revoke, auto_commit=False, drain_s=600.0)
    bench.settle()
    member.read()

    def reader() -> None:
        while not ready.wait(0.001):
            member.read(0)

    thread = threading.Thread(target=reader)
    thread.start()
    try:
        bench.join(2)
        bench.settle()
    finally:
        ready.set()
        thread.join(10)
    moved = [each for each, (thread_id, _) in bench.zookeeper.owners.items() if thread_id == "g_m2-0"]
    assert heard == [("owner", "g_m1-0")]
    assert len(moved) == 2
    assert bench.zookeeper.offsets[min(moved)].value == 2


def test_a_reader_that_does_not_come_back_is_told_that_it_is_lost(bench) -> None:
    """F3: the hand-over goes on after its bound, and what comes later must not commit."""
    heard: list[tuple[str, list[tuple[int, int]]]] = []
    member = bench.join(1, **listening(heard))
    bench.settle()
    member.read()
    heard.clear()
    bench.join(2)
    bench.settle()
    assert len({thread for thread, _ in bench.zookeeper.owners.values()}) == 2
    assert heard == []
    member.read()
    assert [name for name, _ in heard] == ["lost"]


def test_an_expired_session_is_told_as_lost(bench) -> None:
    """And what is taken anew as assigned."""
    heard: list[tuple[str, list[tuple[int, int]]]] = []
    member = bench.join(1, **listening(heard))
    bench.settle()
    member.read()
    heard.clear()
    member.link.suspend()
    member.link.reconnect(expired=True)
    bench.settle()
    member.read()
    assert [name for name, _ in heard] == ["lost", "assign"]


def test_callbacks_that_fail_do_not_hurt_coordination(bench) -> None:
    """The reader gets the error; partitions come and go all the same."""
    heard: list[tuple[str, list[tuple[int, int]]]] = []
    member = bench.join(1, **listening(heard, failing=True))
    bench.settle()
    bench.join(2)
    bench.settle()
    errors = 0
    for _ in range(10):
        try:
            member.read()
        except ValueError:
            errors += 1
    assert errors == len(heard) >= 2
    assert len(bench.zookeeper.owners) == 4
    assert len(member.reconciler.held()) == 2


def test_a_notice_given_up_before_it_began_runs_its_late_part() -> None:
    """And one that was begun is left alone."""
    heard: list[str] = []
    notice = Notice(lambda: heard.append("now"), lambda: heard.append("late"))
    notice.give_up()
    notice.run()

    def given_up_meanwhile() -> None:
        begun.give_up()

    begun = Notice(given_up_meanwhile, lambda: heard.append("never"))
    begun.run()
    assert heard == ["late"]
    assert notice.done
    assert begun.done


def test_the_whole_group_is_told_in_both_modes_before_delivery(bench) -> None:
    """§8.7: by thread, the same map at every member; each change once."""
    maps: dict[int, list[object]] = {1: [], 2: []}
    members = [
        bench.join(number, on_group_assigned=lambda _, told, number=number: maps[number].append(told))
        for number in (1, 2)
    ]
    bench.settle()
    for member in members:
        member.read()
    last = maps[1][-1]
    assert last == maps[2][-1]
    assert (last.mode, last.complete, len(last.threads)) == (Mode.ZOOKEEPER, True, 4)
    assert last.threads == {each: thread for each, (thread, _) in bench.zookeeper.owners.items()}
    bench.zookeeper.toggle(Mode.KAFKA)
    for _ in range(3000):
        bench.settle()
        for member in members:
            member.read()
        if all(each[-1].mode is Mode.KAFKA for each in maps.values()):
            break
        threading.Event().wait(0.01)
    last = maps[1][-1]
    assert last == maps[2][-1]
    assert (last.mode, last.complete) == (Mode.KAFKA, True)
    assert set(last.threads.values()) == {"g_m1-0", "g_m2-0"}
    assert len(last.threads) == 4


def read_until(bench, member, records: list[object], holds: Callable[[], bool]) -> None:
    """Read on, into ``records``, until it holds or half a minute is over."""
    for _ in range(3000):
        bench.settle()
        records += member.read()
        if holds():
            return
        threading.Event().wait(0.01)


def once(answered: threading.Event, describe: Callable[[float], KafkaGroup]) -> Callable[[float], KafkaGroup]:
    """Brokers that do not describe the group before."""

    def described(timeout: float) -> KafkaGroup:
        if not answered.is_set():
            raise Transient("not yet")
        return describe(timeout)

    return described


def test_delivery_in_kafka_mode_waits_for_the_map_of_the_group(bench) -> None:
    """The partitions are held meanwhile; the map is told before the first record (§8.7)."""
    bench.join(1)
    bench.zookeeper.toggle(Mode.KAFKA)
    bench.settle()
    heard: list[tuple[object, bool]] = []
    member = bench.join(2, on_group_assigned=lambda _, told: heard.append((told.mode, told.complete)))
    describe, answered = member.membership.describe, threading.Event()
    member.membership.describe = once(answered, describe)
    bench.settle()
    assert len(member.reconciler.held()) == 2
    assert member.read() == []
    answered.set()
    records: list[object] = []
    read_until(bench, member, records, lambda: bool(records))
    assert len(records) > 0
    assert heard == [(Mode.KAFKA, True)]


def test_a_map_that_comes_too_late_is_told_after_the_first_record(bench, monkeypatch) -> None:
    """Delivery waits no longer than the bound; a broker that was slow for longer hides no map for ever."""
    monkeypatch.setattr(group_state, "_BOUND_S", 0.2)
    monkeypatch.setattr(group_state, "_LATER_S", 0.01)
    bench.join(1)
    bench.zookeeper.toggle(Mode.KAFKA)
    bench.settle()
    heard: list[tuple[object, bool]] = []
    member = bench.join(2, on_group_assigned=lambda _, told: heard.append((told.mode, told.complete)))
    describe, answered = member.membership.describe, threading.Event()
    member.membership.describe = once(answered, describe)
    records: list[object] = []
    for wanted in ([(Mode.KAFKA, False)], [(Mode.KAFKA, False), (Mode.KAFKA, True)]):
        read_until(bench, member, records, lambda wanted=wanted: bool(records) and heard == wanted)
        assert (heard, bool(records)) == (wanted, True)
        answered.set()
