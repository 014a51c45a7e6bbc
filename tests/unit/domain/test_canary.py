"""The canary's rules: what a series of looks measures, and when it is a pass, a fail or too little."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace

import pytest

from groupshift.domain.canary import CanaryLimits, Look, Side, judged, look_of, trends, unrest
from groupshift.domain.facts import Facts, Slot, SlotState
from groupshift.domain.modes import MemberKind
from groupshift.domain.old_members import NEVER, Held
from groupshift.domain.plain import from_plain
from groupshift.domain.verdict import Finding, Verdict
from support.simulated_group import make_group

LIMITS = CanaryLimits(
    looks=5,
    records=20,
    lag_growth_pct=20,
    commit_rate_pct=70,
    errors=0,
    rebalances=1,
    commit_interval_ms=5000,
)
CANARY, OLD = "g_new", "g_old"
Flow = Callable[[int], int]
"""Seconds since the first look → the next offset."""


def stepwise(rate: float, interval_s: int = 5) -> Flow:
    """What an auto commit writes: everything so far, once an interval."""
    return lambda second: int(rate * (second // interval_s * interval_s))


def held(number: int, member: str, second: int, znode: int, kafka: int = NEVER) -> Held:
    """Partition ``number`` with 10 records a second."""
    return Held(
        topic="t",
        partition=number,
        member_id=member,
        czxid=number + 1,
        znode=znode,
        kafka=kafka,
        end=10 * second,
    )


def look(second: int, *partitions: Held, **changes: object) -> Look:
    """One look at a canary of one member beside one old member."""
    made = Look(
        at_ms=1000 * second,
        ids_pzxid=1,
        canary=(CANARY,),
        old=(OLD,),
        down=(),
        unowned=(),
        held=partitions,
    )
    return replace(made, **changes)


def series(canary: Flow, old: Flow, seconds: int = 60, every: int = 2) -> list[Look]:
    """Partitions 0 and 1 are the canary's, 2 to 4 the old member's."""
    return [
        look(
            second,
            *(held(n, CANARY, second, canary(second), canary(second)) for n in (0, 1)),
            *(held(n, OLD, second, old(second)) for n in (2, 3, 4)),
        )
        for second in range(0, seconds + 1, every)
    ]


def verdicts(found: tuple[Finding, ...]) -> dict[str, Verdict]:
    """Verdict by rule."""
    return {finding.rule: finding.verdict for finding in found}


PASSED = dict.fromkeys(["K01", "K02", "K03", "K04", "K05", "K06"], Verdict.PASS)


@pytest.mark.parametrize(
    ("canary", "old"),
    [
        (stepwise(10), stepwise(10)),
        (stepwise(10, 1), stepwise(10, 5)),
        (stepwise(10, 5), stepwise(10, 1)),
        (stepwise(4), stepwise(4)),
        (lambda second: max(0, 12 * second - 300), stepwise(10)),
    ],
    ids=["alike", "commits more often", "commits more rarely", "both too slow", "catches up"],
)
def test_a_canary_that_keeps_up_with_the_old_members_passes(canary: Flow, old: Flow) -> None:
    """Whatever the commit interval: it is compared with its neighbours, not with an ideal."""
    catching_up = canary(10) == 0
    found = judged(series(canary, old, seconds=200 if catching_up else 60), LIMITS)
    assert verdicts(found) == PASSED, found
    assert not any(finding.hint for finding in found)


@pytest.mark.parametrize(
    ("canary", "failed"),
    [
        (stepwise(5), {"K02", "K03"}),
        (lambda _second: 0, {"K02", "K03", "K04"}),
        (lambda second: 0 if second < 10 else 100, {"K02", "K03"}),
    ],
    ids=["half as fast", "paused from the start", "stops after one commit"],
)
def test_a_canary_that_falls_behind_fails(canary: Flow, failed: set[str]) -> None:
    """Lag slope and commit rate both say so, with the figures of both sides."""
    found = judged(series(canary, stepwise(10)), LIMITS)
    assert {finding.rule for finding in found if finding.verdict is Verdict.FAIL} == failed
    slope_said = next(finding for finding in found if finding.rule == "K02")
    assert "the canary's lag grows by" in slope_said.reason
    assert all(finding.hint for finding in found if finding.verdict is Verdict.FAIL)


def test_one_partition_that_stands_still_is_named_though_the_median_is_fine() -> None:
    """Errors are counted one by one."""
    looks = series(stepwise(10), stepwise(10))
    stuck = [
        replace(
            each,
            held=(*each.held, held(9, CANARY, each.at_ms // 1000, 0)._replace(kafka=0)),
        )
        for each in looks
    ]
    (bad,) = [finding for finding in judged(stuck, LIMITS) if finding.verdict is Verdict.FAIL]
    assert bad.rule == "K04"
    assert "t-9 was not committed although 600 records arrived" in bad.reason


def silent(looks: list[Look]) -> list[Look]:
    """Nothing is produced."""
    return [
        replace(each, held=tuple(h._replace(end=0, znode=0, kafka=0) for h in each.held)) for each in looks
    ]


def without(side: Side) -> Callable[[list[Look]], list[Look]]:
    """One side is not there."""
    gone = {Side.CANARY: CANARY, Side.OLD: OLD}[side]
    empty = {side.value: ()}

    def leave_out(looks: list[Look]) -> list[Look]:
        return [
            replace(each, held=tuple(h for h in each.held if h.member_id != gone), **empty) for each in looks
        ]

    return leave_out


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda looks: looks[:0], "0 looks"),
        (lambda looks: looks[:1], "1 looks"),
        (lambda looks: looks[:4], "at least 5 are needed"),
        (lambda looks: looks[:8], "less than 4 commit intervals"),
        (silent, "0 records arrived for the canary"),
        (without(Side.CANARY), "the canary held no partition"),
        (without(Side.OLD), "the old members held no partition"),
        (
            lambda looks: [
                replace(each, held=tuple(h._replace(znode=7) if h.member_id == OLD else h for h in each.held))
                for each in looks
            ],
            "the old members committed 0 times",
        ),
    ],
    ids=["nothing", "one look", "few looks", "short", "silent", "no canary", "no old", "idle old"],
)
def test_too_little_data_is_inconclusive_and_never_a_pass(
    spoil: Callable[[list[Look]], list[Look]], says: str
) -> None:
    """The comparing rules are then not asked; what is certain still is."""
    found = judged(spoil(series(stepwise(10), stepwise(10))), LIMITS)
    assert verdicts(found)["K01"] is Verdict.INCONCLUSIVE
    assert says in found[0].reason
    assert not {"K02", "K03", "K06"} & set(verdicts(found))


def test_errors_are_allowed_as_far_as_the_old_members_have_them_too() -> None:
    """A partition that both sides lose for a moment is the group's matter, not the canary's."""
    looks = series(stepwise(10), stepwise(10))
    lost = replace(looks[9], held=tuple(h for h in looks[9].held if h.partition != 0), unowned=("t-0",))
    both = replace(lost, held=tuple(h for h in lost.held if h.partition != 2), unowned=("t-0", "t-2"))
    for spoiled, verdict in ((lost, Verdict.FAIL), (both, Verdict.PASS)):
        found = judged([*looks[:9], spoiled, *looks[10:]], replace(LIMITS, rebalances=9))
        assert verdicts(found)["K04"] is verdict
        assert "t-0 lost its owner g_new" in next(f.reason for f in found if f.rule == "K04")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"canary": ()}, "g_new left the group"),
        ({"down": ("m1",)}, "place m1 was down"),
        ({"held": (held(0, CANARY, 60, 3),)}, "the offset of t-0 went back from 550 to 3"),
    ],
)
def test_what_goes_wrong_with_the_canary_is_named(changes: dict[str, object], says: str) -> None:
    """A member that is gone, a place that is down, a commit that goes back."""
    looks = series(stepwise(10), stepwise(10))
    found = judged([*looks[:-1], replace(looks[-1], **changes)], LIMITS)
    (bad,) = [finding for finding in found if finding.rule == "K04"]
    assert bad.verdict is Verdict.FAIL
    assert says in bad.reason


def flapping(looks: list[Look], **changes: object) -> list[Look]:
    """Every fourth look is another one."""
    return [replace(each, **changes) if n % 4 == 0 else each for n, each in enumerate(looks)]


@pytest.mark.parametrize(
    ("changes", "verdict", "says"),
    [
        ({"canary": (CANARY, "g_x")}, Verdict.FAIL, "because the canary came or went"),
        ({"old": (OLD, "g_y")}, Verdict.INCONCLUSIVE, "because old members did"),
        ({"ids_pzxid": 2}, Verdict.INCONCLUSIVE, "because old members did"),
        ({"held": ()}, Verdict.FAIL, "although nobody did"),
    ],
    ids=["canary", "old", "unseen", "contention"],
)
def test_rebalances_fail_the_canary_unless_old_members_made_them(
    changes: dict[str, object], verdict: Verdict, says: str
) -> None:
    """Contention (owner nodes change and nobody came or went) is what a wrong assignor looks like."""
    looks = flapping(series(stepwise(10), stepwise(10)), **changes)
    (finding,) = [each for each in judged(looks, LIMITS) if each.rule == "K05"]
    assert (finding.verdict, says in finding.reason) == (verdict, True)
    assert unrest(looks).total() > 10


def test_one_rebalance_is_allowed() -> None:
    """An old member that was deployed during the watch is no finding, whatever moved with it."""
    looks = series(stepwise(10), stepwise(10), seconds=120)
    moved = [
        replace(each, ids_pzxid=2, held=tuple(h._replace(czxid=h.czxid + 50) for h in each.held))
        for each in looks[20:]
    ]
    assert verdicts(judged([*looks[:20], *moved], LIMITS)) == PASSED


def test_a_canary_that_commits_to_zookeeper_only_fails() -> None:
    """A migration-aware member keeps both stores (§9); the toggle needs Kafka's (O8)."""
    looks = [
        replace(each, held=tuple(h._replace(kafka=NEVER) for h in each.held))
        for each in series(stepwise(10), stepwise(10))
    ]
    (bad,) = [finding for finding in judged(looks, LIMITS) if finding.verdict is Verdict.FAIL]
    assert (bad.rule, "t-0, t-1" in bad.reason) == ("K06", True)


