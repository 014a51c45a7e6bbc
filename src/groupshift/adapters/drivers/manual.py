"""The drivers `manual`: a person deploys members or nodes by an instruction.

The group view shows when members are replaced. The cluster shows when a node runs the other release.
"""

from __future__ import annotations

from groupshift.domain.facts import Slot
from groupshift.domain.foreign_text_quoting import code, shown
from groupshift.domain.modes import MemberKind
from groupshift.ports.driver import (
    Change,
    ChangeStatus,
    ForPerson,
    NodeState,
    NodeStatus,
    Replacement,
    Started,
)

_WHAT = {
    MemberKind.ZOOKEEPER: "the ZooKeeper consumer it ran before (offsets in ZooKeeper)",
    MemberKind.AWARE: "`groupshift.consumers.MigratingConsumer`",
    MemberKind.PLAIN: "a Kafka consumer with `group.protocol=classic` and `auto.offset.reset=earliest`",
    MemberKind.NATIVE: "the same Kafka consumer with `group.protocol=consumer`",
}


def instruction_for(change: Change) -> str:
    """What to deploy, as Markdown; the same change of the same members always gives the same text."""
    group, many, what = code(change.group), len(change.slots), _WHAT.get(change.to, "")
    there = many if change.occupants is None else len(change.occupants)
    every = "all" if change.undoes else "every one"
    reached = f"The run goes on once it has seen {every} of them as *{change.to.value}* in the group."
    if change.to is MemberKind.VACANT:
        first = f"**Stop {many} member(s) of group {group}** with SIGTERM and start none in their place yet"
        then = "The run goes on once it has seen that the group is empty."
    elif change.undoes and not there:
        first = (
            f"**No member of group {group} has to be replaced**: nobody is there that this run brought. "
            f"Start what is missing as {what}, until every place has a member"
        )
        then = ""
    elif change.undoes:  # only those that are there
        first = f"**Take {there} member(s) of group {group} back** to {what}, one after the other"
        then = (
            "Stop each of them with SIGTERM, wait until it is gone, then start in its place what ran there "
            "before the move, with the same group and topics. Members that were not replaced stay as they "
            f"are. {reached}"
        )
    elif not there:  # the group was stopped before, or its members ended
        first = f"**Start {many} member(s) of group {group}** as {what}, all of them"
        then = f"Nobody is there now, so nobody has to be stopped. Use the same group and topics. {reached}"
    else:
        first = f"**Replace {many} member(s) of group {group}** by {what}, one after the other"
        places = ", ".join(shown(name) for name in change.slots)
        missing = f"Nobody is at some of the places {places}: start a new member there, too. "
        then = (
            "Stop the member that runs there now with SIGTERM, wait until it is gone, then start the new one "
            f"with the same group and topics. {missing if there < many else ''}{reached}"
        )
    then = f"{then} (change {code(change.change_id)})".lstrip()
    return f"{first}:\n\n{_places(change)}\n\n{then}"


def _places(change: Change) -> str:
    """A line for each member to stop, with its host; places where nobody told who is there."""
    if not change.occupants:
        return "\n".join(f"- {shown(name)}" for name in change.slots)
    return "\n".join(
        f"- {shown(each.member_id)}{_on(each.host)}, now *{each.kind.value}*" for each in change.occupants
    )


def _on(host: str) -> str:
    return f" on host {shown(host)}" if host else ""


class ManualFleet:
    """`groupshift.ports.driver.FleetDriver` for fleets that only people change.

    It knows no slots and keeps nothing, so it is idempotent by nature."""

    def slots(self, group: str) -> tuple[Slot, ...]:  # noqa: ARG002 - the port's signature
        """Always empty: only the group view knows who is there."""
        return ()

    def start(self, change: Change) -> Started | ForPerson:
        """`ForPerson` with the instruction; nothing is done."""
        return ForPerson(change_id=change.change_id, instruction=instruction_for(change))

    def took_up(self, change: Change) -> bool:  # noqa: ARG002 - the port's signature
        """Never, as far as this driver knows: a person acts, and the group view shows it."""
        return False

    def observe(self, change: Change) -> ChangeStatus:
        """Never done as far as this driver knows: the caller decides by the group view."""
        places, what = ", ".join(change.slots), f"deploy {change.to.value} members on"
        if change.to is MemberKind.VACANT:
            what = "stop the members at"
        return ChangeStatus(
            change_id=change.change_id, done=False, detail=f"waiting for a person to {what} {places}"
        )


class ManualReplacement:
    """`groupshift.ports.driver.BrokerReplacement` that only instructs; keeps no state."""

    def start(self, replacement: Replacement) -> ForPerson:
        """The instruction; nothing is done."""
        if not replacement.release:
            return ForPerson(change_id=replacement.change_id, instruction=_restart(replacement))
        without = ", ".join(code(name) for name in replacement.without)
        leave_out = f" Leave {without} out of its file." if without else ""
        instruction = (
            f"Stop node {replacement.node_id} cleanly (SIGTERM) and start Kafka {replacement.release}, "
            f"{replacement.coordinator} group coordinator, over the same folder.{leave_out} "
            "Keep the file and the jars of now. Then run this again."
        )
        return ForPerson(change_id=replacement.change_id, instruction=instruction)

    def observe(self, node_id: int) -> NodeStatus:
        """Nothing is known: the cluster decides."""
        return NodeStatus(node_id=node_id, state=NodeState.UNKNOWN)


def _restart(wanted: Replacement) -> str:
    lines = ", ".join(code(f"{name}={value}") for name, value in sorted(wanted.properties.items()))
    first = f"Set {lines} in the file of node {wanted.node_id}, then stop" if lines else "Stop"
    node = "it" if lines else f"node {wanted.node_id}"
    return f"{first} {node} cleanly (SIGTERM) and start it again. Then run this again."
