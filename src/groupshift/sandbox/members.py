"""How a member of each kind is started."""

from __future__ import annotations

import json
import sys

from groupshift.domain.coordination import MemberKind
from groupshift.sandbox import legacy
from groupshift.sandbox.fleet import FleetDefinition, Place, SlotDefinition
from groupshift.sandbox.home import Home
from groupshift.sandbox.processes import Command

_CONSUME_KIND = {MemberKind.AWARE: "migrating", MemberKind.PLAIN: "plain"}


def member_id(definition: FleetDefinition, place: Place) -> str:
    """``<group>_<slot>-<incarnation>``."""
    return f"{definition.group}_{place.occupant}"


def member_command(home: Home, definition: FleetDefinition, place: Place) -> Command:
    """The command of the slot's present incarnation, of the kind `Place.kind`."""
    slot = next(slot for slot in definition.slots if slot.name == place.name)
    if place.kind is MemberKind.OLD:
        return _scala(home, definition, slot, place)
    return _consume(home, definition, slot, place)


def _scala(home: Home, definition: FleetDefinition, slot: SlotDefinition, place: Place) -> Command:
    topics = slot.topics or definition.topics
    member = legacy.ScalaMember(
        release=slot.release,
        group=definition.group,
        consumer_id=place.occupant,
        topics=[topic.partition(":")[0] for topic in topics],
        zookeeper=slot.zookeeper or definition.zookeeper,
        properties=definition.properties.get(MemberKind.OLD, {}),
    )
    return legacy.command(home, member)


def _consume(home: Home, definition: FleetDefinition, slot: SlotDefinition, place: Place) -> Command:
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


def is_ready(home: Home, place: Place) -> bool:
    """True when the present occupant itself has written that it is running."""
    try:
        told = json.loads((home.members / f"{place.occupant}.json").read_text())
    except (FileNotFoundError, ValueError):
        return False
    return bool(told.get("pid") == place.pid and told.get("state") == "running")
