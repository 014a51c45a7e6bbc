"""Replacement driver `manual`: a person gives nodes another release, the cluster tells when it is done."""

from __future__ import annotations

from groupshift.domain.foreign_text import code
from groupshift.ports.driver import ForPerson, NodeState, NodeStatus, Replacement


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
