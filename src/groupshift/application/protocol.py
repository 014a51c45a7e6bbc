"""Protocol moves without acting: is a group ready, and has it settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupshift.domain.group_protocol import Kind, Protocol, ProtocolView, Way
from groupshift.domain.hazards import Met, Role
from groupshift.domain.judgement import Judgement
from groupshift.domain.protocol import preflight
from groupshift.domain.protocol.answers import Answer
from groupshift.domain.protocol.facts import ProtocolFacts
from groupshift.domain.protocol.forecast import forecast
from groupshift.domain.protocol.known_bugs import known_bugs
from groupshift.domain.protocol.settled import Wanted, settled
from groupshift.domain.verdict import Verdict
from groupshift.errors import Transient
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import GroupSnapshots, ProtocolViews

_PAUSE_S = 0.2
_MOVABLE = frozenset({Kind.CLASSIC, Kind.CONSUMER})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRequest:
    """Which group is to speak which protocol, how its members change, and versions that people named."""

    group: str
    to: Protocol
    way: Way = Way.ONLINE
    versions: Mapping[Role, tuple[Met, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolAssessment:
    """The group and its brokers as read, the answers that the move will meet, and every finding: P of the
    preflight's rules, H of the hazard book."""

    view: ProtocolView
    answers: tuple[Answer, ...]
    judgement: Judgement

    @property
    def ready(self) -> bool:
        """True when no rule failed and every rule could be measured (inconclusive is a warning)."""
        return self.judgement.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """The last look, how many there were, and what the rules say of it."""

    view: ProtocolView
    looks: int
    judgement: Judgement


def assess_protocol(
    views: ProtocolViews, snapshots: GroupSnapshots, asked: ProtocolRequest
) -> ProtocolAssessment:
    """Look at the group, at every broker and at the group's offsets; nothing is changed.

    Raises as `ProtocolViews.look` and `GroupSnapshots.take`."""
    view = views.look(asked.group)
    known = view.group.kind in _MOVABLE
    facts = ProtocolFacts(
        view=view,
        to=asked.to,
        way=asked.way,
        versions=asked.versions,
        state=snapshots.take([asked.group]) if known else None,
    )
    findings = preflight.ask(facts)
    if not preflight.movable(findings):
        return ProtocolAssessment(view=view, answers=(), judgement=Judgement(findings=findings))
    return ProtocolAssessment(
        view=view,
        answers=forecast(asked.to, asked.way, view.group, view.settings),
        judgement=Judgement(findings=(*findings, *known_bugs(facts))),
    )


def await_settled(
    views: ProtocolViews, clock: Clock, group: str, wanted: Wanted, *, within_s: float = 0.0
) -> Settling:
    """Look until nothing is left to wait for, or until ``within_s`` has passed; at least once.

    A broker that does not answer is waited for as well; at the deadline `Transient` is raised."""
    deadline, looks = clock.now_ms() + within_s * 1000, 0
    while True:
        looks += 1
        late = clock.now_ms() >= deadline
        try:
            view = views.look(group)
        except Transient:
            if late:
                raise
        else:
            judged = Judgement(findings=settled(view, wanted))
            if late or judged.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}:
                return Settling(view=view, looks=looks, judgement=judged)
        clock.sleep(_PAUSE_S)
