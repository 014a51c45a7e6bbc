"""What the hazard book says of one expansion, of the brokers that are met."""

from __future__ import annotations

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.expansion.facts import PlacementFacts
from groupshift.domain.hazards import Facts, Met, Role, Trait, look
from groupshift.domain.verdict import Finding

_MEMBERS = frozenset({Role.LIBRDKAFKA, Role.KAFKA_CLIENTS, Role.MIRROR_MAKER})
_CURED = frozenset({"H34", "H35", "H38", "H39", "H43"})
"""Those whose remedy is what a run does: it stops groups, deletes those that move, large ones in parts, waits
for the tombstones and restarts every broker; and commits of former topics (H43), which a rule names."""


def bugs(facts: PlacementFacts) -> tuple[Finding, ...]:
    """Findings of the hazards that are met or may be, but for those that the run itself keeps off, and those
    of members, which are stopped. Never raises."""
    brokers = tuple(
        Met(where=f"broker {each.node_id}", version=each.line) for each in facts.view.cluster.brokers
    )
    traits = {
        Trait.KRAFT: facts.view.cluster.kraft,
        Trait.OLD_COORDINATOR: facts.view.old,
        Trait.NEW_COORDINATOR: not facts.view.old,
    }
    judged = look(Comparison.EXPANSION, Facts(versions={Role.BROKER: brokers}, traits=traits))
    return tuple(
        each.finding
        for each in judged
        if each.finding.hint
        and each.hazard.number not in _CURED
        and not _MEMBERS & each.hazard.affected.keys()
    )
