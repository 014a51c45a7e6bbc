"""What assess says of a group that is to change its protocol: preflight, hazard book, and its places."""

from __future__ import annotations

from groupshift.domain import group_rules as rules
from groupshift.domain.facts import Facts
from groupshift.domain.group_protocol import Aim, Protocol
from groupshift.domain.hazards import broker_versions, client_versions
from groupshift.domain.plan import MoveRequest
from groupshift.domain.protocol import preflight
from groupshift.domain.protocol.known_bugs import known_bugs
from groupshift.domain.protocol.preflight import ProtocolFacts
from groupshift.domain.verdict import Finding

LIVE = ("PR02", "C11", "C18", "PR09", "PR10", "PR11", "C29")
"""What is asked of the group and its places beside the preflight."""
HEALS = ("P02", "P06", "P13", "PR02", "C11", "C18", "PR09")
"""Rules that only need time: brokers that disagree or load, members that are joining or being replaced."""


def aim(request: MoveRequest) -> Aim:
    """What the request leads to."""
    return Aim(to=request.to or Protocol.CONSUMER, way=request.way)


def findings(request: MoveRequest, facts: Facts) -> tuple[Finding, ...]:
    """P of the preflight, H of the hazard book, and the live rules; passed ones included.

    Of a group that no broker knows, or that is none of consumers, only the rules that say so speak. Raises
    `Rejected` for a version that cannot be read."""
    view = facts.view.protocol
    if view is None:
        return rules.ask(LIVE, facts)
    wanted = aim(request)
    asked = ProtocolFacts(
        view=view,
        to=wanted.to,
        way=wanted.way,
        versions={**client_versions(request.clients), **broker_versions(request.brokers)},
        state=facts.view.snapshot,
    )
    first = preflight.ask(asked)
    if not preflight.movable(first):
        return first
    live = rules.ask(LIVE if not view.group.empty else ("PR02", "C29"), facts)
    return (*first, *live, *known_bugs(asked))
