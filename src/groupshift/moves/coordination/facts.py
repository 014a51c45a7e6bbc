"""What is asked for, and what is looked at.

A look reads the group as ZooKeeper and Kafka know it, with its fleet, and asks what the own login may not do.
Where old members may commit to Kafka it looks a second time, up to one commit interval later: one look cannot
tell a commit of now from one that was made last year (C24). A glance is what an approval is compared with
before each act: it looks once, and asks for no rights.

Source: docs/reference/zookeeper-coordination.md §9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from groupshift.domain.facts import Facts
from groupshift.domain.modes import Mode
from groupshift.domain.old_members import commits_to_kafka, held_by_old, worth_a_second_look
from groupshift.domain.plan import MAX_GROUP, MAX_SOAK_S, Until
from groupshift.domain.requests import option
from groupshift.engine import group
from groupshift.engine.group import GroupPorts, facts_of
from groupshift.errors import Rejected
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import findings as identities
from groupshift.ports.group import CanaryTerms, ZookeeperSide

NAME_OF_GROUP = re.compile(rf"(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,{MAX_GROUP}}}")
"""What the ids of groups of the old consumer look like: it takes no other, and they are znodes."""
MAX_WATCH_S = 3600
KAFKA_MODE_FROM = frozenset({Until.TOGGLE, Until.RETIRE})
"""How far a run goes that leads to kafka mode."""
_LOOK_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinationRequest:
    """Which group moves, how far, and how its canary is chosen and watched."""

    group: str = option("Consumer group that moves.", pattern=f"[A-Za-z0-9._-]{{1,{MAX_GROUP}}}")
    until: Until = option("The last act.", default=Until.TOGGLE)
    driver: str = option("Who replaces members (empty: the driver of the settings).", default="")
    canary: int = option("How many members are replaced first.", default=1, minimum=1)
    canary_share: float = option(
        "Instead: the fewest members that hold this share of the partitions, such as 0.25.",
        default=0.0,
        minimum=0,
        maximum=1,
    )
    canary_watch: int = option(
        "Seconds that the canary is compared with the old members; 0: it is not.",
        default=60,
        minimum=0,
        maximum=MAX_WATCH_S,
    )
    soak: int = option(
        "Seconds that the group is judged after the last act.", default=60, minimum=0, maximum=MAX_SOAK_S
    )

    def __post_init__(self) -> None:
        """Raise `Rejected` for values that do not fit each other."""
        problems = []
        if not NAME_OF_GROUP.fullmatch(self.group):
            problems.append(
                f"group {self.group!r} is no group id of the old consumer, which takes 1 to {MAX_GROUP} "
                "letters, digits, '.', '_' and '-'; move a Kafka group with: groupshift protocol run"
            )
        if self.canary_share and self.canary != 1:
            problems.append(
                f"canary {self.canary} and canary_share {self.canary_share} are both given: choose one"
            )
        if problems:
            raise Rejected(f"the request cannot be used: {'; '.join(problems)}; correct it and run again")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinationPorts(GroupPorts):
    """What a run works with: a group as ZooKeeper and Kafka know it, with its mode node; ``canary`` are the
    numbers that decide when a canary is judged."""

    side: ZookeeperSide
    clock: Clock
    canary: CanaryTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGroup(group.LiveGroup):
    """A group that ZooKeeper knows, with the numbers that decide when its canary is judged."""

    canary: CanaryTerms


def glance(ports: CoordinationPorts, request: CoordinationRequest, begun: Collection[str] = ()) -> LiveGroup:
    """Read the group and its fleet once, whatever has ``begun``. Raises as the ports."""
    del begun
    driver = request.driver or ports.terms.driver
    wanted = Mode.KAFKA if request.until in KAFKA_MODE_FROM else Mode.ZOOKEEPER
    facts = facts_of(ports.side, request.group, driver, wanted)
    return LiveGroup(facts=facts, driver=driver, terms=ports.terms, canary=ports.canary)


def look(ports: CoordinationPorts, request: CoordinationRequest) -> LiveGroup:
    """Read the group and its fleet, and ask what the own login may do; where there is reason to ask whether
    old members commit to Kafka (C24) a second time, up to one commit interval later. Raises as the ports."""
    live = glance(ports, request)
    latest = looked_twice(ports, live.facts, lambda: glance(ports, request).facts)
    return replace(live, facts=latest, identities=identities(ports.side.access.prove(latest.view)))


def looked_twice(ports: CoordinationPorts, first: Facts, again: Callable[[], Facts]) -> Facts:
    """Return the facts of a second look, up to one commit interval later, where there is reason to ask
    whether old members commit to Kafka (C24); else those of the first one."""
    then = held_by_old(first.view)
    if not worth_a_second_look(then):
        return first
    deadline = ports.clock.now_ms() + ports.terms.commit_interval_ms
    while True:
        ports.clock.sleep(_LOOK_AGAIN_S)
        latest = replace(again(), earlier=then)
        now = held_by_old(latest.view)
        certain = commits_to_kafka(then, now) or not worth_a_second_look(now)
        if certain or ports.clock.now_ms() >= deadline:
            return latest
