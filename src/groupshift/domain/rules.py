"""The numbered rules of the moves: each looks at `Facts` and says pass or what is wrong, and what to do.

Source: docs/reference/zookeeper-coordination.md §5, §8.9 (D11, D13, O8), §8.10 (F6, F7), §8.11 (N3), §9.
Which rules are asked when is data: `groupshift.domain.rulebook`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from groupshift.domain import rules_group as group
from groupshift.domain import rules_members as members
from groupshift.domain import rules_offsets as offsets
from groupshift.domain import rules_storage as storage
from groupshift.domain.facts import Complaint, Facts
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.protocol import rules_move as protocol
from groupshift.domain.verdict import Finding, Verdict


def _never(_facts: Facts) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. ``holds`` is the sentence of the passed finding; ``look`` yields what is wrong, or a
    passed sentence of its own; where ``moot`` is true nothing that it looks at is there."""

    number: str
    holds: str
    look: Callable[[Facts], Iterator[Complaint]]
    moot: Callable[[Facts], bool] = _never

    def ask(self, facts: Facts) -> tuple[Finding, ...]:
        """The complaints as findings, or one passed finding."""
        found = tuple(
            Finding(rule=self.number, verdict=verdict, reason=reason, hint=hint)
            for verdict, reason, hint in self.look(facts)
        )
        if found:
            return found
        asked = not self.moot(facts)
        return (Finding(rule=self.number, verdict=Verdict.PASS, reason=self.holds, asked=asked),)


_ALL = (
    ("C01", "the group exists", group.group_exists),
    ("C02", "the group has members in ZooKeeper", group.has_members),
    ("C03", "every node of the group was understood", group.understood),
    ("C04", "no plain Kafka member stands in the way", group.plain_members_allowed),
    ("C05", "every partition has an offset in ZooKeeper", offsets.znode_offsets_complete),
    ("C06", "no mode node is left over from an earlier migration", group.no_left_over_mode),
    ("C07", "the mode node is well formed or absent", group.mode_well_formed),
    ("C08", "every migration-aware member honours the fence", members.fenced),
    ("C09", "all members subscribe to the same topics", members.same_subscriptions),
    ("C10", "the Kafka group's assignor is one that all members offer", members.known_assignor),
    ("C11", "every partition is owned exactly once by a live member", group.owned_once),
    ("C12", "every partition has an offset in Kafka, not behind ZooKeeper's", offsets.kafka_offsets_complete),
    ("C13", "every member in ZooKeeper is migration-aware", members.all_aware),
    ("C14", "the Kafka group is Stable", members.kafka_stable),
    ("C15", "the Kafka group's client ids and the migration ids are the same set", members.client_ids_match),
    ("C16", "the group has no plain Kafka member", members.no_plain_members),
    ("C17", "the wanted mode is in effect and every aware member acts on it", group.mode_in_effect),
    ("C18", "every place of the fleet runs a member that the group knows", members.places_filled),
    ("C19", "every member owns its even share", members.even_share),
    ("C20", "committed offsets lie within the logs", offsets.offsets_in_log),
    ("C21", "no member is left in ZooKeeper and the Kafka group has members", members.retired),
    ("C22", "the group is in kafka mode", group.in_kafka_mode),
    ("C23", "the group is in zookeeper mode", group.in_zookeeper_mode),
    ("C24", "no old member is seen to commit to Kafka", storage.old_commit_to_zookeeper),
    ("C25", "the owner nodes follow Kafka's assignment, or there is nothing to own", storage.one_assignor),
    ("C26", "offsets in Kafka are complete, or not due yet", offsets.kafka_offsets_begun),
    ("C27", "every migration-aware member is in ZooKeeper and in Kafka", members.whole_awareness),
    ("C29", "every committed offset is of a partition that a member reads", offsets.offsets_nobody_reads),
    ("C28", "every migration-aware member honours the fence", members.fenced_for_its_mode),
)


def _without(kind: MemberKind) -> Callable[[Facts], bool]:
    return lambda facts: not facts.view.of_kind(kind)


_MOOT: Mapping[str, Callable[[Facts], bool]] = {
    "C06": _without(MemberKind.OLD),
    "C08": _without(MemberKind.AWARE),
    "C17": lambda facts: facts.wanted is None,
    "C18": lambda facts: not facts.places,
    "C24": _without(MemberKind.OLD),
    "C25": lambda facts: facts.view.effective_mode is Mode.KAFKA or not facts.view.partitions,
    "C26": lambda facts: not facts.view.migration_ids,
    "C27": _without(MemberKind.AWARE),
    "C28": _without(MemberKind.AWARE),
}
"""When a rule could not fail: nothing that it looks at is there, or nothing is wanted yet."""

RULES = {
    number: Rule(number=number, holds=holds, look=look, moot=_MOOT.get(number, _never))
    for number, holds, look in (*_ALL, *protocol.RULES)
}
"""Every rule by number: C of the move ``coordination``, PR of the move ``protocol``; a few serve both."""


def ask(numbers: tuple[str, ...], facts: Facts) -> tuple[Finding, ...]:
    """What the rules of these numbers say, passed ones included.

    Of a group that does not exist only C01 (PR01, where it is asked) speaks: nothing else can be said about
    it."""
    if not facts.view.exists and (facts.view.protocol is None or "PR01" in numbers):
        return RULES["C01" if facts.view.protocol is None else "PR01"].ask(facts)
    return tuple(finding for number in numbers for finding in RULES[number].ask(facts))
