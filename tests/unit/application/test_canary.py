"""The canary's watch over the simulated group: planned, looked at, journaled, judged, taken back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import Answer, Choice, Gate, Phase, StageName, Until
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected
from groupshift.ports.clock import CrashPoint
from groupshift.ports.journal import EventKind
from groupshift_testing.world import CrashOnce, Killed
from support.simulated_move import Bench, make_bench

CANARY = (TopicPartition("orders", 0), TopicPartition("orders", 1))
"""What m1, the first of three, owns of six partitions."""


def slow(share: float) -> Callable[[Bench], None]:
    """The canary's member handles only this share of what arrives, from when it is one."""

    def spoil(bench: Bench) -> None:
        handled: dict[TopicPartition, float] = {}

        def hold_back(_seconds: float) -> None:
            if bench.world.places["m1"].kind is not MemberKind.AWARE:
                return
            for partition in CANARY:
                handled[partition] = handled.get(partition, bench.world.ends[partition] - 1) + share
                bench.world.znode[partition] = bench.world.kafka[partition] = int(handled[partition])

        bench.clock.on_sleep.append(hold_back)

    return spoil


def leaves(bench: Bench) -> None:
    """The canary's member dies in the middle of the watch and is kept down."""

    def die() -> None:
        bench.world.places["m1"].running, bench.world.places["m1"].held = False, True

    bench.watcher.at["the canary is watched: 10 of 30 s left"] = die
    bench.watcher.at["stage undo_members"] = lambda: bench.world.places["m1"].__setattr__("held", False)


def zookeeper_only(bench: Bench) -> None:
    """Its commits do not reach Kafka."""
    bench.clock.on_sleep.append(lambda _seconds: bench.world.kafka.clear())


def findings(bench: Bench, migration: str) -> dict[str, Verdict]:
    """What the canary's rules said in the last judgement of the stage."""
    judged = [
        event.body["findings"]
        for event in bench.journal.events(migration)
        if event.kind is EventKind.JUDGED and event.stage is StageName.CANARY
    ]
    return {f["rule"]: Verdict(f["verdict"]) for f in judged[-1] if f["rule"].startswith("K")}


def test_a_healthy_canary_is_watched_and_passes(bench: Bench) -> None:
    """Looks are journaled all the time; the run goes on by itself."""
    migration, closing = bench.move(Until.CANARY, canary_watch_s=30)
    assert (closing.phase, closing.verdict) == (Phase.MOVED, Verdict.PASS)
    assert set(findings(bench, migration).values()) == {Verdict.PASS}
    assert set(findings(bench, migration)) == {"K01", "K02", "K03", "K04", "K05", "K06"}
    looks = [e.at_ms for e in bench.journal.events(migration) if e.kind is EventKind.OBSERVED]
    assert looks[-1] - looks[0] >= 28_000
    assert all(2000 <= after - before <= 3000 for before, after in pairwise(looks))


@pytest.mark.parametrize(
    ("spoil", "rules"),
    [
        (slow(0.5), {"K02", "K03"}),
        (slow(0.0), {"K02", "K03", "K04"}),
        (leaves, {"K04"}),
        (zookeeper_only, {"K06"}),
    ],
    ids=["half as fast", "stands still", "dies", "one store"],
)
def test_a_bad_canary_is_named_and_taken_back(
    bench: Bench, spoil: Callable[[Bench], None], rules: set[str]
) -> None:
    """By its rules and by no other of them, without asking anybody; old members again at the end."""
    spoil(bench)
    migration, closing = bench.move(Until.CANARY, canary_watch_s=30)
    assert closing.verdict is Verdict.FAIL
    failed = {rule for rule, verdict in findings(bench, migration).items() if verdict is Verdict.FAIL}
    assert failed == rules
    assert bench.kinds() == [MemberKind.OLD] * 3


def test_a_silent_topic_asks_a_person_instead_of_passing(bench: Bench) -> None:
    """Nothing arrives, so nothing can be compared."""
    bench.clock.on_sleep.clear()
    bench.world.idle.update(bench.world.all_partitions())
    bench.world.kafka.update(dict.fromkeys(CANARY, 90))
    migration, closing = bench.move(Until.CANARY, canary_watch_s=30)
    assert [brief.gate for brief in bench.asked] == [Gate.PLAN, Gate.REVIEW]
    assert "the canary cannot be compared" in bench.asked[-1].body
    assert findings(bench, migration)["K01"] is Verdict.INCONCLUSIVE
    assert closing.verdict is Verdict.FAIL, "the person of this bench accepts no doubt"


