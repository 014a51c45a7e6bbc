"""Writing the mode node."""

from __future__ import annotations

from typing import Protocol

from groupshift.domain.modes import Holder, Mode, ModeNode


class ModeSwitch(Protocol):
    """Compare-and-set of ``/consumers/<g>/migration/mode`` (F7); every write is read back.

    All writing methods raise `Conflict` when the node is no longer ``expected`` and `Transient` when
    ZooKeeper does not answer. An unchanged value is never written (N7): asking for the mode that
    ``expected`` already holds returns ``expected``. With a ``holder`` they also raise `Conflict` unless
    that is the one of the last `take`, checked in the same transaction as the write: a run that was
    fenced and is woken late changes nothing.
    """

    def read(self, group: str) -> ModeNode:
        """The node now, after a ``sync``."""
        ...

    def take(self, group: str, holder: Holder) -> None:
        """Remember ``holder`` as the one that may write. Raises `Conflict` when a later claim of the
        same migration is remembered."""
        ...

    def compare_and_set(
        self, group: str, expected: ModeNode, to: Mode, *, holder: Holder | None = None
    ) -> ModeNode:
        """Write ``to`` if the node is still ``expected``; returns the node as read back."""
        ...

    def delete(self, group: str, expected: ModeNode, *, holder: Holder | None = None) -> None:
        """Delete the node if it is still ``expected``; an absent node is what was asked for, so it is
        fine (a call that is repeated after a crash finds its work done)."""
        ...
