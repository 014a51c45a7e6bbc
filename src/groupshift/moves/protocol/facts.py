"""What is asked for, and what is looked at: one group as Kafka's brokers know it, with its fleet.

Which group, which protocol, and how: online or offline, with which driver, how many members first. Versions
of members are nowhere to be read, and of brokers only the line: people say them (``client``, ``broker``), and
the hazards are asked with both.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.group_protocol import Aim, Protocol, Way
from groupshift.domain.hazards import broker_versions, client_versions
from groupshift.domain.plan import MAX_GROUP, MAX_SOAK_S
from groupshift.domain.requests import option
from groupshift.engine.group import GroupPorts, LiveGroup, facts_of
from groupshift.errors import Rejected
from groupshift.ports.cluster import findings as identities
from groupshift.ports.group import BrokerSide


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRequest:
    """Which group is to speak which protocol, and how its members change."""

    group: str = option("Consumer group that moves.", pattern=f".{{1,{MAX_GROUP}}}")
    to: Protocol = option("Protocol that its members are to speak.")
    offline: bool = option(
        "Stop all members before the first of the new kind starts, instead of one after the other.",
        default=False,
    )
    driver: str = option("Who replaces members (empty: the driver of the settings).", default="")
    canary: int = option("How many members are replaced first.", default=1, minimum=1)
    canary_only: bool = option("Replace the canary and nobody else.", default=False)
    soak: int = option(
        "Seconds that the group is judged after the last act.", default=60, minimum=0, maximum=MAX_SOAK_S
    )
    client: tuple[str, ...] = option("What members run, such as librdkafka=2.16.1.", default=())
    broker: tuple[str, ...] = option("What brokers run, where they do not tell it.", default=())

    def __post_init__(self) -> None:
        """Raise `Rejected` for values that do not fit each other, and for versions that cannot be read."""
        client_versions(self.client)
        broker_versions(self.broker)
        problems = []
        if not 0 < len(self.group) <= MAX_GROUP:
            problems.append(
                f"group {self.group!r} has {len(self.group)} characters: name one of 1 to {MAX_GROUP}"
            )
        if self.offline and self.driver == "kubernetes":
            problems.append(
                "driver kubernetes keeps no place empty: move online, or offline with driver manual"
            )
        if self.offline and self.canary_only:
            problems.append("canary_only does not fit offline: all members stop at once")
        if problems:
            raise Rejected(f"the request cannot be used: {'; '.join(problems)}; correct it and run again")

    @property
    def aim(self) -> Aim:
        """What it leads to."""
        return Aim(to=self.to, way=Way.OFFLINE if self.offline else Way.ONLINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolPorts(GroupPorts):
    """What a run works with: a group as Kafka's brokers alone know it."""

    side: BrokerSide


def look(ports: ProtocolPorts, request: ProtocolRequest) -> LiveGroup:
    """Read the group, its brokers and its fleet, and ask what the own login may do. Raises as the ports."""
    driver = request.driver or ports.terms.driver
    facts = facts_of(ports.side, request.group, driver, request.aim)
    return LiveGroup(
        facts=facts,
        driver=driver,
        identities=identities(ports.side.access.prove(facts.view)),
        terms=ports.terms,
    )
