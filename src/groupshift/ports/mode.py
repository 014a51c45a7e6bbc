"""Writing the mode node."""

from __future__ import annotations

from typing import Protocol

from groupshift.domain.coordination import Mode, ModeNode


class ModeSwitch(Protocol):
    """Compare-and-set of ``/consumers/<g>/migration/mode`` (F7); every write is read back.

    All writing methods raise `Conflict` when the node is no longer ``expected`` and `Transient` when
    ZooKeeper does not answer. An unchanged value is never written (N7): asking for the mode that
    ``expected`` already holds returns ``expected``.
    """

    def read(self, group: str) -> ModeNode:
        """The node now, after a ``sync``."""
        ...

    def compare_and_set(self, group: str, expected: ModeNode, to: Mode) -> ModeNode:
        """Write ``to`` if the node is still ``expected``; returns the node as read back."""
        ...

    def delete(self, group: str, expected: ModeNode) -> None:
        """Delete the node if it is still ``expected``; an absent node is what was asked for, so it is
        fine (a call that is repeated after a crash finds its work done)."""
        ...
