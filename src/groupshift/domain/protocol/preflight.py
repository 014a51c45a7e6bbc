"""The numbered rules of a protocol move's preflight: each passes, or says what is wrong and what to do.

What brokers and clients are known to do wrong is the hazard book's: `known_bugs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from groupshift.domain.facts import Complaint
from groupshift.domain.protocol import rules_brokers as brokers
from groupshift.domain.protocol import rules_group as group
from groupshift.domain.protocol import rules_members as members
from groupshift.domain.protocol.facts import ProtocolFacts
from groupshift.domain.verdict import Finding, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRule:
    """One rule: ``holds`` is the sentence of its passed finding."""

    number: str
    holds: str
    look: Callable[[ProtocolFacts], Iterator[Complaint]]

    def ask(self, facts: ProtocolFacts) -> tuple[Finding, ...]:
        """What is wrong, or one passed finding."""
        found = tuple(
            Finding(rule=self.number, verdict=verdict, reason=reason, hint=hint)
            for verdict, reason, hint in self.look(facts)
        )
        return found or (Finding(rule=self.number, verdict=Verdict.PASS, reason=self.holds),)


RULES = tuple(
    ProtocolRule(number=number, holds=holds, look=look)
    for number, holds, look in (
        ("P01", "the group exists", group.exists),
        ("P02", "it is a group of consumers", group.movable),
        ("P03", "the group is to become what it is not yet", group.something_to_do),
        ("P04", "every broker tells its settings", brokers.told),
        ("P05", "all brokers have the same settings for groups", brokers.alike),
        ("P06", "all brokers agree on the group's coordinator, and none is loading", brokers.one_coordinator),
        ("P07", "every broker serves native members, or none is to come", brokers.served),
        ("P08", "the coordinator's answers lead to the wanted type", brokers.predicted),
        ("P09", "the way back is as open as the way there", brokers.back),
        ("P10", "no rebalance goes on", group.at_rest),
        ("P11", "the assignor stays as it is, or nobody is assigned anything", group.assignor),
        ("P12", "the chosen way fits the group", group.way_fits),
        ("P13", "every partition with records has a committed offset within its log", group.offsets_complete),
        ("P14", "members can be replaced while others consume", group.alone),
        ("P15", "no offset can expire on the way", group.old_offsets),
        ("P16", "nobody is static", members.static),
        ("P17", "what members say about themselves can be read", members.readable),
        ("P18", "the coordinator tells which protocol each member speaks", members.told_apart),
        ("P19", "sessions stay as they are", members.sessions),
        ("P20", "partitions change hands at once", members.handed_over),
    )
)
"""Every rule, in the order in which they are asked."""

_FIRST = ("P01", "P02")


def ask(facts: ProtocolFacts) -> tuple[Finding, ...]:
    """What the rules say, passed ones included; of what is no group of consumers only the first two speak."""
    found: list[Finding] = []
    for rule in RULES:
        found += rule.ask(facts)
        if not movable(found):
            break
    return tuple(found)


def movable(findings: Iterable[Finding]) -> bool:
    """Whether the first two rules leave anything to be said."""
    return all(each.verdict is Verdict.PASS for each in findings if each.rule in _FIRST)
