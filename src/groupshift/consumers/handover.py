"""Giving partitions up: readers finish what they were given, then everything is committed and released."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from groupshift.consumers.agenda import Agenda
from groupshift.consumers.holdings import Holdings
from groupshift.consumers.parts import Parts, Policy
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Conflict, Transient

_LOG = logging.getLogger(__name__)
_TURN_S = 0.005


class Handover:
    """Only the reconciler's thread calls this; each call is bounded (F3)."""

    def __init__(self, holdings: Holdings, parts: Parts, policy: Policy, agenda: Agenda) -> None:
        self._holdings, self._parts = holdings, parts
        self._policy, self._agenda = policy, agenda

    def drain(self, partitions: Collection[TopicPartition]) -> None:
        """Let readers finish what they were given and the application hear of it, within the bound; their
        commits are still carried out."""
        if not partitions:
            return
        delivery = self._parts.delivery
        delivery.cut_off(partitions)
        notice = self._parts.application.revoking(partitions)
        deadline = time.monotonic() + self._policy.drain_s
        while delivery.busy(partitions) or (notice is not None and not notice.done):
            if time.monotonic() >= deadline:
                break
            self._agenda.receive(_TURN_S)
        if notice is not None:
            notice.give_up()
            self._agenda.receive(0)  # a commit that the callback asked for as its last deed

    def give_up_all(self) -> None:
        """On leaving: the znode is the last word, Kafka gets it before, as well as it can be reached."""
        self.drain(list(self._holdings.threads()))
        if self._policy.auto_commit:
            try:
                self._holdings.settle()
            except (Transient, Conflict) as error:
                _LOG.warning("last commit to Kafka: %s", error)
        self._holdings.release(list(self._holdings.threads()), Mode.ZOOKEEPER)
