"""What a member knows before it decides: the group in ZooKeeper, its Kafka assignment, the Kafka group."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from groupshift.consumers.agenda import Agenda
from groupshift.consumers.parts import Parts
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView, Decision, Member, Situation, decide
from groupshift.domain.registration import Pattern
from groupshift.errors import GroupshiftError, Rejected, Transient

_LOG = logging.getLogger(__name__)
_SHOWN = 200
_CLIENTS_S = 1.0
_CLIENTS_EVERY_S = 1.0


class Outlook:
    """Only the reconciler's thread calls this.

    ``assignment`` is what the Kafka group assigned in the present generation, None between generations;
    ``generation`` counts its changes. ``evicted`` is True from the loss of the membership until what was
    held is given up; no assignment counts before."""

    def __init__(self, member: Member, parts: Parts, agenda: Agenda) -> None:
        self._member, self._parts, self._agenda = member, parts, agenda
        self._stale, self._said = True, ""
        static = member.pattern is Pattern.STATIC
        self._own_topics = tuple(sorted(member.subscription)) if static else ()
        self._clients: frozenset[str] | None = None
        self._subscribed: dict[str, tuple[int, ...]] | None = None
        self.view: CoordinationView | None = None
        self.assignment: frozenset[TopicPartition] | None = None
        self.evicted = False
        self.generation = 0

    # -- ZooKeeper -------------------------------------------------------------------------------

    def outdate(self) -> None:
        """A watch fired, or may have been lost."""
        self._stale = True

    def forget(self) -> None:
        """A new session: no watch stands."""
        self.view = None

    def observe(self) -> None:
        """Read the view unless it is fresh. Raises `Transient`; it then stays outdated."""
        if not self._stale and self.view is not None:
            return
        self._stale = False
        try:
            view = self._parts.coordination.observe(self.view, self._own_topics)
            self.view = view
            self._subscribe(view)
        except GroupshiftError:
            self._stale = True
            raise
        except Exception as error:
            self._stale = True
            raise self._unforeseen(error) from error

    def _subscribe(self, view: CoordinationView) -> None:
        """One source of topic names for both systems (L5): what ZooKeeper shows is what Kafka is told."""
        found = {topic: view.partitions.get(topic, ()) for topic in self._member.topics(view.partitions)}
        if self._parts.membership is not None and found != self._subscribed:
            static = self._own_topics
            self._parts.membership.subscribe([each for each in found if found[each] or each in static])
            self._subscribed = found

    def _unforeseen(self, error: Exception) -> Rejected:
        """What a person has to see. Nothing was decided on what could not be read: the member keeps what it
        has, takes nothing, and looks again."""
        sentence = (
            f"the nodes of the group cannot be read ({type(error).__name__}: {str(error)[:_SHOWN]}): this "
            "member keeps what it owns, takes nothing and tries again; look at the nodes below /consumers"
        )
        if sentence != self._said:
            _LOG.error("%s: %s", self._member.consumer_id, sentence, exc_info=error)
        self._said = sentence
        return Rejected(sentence)

    # -- Kafka -----------------------------------------------------------------------------------

    def adopt(self, assignment: frozenset[TopicPartition] | None) -> None:
        """A generation begins (or ends: None); who is in the group is asked anew."""
        self.assignment, self._clients = assignment, None
        self.generation += 1

    def evict(self) -> None:
        """The group has gone on without this member."""
        self.adopt(None)
        self.evicted = True

    def forgive(self) -> bool:
        """What was held when the membership was lost is given up; True when there is a new one already."""
        again, self.evicted = self.evicted and self.assignment is not None, False
        return again

    def learn_clients(self, acting: Mode | None) -> None:
        """Know who is in the Kafka group before a toggle needs it; they change with the generation only."""
        membership, needed = self._parts.membership, self._clients is None and self.assignment is not None
        if membership is None or not needed or acting is not Mode.KAFKA:
            self._agenda.cancel("clients")  # a due timer that nobody asks for would keep the loop awake
            return
        if self._agenda.every("clients", _CLIENTS_EVERY_S):
            try:
                self._clients = membership.clients(_CLIENTS_S)
            except Transient as error:
                _LOG.info("%s: %s", self._member.consumer_id, error)

    # -- deciding --------------------------------------------------------------------------------

    def decide(self, acting: Mode | None, held: Mapping[TopicPartition, str]) -> Decision:
        """What to do, on what is known now; lists the Kafka group when the decision depends on it."""
        decision = self._decide(acting, held)
        if decision.ask_clients and self._parts.membership is not None:
            self._clients = self._parts.membership.clients(_CLIENTS_S)
            decision = self._decide(acting, held)
        return decision

    def _decide(self, acting: Mode | None, held: Mapping[TopicPartition, str]) -> Decision:
        """Nothing is done yet: what breaks the decision is something of the view."""
        try:
            return decide(self._situation(acting, held))
        except GroupshiftError:
            self._stale = True
            raise
        except Exception as error:
            self._stale = True
            raise self._unforeseen(error) from error

    def _situation(self, acting: Mode | None, held: Mapping[TopicPartition, str]) -> Situation:
        assert self.view is not None  # noqa: S101 (observed before)
        return Situation(
            member=self._member,
            view=self.view,
            acting=acting,
            held=held,
            kafka_assignment=None if self.evicted else self.assignment,
            kafka_clients=self._clients,
        )
