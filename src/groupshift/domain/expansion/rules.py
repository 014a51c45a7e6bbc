"""The numbered rules of an expansion and of an audit of placement: each passes, or says what is wrong.

Source: specs/group-coordinator.md §3.1, §3.3, §3.4 steps 1 to 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Flag, auto

from groupshift.domain.expansion import rules_brokers as brokers
from groupshift.domain.expansion import rules_groups as groups
from groupshift.domain.expansion.facts import PlacementFacts
from groupshift.domain.facts import Complaint
from groupshift.domain.verdict import Finding, Verdict


class Use(Flag):
    """Who asks."""

    AUDIT = auto()
    PLAN = auto()


BOTH = Use.AUDIT | Use.PLAN


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRule:
    """One rule: ``holds`` is the sentence of its passed finding."""

    number: str
    use: Use
    holds: str
    look: Callable[[PlacementFacts], Iterator[Complaint]]

    def ask(self, facts: PlacementFacts) -> tuple[Finding, ...]:
        """What is wrong, or one passed finding."""
        found = tuple(
            Finding(rule=self.number, verdict=verdict, reason=reason, hint=hint)
            for verdict, reason, hint in self.look(facts)
        )
        return found or (Finding(rule=self.number, verdict=Verdict.PASS, reason=self.holds),)


RULES = tuple(
    PlacementRule(number=number, use=use, holds=holds, look=look)
    for number, use, holds, look in (
        ("X01", BOTH, "the offsets topic is there, with one count in every broker's metadata", brokers.there),
        ("X02", BOTH, "every partition has a leader and all its replicas in sync", brokers.replicated),
        ("X03", BOTH, "every broker tells its groups and its configuration", brokers.complete),
        ("X04", BOTH, "all brokers count as many partitions as the topic has", brokers.counting),
        ("X05", BOTH, "every group is served by one broker", groups.one_owner),
        ("X06", BOTH, "no group is listed twice", groups.listed_once),
        ("X07", BOTH, "every live record lies in its group's partition", groups.at_home),
        ("X08", BOTH, "every broker is configured with the count of the topic", brokers.configured_alike),
        ("X09", Use.PLAN, "all brokers run one kind of group coordinator", brokers.one_kind),
        ("X10", Use.PLAN, "the cluster has a controller", brokers.controlled),
        ("X11", BOTH, "no open transaction writes offsets", groups.no_transactions),
        ("X12", Use.PLAN, "the count that is wanted is a multiple of the count now", brokers.multiple),
        ("X13", Use.PLAN, "no group has members", groups.empty),
        ("X14", Use.PLAN, "what moving groups keep can be committed again", groups.restorable),
        ("X15", Use.PLAN, "the log has exactly the groups that brokers list", groups.logged),
    )
)
"""Every rule, in the order in which they are asked."""


def ask(facts: PlacementFacts, use: Use) -> tuple[Finding, ...]:
    """What the rules of this use say, passed ones included."""
    return tuple(finding for rule in RULES if use in rule.use for finding in rule.ask(facts))
