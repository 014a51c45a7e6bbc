"""Watches over the shares of old members, when that falls to this member: tells people of those that nobody
takes and, if configured, wakes who has given up (F9)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from groupshift.consumers.agenda import Agenda
from groupshift.consumers.parts import Parts, Policy
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView, Member
from groupshift.domain.stale_members import (
    Vigil,
    advice,
    due,
    entrusted,
    neglected,
    responsible,
    schemes_of_losers,
    watch,
)

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 2.0
_LOOK_IDLY_S = 5.0


class Waker:
    """Only the reconciler's thread calls this. ``alarms`` are sentences for people."""

    def __init__(self, member: Member, parts: Parts, policy: Policy, agenda: Agenda) -> None:
        self._member, self._parts, self._agenda = member, parts, agenda
        self._every_s = policy.wake_every_s
        self._vigil = Vigil()
        self.alarms: tuple[str, ...] = ()

    def look(self, view: CoordinationView | None, acting: Mode | None) -> None:
        """From time to time: who owns what belongs to old members. Raises `Transient`."""
        if view is None or not responsible(self._member, view, acting):
            self._agenda.cancel("wake")
            self._vigil, self.alarms = Vigil(woken_at=self._vigil.woken_at), ()
            return
        if not self._agenda.every("wake", _LOOK_EVERY_S if self._every_s > 0 else _LOOK_IDLY_S):
            return
        expected = entrusted(self._member, view)
        unowned = self._parts.coordination.unowned(sorted(expected))
        self._vigil = watch(self._vigil, expected, unowned, time.monotonic())
        self._tell(view, neglected(self._vigil, self._every_s, time.monotonic()))
        if due(self._vigil, self._every_s, time.monotonic()):
            names = ", ".join(sorted({thread for thread, _ in self._vigil.free.values()}))
            _LOG.warning(
                "%s: waking old members; nobody took the share of %s", self._member.consumer_id, names
            )
            self._parts.coordination.wake()
            self._parts.counters.woken += 1
            self._vigil = replace(self._vigil, woken_at=time.monotonic())

    def _tell(self, view: CoordinationView, free: Mapping[TopicPartition, str]) -> None:
        former, self.alarms = self.alarms, ()
        if not free:
            return
        names, look = (
            ", ".join(map(str, free)),
            advice(self._member, schemes_of_losers(self._member, view, free)),
        )
        self.alarms = (f"{names}: old members do not take them; restart those members, and: {look}",)
        if self.alarms != former:
            _LOG.error("%s: %s", self._member.consumer_id, self.alarms[0])
