"""A run that is over is watched: is its group settled, and is everybody there. And what assess shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import Kind, Protocol
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import Outcome
from groupshift.engine.watch import Looks, watch
from groupshift.moves.protocol.facts import look
from groupshift.moves.protocol.liveness import look_at
from groupshift.moves.protocol.report import observed
from support.simulated_runs import Processes, make_processes


@pytest.fixture
def group() -> Processes:
    """Three classic members."""
    return make_processes(MemberKind.PLAIN)


def moved(group: Processes) -> str:
    """A run that is over: all members are native."""
    name = group.begin(to=Protocol.CONSUMER)
    group.drive(name)
    return name


def bad(group: Processes, name: str, **looks: float) -> tuple[Outcome, set[str]]:
    """What a watch came to, and the rules that did not pass."""
    found = watch(group.move, group.tools(), group.ports(), name, looks=Looks(**looks))
    return found.outcome, {each.rule for each in found.findings if each.verdict != "pass"}


def seen(group: Processes) -> GroupView:
    """The group as a look of a run reads it."""
    return group.ports().side.groups.read(group.world.group)


def test_a_group_that_is_as_it_was_left_passes_for_as_long_as_it_is_watched(group: Processes) -> None:
    """One look, and ten seconds."""
    name = moved(group)
    assert bad(group, name) == (Outcome.PASS, set())
    before = group.clock.now_ms()
    assert bad(group, name, for_s=10) == (Outcome.PASS, set())
    assert group.clock.now_ms() - before >= 10_000


def test_a_member_that_never_comes_is_noticed(group: Processes) -> None:
    """Who has a place by the driver and is no member, once it is missing for five seconds."""
    name = moved(group)
    fleet, ports = group.fleet, group.ports()
    slots = fleet.slots(group.world.group)
    more = replace(slots[0], name="m9", member_id="nobody-is-called-so")

    class WithOneMore:
        def slots(self, _group: str) -> tuple[object, ...]:
            return (*slots, more)

    side = replace(ports.side, fleets=lambda _driver: WithOneMore())
    found = watch(group.move, group.tools(), replace(ports, side=side), name, looks=Looks(for_s=20))
    missing = [each for each in found.findings if each.rule == "PM01"]
    assert found.outcome is Outcome.FAIL
    assert ["nobody-is-called-so is not in group" in each.reason for each in missing] == [True]


def test_what_a_look_tells_of_members_is_read_from_the_group(group: Processes) -> None:
    """Offsets and log ends; of a group with problems why they are not known; of what is no group of
    consumers nothing; where brokers alone were not asked there is no look."""
    view = seen(group)
    found = look_at(view)
    assert found is not None
    assert found.committed == {each.at: each.offset for each in view.kafka_offsets}
    assert found.ends == {each.at: each.log_end for each in view.log_ends}
    spoilt = look_at(replace(view, problems=("a transaction is open",)))
    assert spoilt is not None
    assert (spoilt.unread, spoilt.ends) == ("a transaction is open", {})
    assert view.protocol is not None
    absent = replace(view.protocol, group=replace(view.protocol.group, kind=Kind.ABSENT, members=()))
    nothing = look_at(replace(view, protocol=absent))
    assert nothing is not None
    assert nothing.ends == {}
    assert look_at(replace(view, protocol=None)) is None


def test_an_assessment_shows_members_and_the_answers_to_come(group: Processes) -> None:
    """Nothing is foretold of what is no group of consumers."""
    request = group.request(to=Protocol.CONSUMER)
    live = look(group.ports(), request)
    shown = observed(request, live)
    assert [each.title for each in shown.sections] == ["Members", "What the coordinator will answer"]
    assert len(shown.sections[0].rows) == 3
    assert [(each["number"], each["code"]) for each in shown.data["answers"]] == [("PN14", 0)]
    protocol = live.facts.view.protocol
    assert protocol is not None
    share = replace(protocol, group=replace(protocol.group, kind=Kind.SHARE))
    alien = replace(live, facts=replace(live.facts, view=replace(live.facts.view, protocol=share)))
    assert observed(request, alien).data["answers"] == ()
