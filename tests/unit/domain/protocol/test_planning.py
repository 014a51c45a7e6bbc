"""Plans of the move ``protocol``: which stages, for whom, and the way back from each point."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.books import BOOKS
from groupshift.domain.facts import Place
from groupshift.domain.group_protocol import Aim, Protocol, Way
from groupshift.domain.modes import MemberKind
from groupshift.domain.observation import view_of
from groupshift.domain.plan import (
    Gate,
    MoveName,
    MoveRequest,
    Plan,
    StageName,
    Until,
    WayBack,
    from_json,
    to_json,
)
from groupshift.domain.protocol.planning import wanted
from groupshift.domain.step import ReplaceMembers
from support.protocol_groups import classic, consumer, view

BOOK = BOOKS[MoveName.PROTOCOL]
UP = MoveRequest(
    group="orders-app", move=MoveName.PROTOCOL, to=Protocol.CONSUMER, until=Until.ROLL, execute=True
)
VIEW = view_of(view(classic(3)), None)


def _places(*kinds: MemberKind) -> tuple[Place, ...]:
    return tuple(Place(name=f"m{n}", kind=kind, running=True) for n, kind in enumerate(kinds, 1))


def _plan(request: MoveRequest = UP, *kinds: MemberKind) -> Plan:
    return BOOK.make_plan(request, VIEW, _places(*(kinds or (MemberKind.PLAIN,) * 3)))


def _steps(plan: Plan) -> list[tuple[str, tuple[str, ...], str, str]]:
    steps = ((stage.name, stage.step) for stage in plan.stages)
    return [(n.value, s.slots, s.old.value, s.new.value) for n, s in steps if isinstance(s, ReplaceMembers)]


def test_online_a_canary_goes_first_and_the_others_follow() -> None:
    """One gate, before the first act; nothing to finalise."""
    plan = _plan()
    assert _steps(plan) == [
        ("canary", ("m1",), "plain", "native"),
        ("roll", ("m2", "m3"), "plain", "native"),
    ]
    assert [stage.gate for stage in plan.stages] == [Gate.PLAN, None, None]
    assert (plan.move, plan.to, plan.way) == (MoveName.PROTOCOL, Protocol.CONSUMER, Way.ONLINE)


def test_offline_everybody_stops_before_anybody_starts() -> None:
    """To classic: native members make room for plain ones."""
    down = replace(UP, to=Protocol.CLASSIC, way=Way.OFFLINE)
    plan = _plan(down, *(MemberKind.NATIVE,) * 3)
    assert _steps(plan) == [
        ("empty", ("m1", "m2", "m3"), "native", "vacant"),
        ("fill", ("m1", "m2", "m3"), "vacant", "plain"),
    ]


def test_a_move_that_is_half_way_replaces_only_the_others() -> None:
    """A second run goes on where somebody stopped."""
    plan = _plan(UP, MemberKind.NATIVE, MemberKind.PLAIN, MemberKind.PLAIN)
    assert _steps(plan)[0] == ("canary", ("m2",), "plain", "native")
    done = _plan(UP, *(MemberKind.NATIVE,) * 3)
    assert [stage.name for stage in done.stages] == [StageName.SOAK]


def test_a_plan_survives_the_journal() -> None:
    """Same bytes, same hash."""
    for plan in (_plan(), _plan(replace(UP, way=Way.OFFLINE))):
        again = from_json(to_json(plan))
        assert (again, again.hash) == (plan, plan.hash)


@pytest.mark.parametrize(
    ("way", "begun", "back"),
    [
        (Way.ONLINE, {"canary"}, [("undo_members", ("m1",), "native", "plain")]),
        (Way.ONLINE, {"canary", "roll"}, [("undo_members", ("m1", "m2", "m3"), "native", "plain")]),
        (Way.OFFLINE, {"empty"}, [("undo_empty", ("m1", "m2", "m3"), "vacant", "plain")]),
        (
            Way.OFFLINE,
            {"empty", "fill"},
            [
                ("undo_fill", ("m1", "m2", "m3"), "native", "vacant"),
                ("undo_empty", ("m1", "m2", "m3"), "vacant", "plain"),
            ],
        ),
        (Way.ONLINE, set(), []),
    ],
)
def test_the_way_back_inverts_what_was_begun(
    way: Way, begun: set[str], back: list[tuple[str, tuple[str, ...], str, str]]
) -> None:
    """Last act first; what was not begun is not undone."""
    plan = _plan(replace(UP, way=way))
    names = frozenset(StageName(name) for name in begun)
    stages = BOOK.way_back(plan, names, VIEW, (), WayBack.OLD_MEMBERS)
    assert _steps(replace(plan, stages=stages)) == back
    assert all(stage.after for stage in stages)


def test_what_a_stage_leads_to() -> None:
    """The way back leads to the other protocol; after a canary alone both are at home."""
    plan = _plan()
    assert wanted(plan, StageName.ROLL) == Aim(to=Protocol.CONSUMER, way=Way.ONLINE)
    assert wanted(plan, StageName.UNDO_MEMBERS) == Aim(to=Protocol.CLASSIC, way=Way.ONLINE)
    assert wanted(plan, StageName.SOAK) == Aim(to=Protocol.CONSUMER, way=Way.ONLINE)
    canary = _plan(replace(UP, until=Until.CANARY))
    assert wanted(canary, StageName.SOAK) is None
    everybody = _plan(replace(UP, until=Until.CANARY, canary=3))
    assert wanted(everybody, StageName.SOAK) == Aim(to=Protocol.CONSUMER, way=Way.ONLINE)
    assert BOOK.reached(plan) == "all members speak the consumer protocol"
    assert BOOK.reached(canary) == "the canary speaks the consumer protocol"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"group": ""}, "group '' has 0 characters: name one of 1 to 249"),
        ({"group": "g" * 250}, f"group '{'g' * 250}' has 250 characters"),
        ({"to": None}, "to is missing"),
        ({"canary": 0}, "canary 0 is less than 1"),
        ({"canary_share": 0.5}, "canary_share 0.5 is not known to this move"),
        ({"canary_watch_s": 30}, "canary_watch_s 30 is not known to this move"),
        ({"soak_s": -1}, "soak -1 s is not between"),
        ({"way": Way.OFFLINE, "until": Until.CANARY}, "until canary does not fit offline"),
        ({"way": Way.OFFLINE, "driver": "kubernetes"}, "driver kubernetes keeps no place empty"),
    ],
)
def test_bad_input_is_named(values: dict[str, object], said: str) -> None:
    """One clause each, with the value."""
    (problem,) = BOOK.check(replace(UP, **values))
    assert problem.startswith(said)
    assert BOOK.check(UP) == ()


def test_without_a_driver_places_are_members_by_the_name_that_people_know() -> None:
    """Two of one client id are told apart by their member ids."""
    plan = BOOK.make_plan(UP, VIEW, ())
    assert plan.slots == tuple(sorted(member.client_id or "" for member in VIEW.members))
    members = tuple(replace(member, client_id="twin") for member in VIEW.members)
    twins = BOOK.make_plan(UP, replace(VIEW, members=members), ())
    assert twins.slots == tuple(sorted(member.member_id for member in members))


def test_native_and_classic_members_are_told_apart() -> None:
    """And a group that Kafka alone knows is in kafka mode."""
    seen = view_of(view(consumer(2)), None)
    assert {member.kind for member in seen.members} == {MemberKind.NATIVE}
    assert {member.kind for member in VIEW.members} == {MemberKind.PLAIN}
    assert (seen.effective_mode.value, seen.exists) == ("kafka", True)
