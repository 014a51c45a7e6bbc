"""How members of a fleet are started, and when they count as running."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.errors import Rejected
from groupshift_sandbox.client_members.commands import CLIENTS, GroupProtocol
from groupshift_sandbox.fleet import FleetDefinition, FleetSlot, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.members import (
    QUIET_S,
    client_member,
    demand_startable,
    is_ready,
    member_command,
    member_id,
)

SLOT = SlotDefinition(name="m1", client=CLIENTS[0], assignor="roundrobin", remote_assignor="range")


def fleet(*slots: SlotDefinition, topics: tuple[str, ...] = ("orders",)) -> FleetDefinition:
    """A group that only Kafka knows."""
    properties = {"plain": {"session.timeout.ms": "6000"}}
    return FleetDefinition(
        group="g", topics=topics, bootstrap="127.0.0.1:2", slots=slots, properties=properties
    )


def place(kind: MemberKind, pid: int = 7) -> FleetSlot:
    """The second occupant of m1."""
    return FleetSlot(name="m1", kind=kind, wanted=kind, incarnation=2, pid=pid, ticks=1)


def test_a_place_with_a_client_has_it_as_plain_and_as_native(tmp_path):
    """Group protocol, assignor and properties are those of the kind; the client id names the occupant."""
    home, definition = Home(tmp_path).create(), fleet(SLOT)
    plain = client_member(definition, SLOT, place(MemberKind.PLAIN))
    native = client_member(definition, SLOT, place(MemberKind.NATIVE))
    assert (plain.protocol, plain.assignor) == (GroupProtocol.CLASSIC, "roundrobin")
    assert (native.protocol, native.assignor) == (GroupProtocol.CONSUMER, "range")
    assert plain.properties == {"client.id": "g_m1-2", "session.timeout.ms": "6000"}
    assert native.properties == {"client.id": member_id(definition, place(MemberKind.NATIVE))}
    command = member_command(home, definition, place(MemberKind.NATIVE))
    assert command.name == "m1-2"
    patient = client_member(replace(definition, stop_s=60.0), SLOT, place(MemberKind.NATIVE))
    assert (native.close_s, patient.close_s) == (15.0, 45.0), "it ends before it is killed"
    assert {"group.protocol=consumer", "client.id=g_m1-2", "group.remote.assignor=range"} <= set(command.argv)


def test_a_static_member_keeps_its_ids_over_incarnations():
    """The classic coordinator shows the client id of the first one, so there is only one."""
    slot = replace(SLOT, instance_id="i1")
    members = [
        client_member(fleet(slot), slot, replace(place(MemberKind.PLAIN), incarnation=n)) for n in (1, 2)
    ]
    assert [each.instance_id for each in members] == ["i1", "i1"]
    assert {each.properties["client.id"] for each in members} == {"g_m1"}
    assert members[0].name != members[1].name


def test_a_plain_place_without_a_client_is_as_before(tmp_path):
    """`groupshift.cli.consume --kind plain`."""
    definition = replace(fleet(SlotDefinition(name="m1")), zookeeper="127.0.0.1:1")
    argv = member_command(Home(tmp_path).create(), definition, place(MemberKind.PLAIN)).argv
    assert argv[argv.index("--kind") + 1] == "plain"


@pytest.mark.parametrize(
    ("slot", "topics", "to", "said"),
    [
        (
            SLOT,
            ("t",),
            MemberKind.AWARE,
            r"slot 'm1' cannot have aware members: fleet\.json names no zookeeper",
        ),
        (
            SlotDefinition(name="m1", zookeeper="z:1"),
            ("t",),
            MemberKind.ZOOKEEPER,
            "its release is ''; choose one of",
        ),
        (SlotDefinition(name="m1"), ("t",), MemberKind.NATIVE, "its client is ''; choose one of confluent"),
        (replace(SLOT, client="java 1"), ("t",), MemberKind.PLAIN, "its client is 'java 1'; choose one of"),
        (
            replace(SLOT, commit="often"),
            ("t",),
            MemberKind.NATIVE,
            "its commit is 'often'; choose one of auto",
        ),
        (SLOT, ("t", "u"), MemberKind.NATIVE, "reads one topic here, not t, u"),
    ],
)
def test_a_kind_that_a_slot_cannot_have_is_refused(slot, topics, to, said):
    """With what its entry lacks; kinds that it can have are not."""
    with pytest.raises(Rejected, match=said):
        demand_startable(fleet(slot, topics=topics), ["m1"], to)
    demand_startable(fleet(slot, topics=topics), ["m1"], MemberKind.VACANT)
    demand_startable(fleet(SLOT), ["m1"], MemberKind.NATIVE)


def told(home: Home, *events: dict) -> None:
    """What the occupant has written so far."""
    lines = (json.dumps({"at_ms": 0, "member": "m1-2", **each}) + "\n" for each in events)
    (home.members / "m1-2.events.jsonl").write_text("".join(lines))


def test_a_client_is_ready_when_it_was_given_its_partitions(tmp_path):
    """Or none; not before, and not by what another process wrote under its name."""
    home, now = Home(tmp_path).create(), time.time_ns() // 1_000_000
    started = {"event": "started", "pid": 7, "at_ms": now}
    assert not is_ready(home, place(MemberKind.NATIVE))
    told(home, started)
    assert not is_ready(home, place(MemberKind.NATIVE))
    told(home, started, {"event": "assigned", "partitions": []})
    assert is_ready(home, place(MemberKind.NATIVE))
    assert not is_ready(home, place(MemberKind.NATIVE, pid=8))


def test_a_client_that_has_nothing_to_tell_is_ready_after_a_while(tmp_path):
    """A native librdkafka that gets no partition says nothing; one with an error is not ready."""
    home, long_ago = Home(tmp_path).create(), time.time_ns() // 1_000_000 - int(QUIET_S * 1000) - 1
    started = {"event": "started", "pid": 7, "at_ms": long_ago}
    told(home, started)
    assert is_ready(home, place(MemberKind.NATIVE))
    told(home, started, {"event": "error", "code": -150})
    assert not is_ready(home, place(MemberKind.NATIVE))
