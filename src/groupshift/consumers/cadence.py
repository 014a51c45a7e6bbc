"""When a member commits: auto commit, and in Kafka mode the proofs that its lease needs (F5)."""

from __future__ import annotations

import time

from groupshift.consumers.agenda import Agenda
from groupshift.consumers.parts import Parts, Policy
from groupshift.domain.modes import Mode

_UNPROVEN_S = 0.2
_NEVER_SOONER_THAN_S = 30.0


class Cadence:
    """The timer ``commit`` of the agenda. ``commit_every_s`` is the auto commit's interval."""

    def __init__(self, parts: Parts, policy: Policy, agenda: Agenda, commit_every_s: float) -> None:
        self._parts, self._policy, self._agenda = parts, policy, agenda
        self._every_s = commit_every_s if policy.auto_commit else _NEVER_SOONER_THAN_S

    def due(self, acting: Mode | None, *, holding: bool) -> bool:
        """True when a commit is due now; in Kafka mode also without auto commit, a third of the Kafka
        session apart, and soon while the membership is unproven although something is held."""
        membership, every_s = self._parts.membership, self._every_s
        in_kafka = acting is Mode.KAFKA and membership is not None
        if in_kafka and membership is not None:
            unproven = self._parts.delivery.lease.kafka_until <= time.monotonic()
            every_s = min(every_s, membership.session_s / 3)
            every_s = _UNPROVEN_S if unproven and holding else every_s
            self._agenda.hasten("commit", every_s)
        self._agenda.begin("commit", every_s)
        return self._agenda.every("commit", every_s) and (in_kafka or self._policy.auto_commit)
