"""Who a consumer is: its place in the group and what it writes about itself."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.modes import Mode, ModeNode
from groupshift.domain.reconcile import Member
from groupshift.domain.registration import Registration, encode_awareness, encode_registration


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """``member`` for decisions, ``registration`` and ``software`` (its version) for the nodes."""

    member: Member
    registration: Registration
    software: str

    def written(self) -> bytes:
        """``ids/<cid>``."""
        return encode_registration(self.registration)

    def awareness(self, mode: Mode | None, node: ModeNode | None) -> bytes:
        """``migration/ids/<cid>``: with the mode in effect and the write it acts on, once there is one."""
        return encode_awareness(self.registration, software=self.software, mode=mode, node=node)