def test_whoever_looks_rarely_looks_on_until_it_is_enough(bench: Bench) -> None:
    """A sensor that is woken every 15 s has seen the canary only twice when 20 s are over."""
    migration = bench.plan(until=Until.CANARY, canary_watch_s=20)
    app = bench.app()
    brief = app.brief(migration, Gate.PLAN)
    app.answer(migration, Gate.PLAN, Answer(choice=Choice.APPROVE, who="a", fingerprint=brief.fingerprint))
    app.act(migration, StageName.CANARY, app.claim(migration, "r"))
    said = []
    while not (status := app.watch(migration, StageName.CANARY)).settled:
        said.append(status.detail)
        bench.clock.sleep(15)
    assert said == [
        "the canary is watched: 20 of 20 s left",
        "the canary is watched: 5 of 20 s left",
        "the canary is watched: 3 of 5 looks",
        "the canary is watched: 4 of 5 looks",
    ]
    looks = [e for e in bench.journal.events(migration) if e.kind is EventKind.OBSERVED]
    assert len(looks) == 5


def test_without_a_watch_nothing_is_looked_at(bench: Bench) -> None:
    """Zero seconds are asked for: no looks, no such rules."""
    migration, closing = bench.move(Until.CANARY)
    assert closing.verdict is Verdict.PASS
    assert findings(bench, migration) == {}
    assert not [e for e in bench.journal.events(migration) if e.kind is EventKind.OBSERVED]


def test_a_watch_survives_the_process_that_began_it(bench: Bench) -> None:
    """Killed in the middle, the next run goes on with the looks that are there."""
    migration = bench.plan(until=Until.CANARY, canary_watch_s=30)

    def die() -> None:
        raise Killed("in the middle of the watch")

    bench.watcher.at["the canary is watched: 10 of 30 s left"] = die
    with pytest.raises(Killed):
        bench.runner(migration, "cli-1").forward()
    assert bench.runner(migration, "cli-2").forward().verdict is Verdict.PASS
    looks = [e.at_ms for e in bench.journal.events(migration) if e.kind is EventKind.OBSERVED]
    assert looks[-1] - looks[0] < 35_000


def test_a_canary_killed_in_its_act_is_watched_by_the_next_run(bench: Bench) -> None:
    """The watch begins when the act is made and settled, whoever sees it."""
    migration = bench.plan(until=Until.CANARY, canary_watch_s=20)
    crash = CrashOnce(StageName.CANARY, CrashPoint.AFTER_ACT)
    with pytest.raises(Killed):
        bench.runner(migration, "cli-1", crash).forward()
    assert bench.runner(migration, "cli-2").forward().verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"canary_watch_s": 19}, "canary_watch_s 19 is less than 4 commit intervals .* at least 20"),
        ({"canary_watch_s": 30, "canary": 3}, "none is left to compare it with"),
        ({"canary_watch_s": 30, "canary_share": 1.0}, "replaces all old members"),
    ],
)
def test_a_watch_that_could_show_nothing_is_refused_when_planned(
    bench: Bench, values: dict[str, object], says: str
) -> None:
    """Not after the canary is there."""
    with pytest.raises(Rejected, match=says):
        bench.plan(until=Until.CANARY, **values)


def test_a_share_is_shown_to_whoever_approves(bench: Bench) -> None:
    """What the places hold, and how long it will be watched."""
    migration = bench.plan(canary_share=0.5, canary_watch_s=30)
    brief = bench.app().brief(migration, Gate.PLAN)
    assert "replace m1, m2: old ZooKeeper consumer" in brief.body
    assert "hold 4 of 6 partitions (67 %); it is watched for 30 s" in brief.body


def test_an_unwatched_group_of_one_member_can_still_be_moved() -> None:
    """Its canary is the whole group."""
    bench = make_bench(members=1)
    bench.last_choice = Choice.KEEP
    assert bench.move(Until.ROLL)[1].verdict is Verdict.PASS
