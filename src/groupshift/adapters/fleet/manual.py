"""Fleet driver `manual`: a person deploys; the driver says what, the group view shows when it is done."""

from __future__ import annotations

from groupshift.domain.coordination import MemberKind
from groupshift.domain.foreign_text import code, markdown
from groupshift.ports.fleet import Change, ChangeStatus, Pending, Slot, Started

_WHAT = {
    MemberKind.OLD: "the ZooKeeper consumer it ran before (offsets in ZooKeeper)",
    MemberKind.AWARE: "`groupshift.consumers.MigratingConsumer`",
    MemberKind.PLAIN: "a Kafka consumer with `group.protocol=classic` and `auto.offset.reset=earliest`",
    MemberKind.NATIVE: "the same Kafka consumer with `group.protocol=consumer`",
}


def instruction_for(change: Change) -> str:
    """What to deploy, as Markdown; the same change always gives the same text."""
    places = "\n".join(f"- {markdown(name)}" for name in change.slots)
    if change.to is MemberKind.VACANT:
        return (
            f"**Stop {len(change.slots)} member(s) of group {code(change.group)}** with SIGTERM and start "
            f"none in their place yet:\n\n{places}\n\n"
            "The run goes on by itself when it sees that the group is empty. "
            f"(change {code(change.change_id)})"
        )
    return (
        f"**Replace {len(change.slots)} member(s) of group {code(change.group)}** by {_WHAT[change.to]}, "
        f"one after the other:\n\n{places}\n\n"
        "Stop the old member with SIGTERM, wait until it is gone, then start the new one with the same "
        f"group and topics. Nothing else is needed: the run goes on by itself when it sees every one of "
        f"them as *{change.to.value}* in the group. (change {code(change.change_id)})"
    )


class ManualFleet:
    """`groupshift.ports.fleet.FleetDriver` for fleets that only people change.

    It knows no slots and keeps nothing, so it is idempotent by nature."""

    def slots(self, group: str) -> tuple[Slot, ...]:  # noqa: ARG002 - the port's signature
        """Always empty: only the group view knows who is there."""
        return ()

    def start(self, change: Change) -> Started | Pending:
        """`Pending` with the instruction; nothing is done."""
        return Pending(change_id=change.change_id, instruction=instruction_for(change))

    def took_up(self, change: Change) -> bool:  # noqa: ARG002 - the port's signature
        """Never, as far as this driver knows: a person acts, and the group view shows it."""
        return False

    def observe(self, change: Change) -> ChangeStatus:
        """Never done as far as this driver knows: the caller decides by the group view."""
        return ChangeStatus(
            change_id=change.change_id,
            done=False,
            detail=f"waiting for a person to deploy {change.to.value} members on {', '.join(change.slots)}",
        )
