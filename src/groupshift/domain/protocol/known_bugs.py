"""The hazard book asked about one group: which versions and conditions a look tells, and what it says.

A broker tells its line of releases only, by the newest metadata.version that it supports; what members run it
does not tell at all. What people say of either comes first.
"""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.group_protocol import Policy, Protocol, Way
from groupshift.domain.hazards import Facts, Met, Role, Trait, hazards_of
from groupshift.domain.protocol.preflight import ProtocolFacts
from groupshift.domain.verdict import Finding
from groupshift.domain.versions import line_of

_MOVES = {Protocol.CONSUMER: Comparison.PROTOCOL, Protocol.CLASSIC: Comparison.PROTOCOL_BACK}


def known_bugs(facts: ProtocolFacts) -> tuple[Finding, ...]:
    """What the book says of every hazard of this move, those that are not met included."""
    return hazards_of(_MOVES[facts.to], hazard_facts(facts))


def hazard_facts(facts: ProtocolFacts) -> Facts:
    """What is known of versions and conditions; the rest is asked for."""
    told = tuple(
        Met(where=f"broker {each.node_id}", version=line_of(each.settings.metadata))
        for each in facts.view.brokers
    )
    return Facts(versions={Role.BROKER: told, **facts.versions}, traits=_traits(facts))


def _traits(facts: ProtocolFacts) -> Mapping[Trait, bool]:
    group, settings = facts.group, facts.view.settings
    known = {Trait.ONLINE: facts.way is Way.ONLINE and not group.empty}
    if not settings.untold:
        native = "consumer" in settings.protocols
        known |= {Trait.NEW_COORDINATOR: native, Trait.OLD_COORDINATOR: not native}
    if settings.policy is not None:
        known[Trait.POLICY_DISABLED] = settings.policy is Policy.DISABLED
    if not group.empty:
        known |= {
            Trait.STATIC_MEMBERS: any(member.instance_id for member in group.members),
            Trait.COOPERATIVE_STICKY: group.protocol == "cooperative-sticky",
            Trait.ASSIGNMENT_DATA: any(member.user_data for member in group.members),
        }
    if facts.state is not None:
        known[Trait.COMMIT_METADATA] = any((row.metadata or "").rstrip("\0") for row in facts.state.offsets)
    return known
