"""The assignment of the whole group, told to the application before it is delivered anything (§8.7, L12)."""

from __future__ import annotations

import logging
import threading
import time

from groupshift.consumers.agenda import Agenda
from groupshift.consumers.outlook import Outlook
from groupshift.consumers.parts import Parts
from groupshift.domain.assignment import GroupAssignment, kafka_threads, map_to_threads, threads_by_topic
from groupshift.domain.group import KafkaGroup
from groupshift.domain.modes import Mode
from groupshift.domain.reconcile import Member, zookeeper_assignment
from groupshift.errors import GroupshiftError, Rejected

_LOG = logging.getLogger(__name__)
_BOUND_S = 3.0
_ANSWER_S = 1.0
_PAUSE_S, _LATER_S = 0.05, 1.0
_STABLE = "Stable"


class GroupListener:
    """Only the reconciler's thread calls this; the Kafka group is asked on a thread for each generation."""

    def __init__(self, member: Member, parts: Parts, agenda: Agenda) -> None:
        self._member, self._parts, self._agenda = member, parts, agenda
        self._asking: int | None = None
        self._answer: tuple[int, KafkaGroup | None] | None = None
        self._told: GroupAssignment | None = None

    def told(self, mode: Mode, outlook: Outlook) -> bool:
        """Whether delivery may start: everything about this assignment was told, or nobody listens.

        In Kafka mode the group is asked until it is stable. At the bound delivery starts with a map that is
        incomplete; the complete one is told when there is one."""
        if not self._parts.application.wants_group or outlook.view is None:
            return True
        if mode is Mode.ZOOKEEPER:
            self.stop()
            if not outlook.view.problems:
                self._tell(
                    GroupAssignment(mode=mode, threads=zookeeper_assignment(self._member, outlook.view))
                )
            return True
        if outlook.assignment is None:
            self.stop()
            return True
        if self._answer is not None and self._answer[0] == outlook.generation:
            self._tell(self._kafka(outlook, self._answer[1]))
            return True
        if self._asking != outlook.generation:
            self._asking = outlook.generation
            self._ask(outlook.generation)
        return False

    def stop(self) -> None:
        """The member leaves, or has no part in the Kafka group: nobody waits for an answer any more."""
        self._asking = None

    def _tell(self, assignment: GroupAssignment) -> None:
        if assignment != self._told:
            self._told = assignment
            self._parts.application.group_assigned(assignment)

    def _ask(self, generation: int) -> None:
        threading.Thread(
            target=self._gather,
            args=(generation,),
            name=f"groupshift-describe-{self._member.consumer_id}",
            daemon=True,
        ).start()

    def _gather(self, generation: int) -> None:
        """Until the group is stable or this generation is over; at the bound it is said that it is not."""
        deadline, pause, late = time.monotonic() + _BOUND_S, threading.Event(), False
        while self._asking == generation:
            found = self._stable()
            if found is not None or (not late and time.monotonic() >= deadline):
                self._know(generation, found)
                late = True
            if found is not None:
                return
            pause.wait(_LATER_S if late else _PAUSE_S)

    def _know(self, generation: int, found: KafkaGroup | None) -> None:
        def answer() -> None:
            if self._asking == generation:
                self._answer = (generation, found)

        self._agenda.post(answer)

    def _stable(self) -> KafkaGroup | None:
        membership = self._parts.membership
        try:
            group = membership.describe(_ANSWER_S) if membership is not None else None
        except GroupshiftError as error:
            _LOG.info("%s: %s", self._member.consumer_id, error)
            return None
        return group if group is not None and group.state == _STABLE else None

    def _kafka(self, outlook: Outlook, group: KafkaGroup | None) -> GroupAssignment:
        own, assignment = self._member, outlook.assignment or frozenset()
        subscriptions = self._subscriptions(outlook, group)
        if group is None or subscriptions is None:
            topics = own.topics({each.topic for each in assignment})
            threads = map_to_threads(assignment, threads_by_topic({own.consumer_id: topics}))
            return GroupAssignment(mode=Mode.KAFKA, threads=threads, complete=False)
        return GroupAssignment(mode=Mode.KAFKA, threads=kafka_threads(group.members, subscriptions))

    def _subscriptions(self, outlook: Outlook, group: KafkaGroup | None) -> dict[str, dict[str, int]] | None:
        """Of every registered member; None where they are not known, also for a pattern of another member
        that cannot be evaluated: the own partitions do not wait for it."""
        view = outlook.view
        if group is None or view is None:
            return None
        known = {each.topic for member in group.members for each in member.assignment} | set(view.partitions)
        try:
            return {
                cid: each.topics(known, hidden=self._member.hidden)
                for cid, each in view.registrations.items()
            }
        except Rejected as wrong:
            _LOG.warning("%s: %s", self._member.consumer_id, wrong)
            return None