def test_only_the_longest_tenure_of_a_partition_counts() -> None:
    """What it was before it moved belongs to its former owner."""
    looks = series(stepwise(10), stepwise(10))
    early = [replace(each, held=tuple(h._replace(member_id=OLD) for h in each.held)) for each in looks[:3]]
    sides = {trend.at.partition: trend.side for trend in trends([*early, *looks[3:]])}
    assert sides == {0: Side.CANARY, 1: Side.CANARY, 2: Side.OLD, 3: Side.OLD, 4: Side.OLD}


def test_a_look_survives_the_journal() -> None:
    """Through JSON, as the database keeps it."""
    seen = look(6, held(0, CANARY, 6, 50), unowned=("t-7",), down=("m3",))
    assert from_plain(Look, json.loads(json.dumps(asdict(seen)))) == seen


def test_a_look_knows_the_canary_by_its_place_or_by_its_kind() -> None:
    """Where people deploy, every migration-aware member is the canary's."""
    world = make_group().world
    world.places["m2"].kind = MemberKind.AWARE
    view = world.read(world.group)
    places = tuple(
        Slot(
            name=name,
            kind=o.kind,
            state=SlotState.RUNNING if o.running else SlotState.DOWN,
            member_id=world.identity(name),
        )
        for name, o in world.places.items()
    )
    for known in (places, ()):
        seen = look_of(Facts(view=view, places=known), ("m2",))
        assert (seen.canary, seen.old) == (
            ("orders-app_m2-1",),
            ("orders-app_m1-1", "orders-app_m3-1"),
        )
        assert [(h.partition, h.znode, h.kafka, h.end) for h in seen.held][2] == (2, 90, NEVER, 100)
    world.places["m2"].running = False
    gone = look_of(Facts(view=world.read(world.group), places=tuple(
        replace(place, state=SlotState.DOWN if place.name == "m2" else place.state) for place in places
    )), ("m2",))  # fmt: skip
    assert (gone.canary, gone.down) == ((), ("m2",))
