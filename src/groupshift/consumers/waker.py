"""Wakes old members that have given up, when it falls to this member (F9); off unless configured."""

from __future__ import annotations

import logging
import time

from groupshift.consumers.agenda import Agenda
from groupshift.consumers.parts import Parts, Policy
from groupshift.domain.coordination import Mode
from groupshift.domain.reconcile import CoordinationView, Member
from groupshift.domain.waking import Vigil, due, entrusted, responsible, watch

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 2.0


class Waker:
    """Only the reconciler's thread calls this."""

    def __init__(self, member: Member, parts: Parts, policy: Policy, agenda: Agenda) -> None:
        self._member, self._parts, self._agenda = member, parts, agenda
        self._every_s = policy.wake_every_s
        self._vigil = Vigil()

    def look(self, view: CoordinationView | None, acting: Mode | None) -> None:
        """Every two seconds: who owns what belongs to old members. Raises `Transient`."""
        if self._every_s <= 0 or view is None or not responsible(self._member, view, acting):
            self._agenda.cancel("wake")
            self._vigil = Vigil(woken_at=self._vigil.woken_at)
            return
        if not self._agenda.every("wake", _LOOK_EVERY_S):
            return
        expected = entrusted(self._member, view)
        unowned = self._parts.coordination.unowned(sorted(expected))
        self._vigil = watch(self._vigil, expected, unowned, time.monotonic())
        if due(self._vigil, self._every_s, time.monotonic()):
            names = ", ".join(sorted({thread for thread, _ in self._vigil.free.values()}))
            _LOG.warning(
                "%s: waking old members; nobody took the share of %s", self._member.consumer_id, names
            )
            self._parts.coordination.wake()
            self._parts.counters.woken += 1
            self._vigil = Vigil(woken_at=time.monotonic())
