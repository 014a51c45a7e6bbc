"""Carrying out a decision: release, follow the mode, take, start, publish; in this order (F1, F2)."""

from __future__ import annotations

import logging

from groupshift.consumers.group_listener import GroupListener
from groupshift.consumers.handover import Handover
from groupshift.consumers.holdings import Holdings
from groupshift.consumers.outlook import Outlook
from groupshift.consumers.parts import Parts
from groupshift.consumers.presence import Presence
from groupshift.domain.modes import Mode
from groupshift.domain.reconcile import Decision, Member
from groupshift.domain.stale_members import advice, schemes_of_keepers
from groupshift.errors import Conflict, Transient

_LOG = logging.getLogger(__name__)


class Acting:
    """Only the reconciler's thread calls this. ``mode`` is the one in effect, None before the first
    decision; ``alarms`` are the present ones."""

    def __init__(self, member: Member, parts: Parts, presence: Presence, outlook: Outlook) -> None:
        self._member, self._parts = member, parts
        self._presence, self._outlook = presence, outlook
        self.mode: Mode | None = None
        self.alarms: tuple[str, ...] = ()

    def carry_out(
        self, decision: Decision, holdings: Holdings, handover: Handover, listener: GroupListener
    ) -> None:
        """One pass. Raises `Transient` when something has to be repeated."""
        self._report((*decision.alarms, *self._contention(decision.mode, holdings)))
        if decision.register:
            self._presence.withdraw()
            self._outlook.outdate()
            raise Transient("the own registration is gone; registering again")
        self._parts.counters.differ(different=bool(decision.release or decision.take))
        self._release(decision, holdings, handover)
        self._follow(decision.mode, holdings)
        holdings.take(decision.take)
        try:
            if listener.told(decision.mode, self._outlook):
                holdings.start(decision.mode)
        finally:
            self._presence.publish(decision.mode, decision.node)
        if holdings.delivering([each for each, _ in decision.take]):
            self._parts.counters.differ(different=False)
        self._outlook.learn_clients(self.mode)

    def _release(self, decision: Decision, holdings: Holdings, handover: Handover) -> None:
        """Across a toggle, and after an eviction, the znode is the commit: the next owner raises Kafka's."""
        generation = self._outlook.generation
        handover.drain(decision.release)
        settled = decision.mode is self.mode and not self._outlook.evicted
        holdings.release(decision.release, decision.mode if settled else Mode.ZOOKEEPER)
        if self._outlook.generation != generation:
            raise Transient("the Kafka assignment changed during a hand-over: deciding again")
        if self._outlook.forgive() and decision.mode is Mode.KAFKA:
            raise Transient("what was held before the membership was lost is given up: deciding again")

    def _follow(self, mode: Mode, holdings: Holdings) -> None:
        """Before Kafka's word counts, prove the membership for what is kept (D8)."""
        if mode is self.mode:
            return
        if mode is Mode.KAFKA:
            try:
                holdings.prove()
            except (Conflict, Transient) as error:
                _LOG.warning("%s: delivery waits for the Kafka group: %s", self._member.consumer_id, error)
        self._parts.delivery.change_lease(lambda lease: lease.follow(mode))
        _LOG.info("%s: %s mode", self._member.consumer_id, mode)
        self.mode = mode

    def _report(self, alarms: tuple[str, ...]) -> None:
        for alarm in alarms:
            if alarm not in self.alarms:
                _LOG.error("%s: %s", self._member.consumer_id, alarm)
        self.alarms = alarms

    def _contention(self, mode: Mode, holdings: Holdings) -> tuple[str, ...]:
        """What another member does not give up. In Kafka mode nobody computes: that one does not act."""
        contended, view = holdings.contended(), self._outlook.view
        if not contended or view is None:
            return ()
        look = "is that one stopped, or cut off from ZooKeeper?"
        if mode is Mode.ZOOKEEPER:
            look = advice(self._member, schemes_of_keepers(self._member, view, contended))
        return (f"{', '.join(map(str, contended))}: due to this member, but another one keeps them; {look}",)
