"""The numbered rules of a downgrade's preflight: each passes, or says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from groupshift.domain.downgrade import rules_cluster as cluster
from groupshift.domain.downgrade import rules_groups as groups
from groupshift.domain.downgrade.facts import DowngradeFacts
from groupshift.domain.downgrade.known_bugs import bugs
from groupshift.domain.facts import Complaint
from groupshift.domain.verdict import Finding, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeRule:
    """One rule: ``holds`` is the sentence of its passed finding."""

    number: str
    holds: str
    look: Callable[[DowngradeFacts], Iterator[Complaint]]

    def ask(self, facts: DowngradeFacts) -> tuple[Finding, ...]:
        """What is wrong, or one passed finding."""
        found = tuple(
            Finding(rule=self.number, verdict=verdict, reason=reason, hint=hint)
            for verdict, reason, hint in self.look(facts)
        )
        return found or (Finding(rule=self.number, verdict=Verdict.PASS, reason=self.holds),)


RULES = tuple(
    DowngradeRule(number=number, holds=holds, look=look)
    for number, holds, look in (
        (
            "W01",
            "what every broker runs is known, and the target is a release that was looked at",
            cluster.known,
        ),
        ("W02", "all brokers are of one line of releases and run one kind of coordinator", cluster.alike),
        ("W03", "the target is older than what runs", cluster.older),
        ("W04", "the cluster has a controller", cluster.controlled),
        ("W05", "every broker tells its groups and its configuration", cluster.complete),
        ("W06", "the target has every type of group that is there", groups.newer),
        ("W07", "no group of type consumer is left, or the target serves them", groups.consumers),
        ("W08", "every group is of one type and at one broker", groups.one_type),
        ("W09", "no group is of something else than consumers", groups.others),
        ("W10", "no group has a configuration that the target does not know", cluster.group_configs),
        ("W11", "no feature is finalised above what the target reads", cluster.features),
        ("W12", "no level of metadata.version between changed the metadata log", cluster.metadata),
        ("W13", "the metadata log holds no feature that the target does not know", cluster.snapshot),
        ("W14", "the brokers' files hold nothing that the target does not know", cluster.properties),
        ("W15", "the log has exactly the groups that the brokers list", groups.logged),
        ("W16", "the target's coordinator loads every group from this log", groups.replayed),
        ("W17", "the offsets topic needs no compaction for the target", cluster.compaction),
        ("W18", "where only brokers are replaced, controllers are nodes of their own", cluster.apart),
    )
)
"""Every rule, in the order in which they are asked."""


def ask(facts: DowngradeFacts) -> tuple[Finding, ...]:
    """What the rules say, passed ones included, and what the hazard book has against this way (H…)."""
    return (*(finding for rule in RULES for finding in rule.ask(facts)), *bugs(facts))
