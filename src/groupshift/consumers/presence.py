"""That a member is there: its session, its registration, the proofs of both, and the mode it publishes."""

from __future__ import annotations

from groupshift.consumers.agenda import Agenda
from groupshift.consumers.identity import Identity
from groupshift.consumers.parts import Parts
from groupshift.domain.modes import Mode, ModeNode
from groupshift.ports.consumer import MembershipListener


class Presence:
    """Only the reconciler's thread calls this."""

    def __init__(self, identity: Identity, parts: Parts, agenda: Agenda) -> None:
        self._identity, self._member = identity, identity.member
        self._parts, self._agenda = parts, agenda
        self._registered = self._joined = False
        self._published: tuple[Mode, str] | None = None
        self.session: int | None = None

    @property
    def registered(self) -> bool:
        """False until `register` has succeeded in this session."""
        return self._registered

    def begin(self, session: int) -> None:
        """A new session: nothing of the former one is there any more."""
        self.session, self._registered, self._published = session, False, None

    def withdraw(self) -> None:
        """The registration was found to be gone."""
        self._registered = False

    def register(self, listener: MembershipListener, mode: Mode | None, node: ModeNode | None) -> bool:
        """Register unless it is done, start the membership after the first time; True when it was new.

        ``mode`` and ``node`` are in effect already when only the registration was lost."""
        if self._registered:
            return False
        awareness = self._identity.awareness(mode, node) if self._member.aware else None
        self._parts.coordination.register(self._identity.written(), awareness)
        self._registered = True
        if self._parts.membership is not None and not self._joined:
            self._joined = True
            self._parts.membership.start(listener)
        return True

    def prove(self) -> None:
        """Ask three times a session whether it lives; the answer extends the lease (F5)."""
        session_s = self._parts.coordination.session_s
        if self._agenda.every("proof", session_s / 3):
            self._parts.coordination.prove(
                lambda sent: self._parts.delivery.change_lease(
                    lambda lease: lease.prove_zookeeper(sent, session_s)
                )
            )

    def publish(self, mode: Mode, node: ModeNode) -> None:
        """After it is in effect (F6, F7): which mode, because of which write of the mode node."""
        wanted = (mode, node.identity)
        if self._member.aware and self._published != wanted:
            self._parts.coordination.publish(self._identity.awareness(mode, node))
            self._published = wanted
