"""How a member of each kind is started."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable

from groupshift.domain.modes import MemberKind
from groupshift.errors import Rejected
from groupshift_sandbox import legacy
from groupshift_sandbox.client_members.commands import CLIENTS, ClientMember, Commit, GroupProtocol, command
from groupshift_sandbox.client_members.events import read_events
from groupshift_sandbox.fleet import FleetDefinition, FleetSlot, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import Command

QUIET_S = 10.0  # from the start of a member, when it has nothing to tell
_CLOSE_SHARE = 0.75  # of the time that a member has to end
_PROTOCOLS = {MemberKind.PLAIN: GroupProtocol.CLASSIC, MemberKind.NATIVE: GroupProtocol.CONSUMER}
_CONSUME_KIND = {MemberKind.AWARE: "migrating", MemberKind.PLAIN: "plain"}


def member_id(definition: FleetDefinition, place: FleetSlot) -> str:
    """``<group>_<slot>-<incarnation>``; ``<group>_<slot>`` of a static member, since a classic group goes on
    showing the client id of its first incarnation (seen at 4.3.1)."""
    static = any(slot.instance_id for slot in definition.slots if slot.name == place.name)
    return f"{definition.group}_{place.name if static else place.occupant}"


def member_command(home: Home, definition: FleetDefinition, place: FleetSlot) -> Command:
    """The command of the slot's present incarnation, of the kind `FleetSlot.kind`."""
    slot = next(slot for slot in definition.slots if slot.name == place.name)
    if place.kind is MemberKind.ZOOKEEPER:
        return _scala(home, definition, slot, place)
    if slot.client and place.kind in _PROTOCOLS:
        return command(home, client_member(definition, slot, place))
    return _consume(home, definition, slot, place)


def _scala(home: Home, definition: FleetDefinition, slot: SlotDefinition, place: FleetSlot) -> Command:
    topics = slot.topics or definition.topics
    member = legacy.ScalaMember(
        release=slot.release,
        group=definition.group,
        consumer_id=place.occupant,
        topics=[topic.partition(":")[0] for topic in topics],
        zookeeper=slot.zookeeper or definition.zookeeper,
        properties=definition.properties.get(MemberKind.ZOOKEEPER, {}),
    )
    return legacy.command(home, member)


def _consume(home: Home, definition: FleetDefinition, slot: SlotDefinition, place: FleetSlot) -> Command:
    argv = [
        sys.executable, "-m", "groupshift.cli.consume",
        "--kind", _CONSUME_KIND[place.kind], "--group", definition.group,
        "--zookeeper", slot.zookeeper or definition.zookeeper,
        "--bootstrap", slot.bootstrap or definition.bootstrap,
        "--consumer-id", place.occupant,
        "--ledger", str(home.ledgers / f"{place.occupant}.jsonl"),
        "--state", str(home.members / f"{place.occupant}.json"),
    ]  # fmt: skip
    for topic in slot.topics or definition.topics:
        argv += ["--topic", topic]
    for key, value in definition.properties.get(place.kind, {}).items():
        argv += ["--property", f"{key}={value}"]
    return Command(name=place.occupant, argv=argv)


def client_member(definition: FleetDefinition, slot: SlotDefinition, place: FleetSlot) -> ClientMember:
    """The slot's present incarnation as a client; a static member keeps its instance id over them."""
    (topic,) = slot.topics or definition.topics
    protocol = _PROTOCOLS[place.kind]
    native = protocol is GroupProtocol.CONSUMER
    return ClientMember(
        client=slot.client,
        group=definition.group,
        name=place.occupant,
        topic=topic,
        bootstrap=slot.bootstrap or definition.bootstrap,
        protocol=protocol,
        assignor=slot.remote_assignor if native else slot.assignor,
        instance_id=slot.instance_id,
        commit=Commit(slot.commit),
        close_s=definition.stop_s * _CLOSE_SHARE,
        properties={
            "client.id": member_id(definition, place),
            **definition.properties.get(place.kind, {}),
        },
    )


def demand_startable(definition: FleetDefinition, names: Iterable[str], to: MemberKind) -> None:
    """Raises `Rejected` for the first of these slots that can have no occupant of this kind."""
    slots = {slot.name: slot for slot in definition.slots}
    for slot in (slots[name] for name in names if name in slots):
        lack = _lacks(definition, slot, to)
        if lack:
            raise Rejected(f"slot {slot.name!r} cannot have {to.value} members: {lack}")


def _lacks(definition: FleetDefinition, slot: SlotDefinition, to: MemberKind) -> str:
    """What this slot's entry in ``fleet.json`` has to be given for a kind; empty when nothing."""
    if to in {MemberKind.ZOOKEEPER, MemberKind.AWARE} and not (slot.zookeeper or definition.zookeeper):
        return "fleet.json names no zookeeper"
    if to is MemberKind.ZOOKEEPER and slot.release not in legacy.RELEASES:
        return f"its release is {slot.release!r}; choose one of {', '.join(legacy.RELEASES)}"
    if to not in _PROTOCOLS or (to is MemberKind.PLAIN and not slot.client):
        return ""
    if slot.client not in CLIENTS:
        return f"its client is {slot.client!r}; choose one of {', '.join(CLIENTS)}"
    if slot.commit not in list(Commit):
        return f"its commit is {slot.commit!r}; choose one of {', '.join(Commit)}"
    topics = slot.topics or definition.topics
    return "" if len(topics) == 1 else f"{slot.client} reads one topic here, not {', '.join(topics)}"


def is_ready(home: Home, place: FleetSlot) -> bool:
    """True when the present occupant itself has written that it is running, or, a client, that it was given
    its partitions, be there none for it. A native member of librdkafka does not say that there are none: it
    is ready when nothing at all has come for `QUIET_S`."""
    return _says_running(home, place) or _says_assigned(home, place)


def _says_running(home: Home, place: FleetSlot) -> bool:
    try:
        state = json.loads((home.members / f"{place.occupant}.json").read_text())
    except (FileNotFoundError, ValueError):
        return False
    return bool(state.get("pid") == place.pid and state.get("state") == "running")


def _says_assigned(home: Home, place: FleetSlot) -> bool:
    events = read_events(home.members / f"{place.occupant}.events.jsonl")
    begun = [each.at_ms for each in events if each.event == "started" and each.fields["pid"] == place.pid]
    if not begun:
        return False
    quiet = len(events) == 1 and time.time() * 1000 - begun[0] > QUIET_S * 1000
    return quiet or any(each.event == "assigned" for each in events)
