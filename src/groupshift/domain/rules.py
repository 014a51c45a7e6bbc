"""The numbered rules of the move: each looks at `Facts` and says pass or what is wrong, and what to do.

Source: specs/zookeeper-coordination.md §8.9 (D11, D13, O8), §8.10 (F6, F7), §8.11 (N3), §9.
Which rules are asked when is data: `groupshift.domain.rulebook`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from groupshift.domain.coordination import MemberKind, Mode
from groupshift.domain.facts import Facts, OffsetTable, sentence_list
from groupshift.domain.group import GroupView, Member
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Finding, Verdict

KC_ASSIGNORS = ("", "range", "roundrobin")
"""Kafka assignors that an aware member offers (L7); empty: nobody joined yet."""

Complaint = tuple[Verdict, str, str]
"""Verdict, reason, hint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. ``holds`` is the sentence of the passed finding; ``look`` yields what is wrong."""

    number: str
    holds: str
    look: Callable[[Facts], Iterator[Complaint]]

    def ask(self, facts: Facts) -> tuple[Finding, ...]:
        """The complaints as findings, or one passed finding."""
        found = tuple(
            Finding(rule=self.number, verdict=verdict, reason=reason, hint=hint)
            for verdict, reason, hint in self.look(facts)
        )
        return found or (Finding(rule=self.number, verdict=Verdict.PASS, reason=self.holds),)


def _group_exists(facts: Facts) -> Iterator[Complaint]:
    if not facts.view.exists:
        yield (
            Verdict.FAIL,
            f"group {facts.view.group} is known neither to ZooKeeper nor to Kafka",
            "check the name and the chroot of the ZooKeeper connection",
        )


def _has_members(facts: Facts) -> Iterator[Complaint]:
    view = facts.view
    if view.exists and not view.ids:
        plain = len(view.of_kind(MemberKind.PLAIN))
        met = f"only {plain} plain Kafka members" if plain else "no members"
        yield (
            Verdict.FAIL,
            f"group {view.group} has {met}: nothing is coordinated through ZooKeeper",
            "start its consumers, or choose a group that is consumed through ZooKeeper",
        )


def _understood(facts: Facts) -> Iterator[Complaint]:
    for problem in facts.view.problems:
        yield Verdict.FAIL, problem, "repair or remove that node, then assess again"


def _plain_members_allowed(facts: Facts) -> Iterator[Complaint]:
    view = facts.view
    plain = [member.member_id for member in view.of_kind(MemberKind.PLAIN)]
    if plain and view.ids and (view.of_kind(MemberKind.OLD) or view.mode.requested is not Mode.KAFKA):
        yield (
            Verdict.FAIL,
            f"plain Kafka members {sentence_list(plain)} are in group {view.group}: "
            "they follow Kafka only, so every partition they hold would be consumed twice (D11)",
            "stop the plain Kafka consumers; they may join only in kafka mode",
        )


def _missing(view: GroupView, offsets: OffsetTable) -> Iterator[tuple[Verdict, list[str]]]:
    """Partitions without a committed offset: a failure where there are records, else a warning."""
    absent = [end for end in view.log_ends if end.partition not in offsets.by_partition]
    for verdict, found in (
        (Verdict.FAIL, sorted(end.partition for end in absent if end.end > end.start)),
        (Verdict.INCONCLUSIVE, sorted(end.partition for end in absent if end.end <= end.start)),
    ):
        if found:
            yield verdict, [str(partition) for partition in found]


def _znode_offsets_complete(facts: Facts) -> Iterator[Complaint]:
    for verdict, names in _missing(facts.view, OffsetTable.of(facts.view.zookeeper_offsets)):
        yield (
            verdict,
            f"no offset in ZooKeeper for {sentence_list(names)}: an old consumer would start there at its "
            "reset position and lose or repeat records (N3)",
            "let the group commit once to ZooKeeper, then assess again",
        )


def _no_left_over_mode(facts: Facts) -> Iterator[Complaint]:
    view = facts.view
    if view.of_kind(MemberKind.OLD) and view.mode.requested is Mode.KAFKA:
        yield (
            Verdict.FAIL,
            f"the mode node of group {view.group} holds kafka while old members are in the group: "
            "the group would jump to kafka mode the moment the last old member leaves (D13)",
            "set the mode node to zookeeper or delete it",
        )


def _mode_well_formed(facts: Facts) -> Iterator[Complaint]:
    mode = facts.view.mode
    if mode.malformed:
        yield (
            Verdict.FAIL,
            f"the mode node of group {facts.view.group} holds {mode.data!r}, "
            "which is neither kafka nor zookeeper",
            "set it to zookeeper or delete it",
        )


def _fenced(facts: Facts) -> Iterator[Complaint]:
    bare = [m.member_id for m in facts.view.of_kind(MemberKind.AWARE) if not m.fence]
    if bare:
        yield (
            Verdict.FAIL,
            f"migration-aware members {sentence_list(bare)} publish no fence: "
            "they do not hold owner nodes while they consume (F6)",
            "replace them by groupshift's MigratingConsumer",
        )


def _zookeeper_members(view: GroupView) -> tuple[Member, ...]:
    return tuple(member for member in view.members if member.kind is not MemberKind.PLAIN)


def _same_subscriptions(facts: Facts) -> Iterator[Complaint]:
    topics = {
        (member.pattern, tuple(topic for topic, _ in member.subscription)) for member in facts.view.members
    }
    if len(topics) > 1:
        shown = sentence_list(sorted("+".join(names) or "nothing" for _, names in topics))
        yield (
            Verdict.INCONCLUSIVE,
            f"members subscribe differently ({shown}): in kafka mode shares change (L7)",
            "give all members the same topics, or accept it at the gate",
        )


def _known_assignor(facts: Facts) -> Iterator[Complaint]:
    protocol = facts.view.kafka.protocol
    if protocol not in KC_ASSIGNORS:
        yield (
            Verdict.FAIL,
            f"the Kafka group uses the assignor {protocol}, which migration-aware members do not offer (L7)",
            "use range or roundrobin in every Kafka member",
        )


def _owned_once(facts: Facts) -> Iterator[Complaint]:
    view = facts.view
    live = {member.member_id for member in view.members}
    owned = view.owners_of()
    if not owned and view.members:
        yield Verdict.ERROR, "the partitions of the group's topics could not be read", "try again"
    for title, found in (
        ("owned by nobody", [str(p) for p, names in owned.items() if not names]),
        ("owned more than once", [f"{p} ({', '.join(n)})" for p, n in owned.items() if len(n) > 1]),
        (
            "owned by someone who is no member",
            [f"{p} ({n})" for p, names in owned.items() for n in names if n not in live],
        ),
    ):
        if found:
            yield Verdict.FAIL, f"{title}: {sentence_list(sorted(found))}", "wait until the group has settled"


def _kafka_offsets_complete(facts: Facts) -> Iterator[Complaint]:
    view = facts.view
    kafka = OffsetTable.of(view.kafka_offsets)
    for verdict, names in _missing(view, kafka):
        yield (
            verdict,
            f"no offset in Kafka for {sentence_list(names)}: a Kafka consumer would apply its reset policy (O8)",
            "let the migration-aware members commit once",
        )
    behind = [
        f"{offset.partition} (Kafka {kafka.by_partition[offset.partition]}, ZooKeeper {offset.offset})"
        for offset in view.zookeeper_offsets
        if kafka.by_partition.get(offset.partition, offset.offset) < offset.offset
    ]
    if behind:
        yield (
            Verdict.FAIL,
            f"the offset in Kafka is behind ZooKeeper for {sentence_list(sorted(behind))} (O8)",
            "wait for the next commit of the members",
        )


def _all_aware(facts: Facts) -> Iterator[Complaint]:
    unaware = sorted(set(facts.view.ids) - set(facts.view.migration_ids))
    if unaware:
        yield (
            Verdict.FAIL,
            f"members {sentence_list(unaware)} are not migration-aware, so the mode stays zookeeper",
            "replace them first",
        )


def _kafka_stable(facts: Facts) -> Iterator[Complaint]:
    state = facts.view.kafka.state
    if state != "Stable":
        yield (
            Verdict.ERROR,
            f"the Kafka group is {state}, not Stable, so its members cannot be relied on",
            "wait until its rebalance is over",
        )


def _client_ids_match(facts: Facts) -> Iterator[Complaint]:
    clients = {member.client_id for member in facts.view.kafka.members}
    aware = set(facts.view.migration_ids)
    for names, words in (
        (sorted(aware - clients), "are migration-aware but not in the Kafka group"),
        (sorted(clients - aware), "are in the Kafka group but not migration-aware"),
    ):
        if names:
            yield Verdict.FAIL, f"members {sentence_list(names)} {words} (F7)", "wait until they have joined"


def _no_plain_members(facts: Facts) -> Iterator[Complaint]:
    plain = [member.member_id for member in facts.view.of_kind(MemberKind.PLAIN)]
    if plain:
        yield (
            Verdict.FAIL,
            f"plain Kafka members {sentence_list(plain)} forbid a toggle: "
            "outside kafka mode their partitions would be consumed twice (D11)",
            "replace them by migration-aware members first",
        )


def _mode_in_effect(facts: Facts) -> Iterator[Complaint]:
    view, wanted = facts.view, facts.wanted
    if wanted is None:
        return
    if view.effective_mode is not wanted:
        yield Verdict.FAIL, f"the effective mode is {view.effective_mode}, not {wanted}", "read the mode node"
    late = [
        member.member_id
        for member in view.of_kind(MemberKind.AWARE)
        if member.mode is not wanted
        or (view.mode.data is not None and member.acting_on != view.mode.identity)
    ]
    if late:
        yield (
            Verdict.FAIL,
            f"members {sentence_list(late)} do not act on mode {wanted} (write {view.mode.identity}) yet",
            "wait until they publish it",
        )


def _places_filled(facts: Facts) -> Iterator[Complaint]:
    kinds = {member.member_id: member.kind for member in facts.view.members}
    kinds |= {m.client_id: m.kind for m in facts.view.of_kind(MemberKind.PLAIN) if m.client_id}
    for place in facts.places:
        if not place.running:
            yield (
                Verdict.FAIL,
                f"place {place.name} of the fleet is not running its member {place.member_id or ''}".rstrip(),
                "restart it, or take it out of the fleet",
            )
        elif place.member_id is not None and kinds.get(place.member_id) is not place.kind:
            met = kinds.get(place.member_id)
            yield (
                Verdict.FAIL,
                f"place {place.name} runs {place.member_id} as {place.kind}, "
                f"but the group {'knows it as ' + met if met else 'does not know it'}",
                "look at that member's log",
            )


def _bounds(view: GroupView, member: Member, topic: str) -> tuple[int, int]:
    """Fewest and most partitions of a topic that an even assignor gives to this member's streams."""
    streams = {m.member_id: dict(m.subscription).get(topic, 0) for m in _zookeeper_members(view)}
    total = sum(streams.values())
    count = sum(1 for partition in view.partitions if partition.topic == topic)
    mine = streams[member.member_id]
    return (mine * (count // total), mine * -(-count // total)) if total else (0, 0)


def _even_share(facts: Facts) -> Iterator[Complaint]:
    view = facts.view
    owned = view.owners_of()
    for member in view.of_kind(MemberKind.AWARE):
        if member.pattern != "static":
            continue
        held = [partition for partition, names in owned.items() if member.member_id in names]
        low, high = (sum(each) for each in _share(view, member))
        if not low <= len(held) <= high:
            yield (
                Verdict.FAIL,
                f"canary {member.member_id} owns {len(held)} partitions, its even share is {low} to {high}",
                "compare its assignor and streams with the old members'",
            )


def _share(view: GroupView, member: Member) -> tuple[list[int], list[int]]:
    bounds = [_bounds(view, member, topic) for topic, _ in member.subscription]
    return [low for low, _ in bounds], [high for _, high in bounds]


def _retired(facts: Facts) -> Iterator[Complaint]:
    view = facts.view
    if view.ids:
        yield (
            Verdict.FAIL,
            f"members {sentence_list(sorted(view.ids))} are still registered in ZooKeeper and need the mode node",
            "retire them first; an absent mode node means ZooKeeper",
        )
    if not view.kafka.members:
        yield (
            Verdict.FAIL,
            f"the Kafka group is {view.kafka.state} and has no members: absence from ZooKeeper proves nothing",
            "start the plain Kafka consumers",
        )


def _in_kafka_mode(facts: Facts) -> Iterator[Complaint]:
    if facts.view.effective_mode is not Mode.KAFKA:
        yield (
            Verdict.FAIL,
            f"group {facts.view.group} is in {facts.view.effective_mode} mode: a plain Kafka consumer "
            "would consume what others own (D11)",
            "toggle to kafka first",
        )


def _in_zookeeper_mode(facts: Facts) -> Iterator[Complaint]:
    if facts.view.effective_mode is not Mode.ZOOKEEPER:
        yield (
            Verdict.FAIL,
            f"group {facts.view.group} is in kafka mode",
            "toggle back to zookeeper first",
        )


def _offsets_in_log(facts: Facts) -> Iterator[Complaint]:
    ends = {end.partition: end for end in facts.view.log_ends}
    committed = (*facts.view.zookeeper_offsets, *facts.view.kafka_offsets)
    outside: set[TopicPartition] = {
        offset.partition
        for offset in committed
        if offset.partition in ends and not ends[offset.partition].start <= offset.offset
    }
    if outside:
        yield (
            Verdict.INCONCLUSIVE,
            f"committed offsets of {sentence_list(sorted(map(str, outside)))} lie below the log start: "
            "those records are already deleted",
            "check the retention of the topic",
        )


_ALL = (
    ("C01", "the group exists", _group_exists),
    ("C02", "the group has members in ZooKeeper", _has_members),
    ("C03", "every node of the group was understood", _understood),
    ("C04", "no plain Kafka member stands in the way", _plain_members_allowed),
    ("C05", "every partition has an offset in ZooKeeper", _znode_offsets_complete),
    ("C06", "no mode node is left over from an earlier migration", _no_left_over_mode),
    ("C07", "the mode node is well formed or absent", _mode_well_formed),
    ("C08", "every migration-aware member honours the fence", _fenced),
    ("C09", "all members subscribe to the same topics", _same_subscriptions),
    ("C10", "the Kafka group's assignor is one that all members offer", _known_assignor),
    ("C11", "every partition is owned exactly once by a live member", _owned_once),
    ("C12", "every partition has an offset in Kafka, not behind ZooKeeper's", _kafka_offsets_complete),
    ("C13", "every member in ZooKeeper is migration-aware", _all_aware),
    ("C14", "the Kafka group is Stable", _kafka_stable),
    ("C15", "the Kafka group's client ids and the migration ids are the same set", _client_ids_match),
    ("C16", "the group has no plain Kafka member", _no_plain_members),
    ("C17", "the wanted mode is in effect and every aware member acts on it", _mode_in_effect),
    ("C18", "every place of the fleet runs a member that the group knows", _places_filled),
    ("C19", "every canary owns its even share", _even_share),
    ("C20", "committed offsets lie within the logs", _offsets_in_log),
    ("C21", "no member is left in ZooKeeper and the Kafka group has members", _retired),
    ("C22", "the group is in kafka mode", _in_kafka_mode),
    ("C23", "the group is in zookeeper mode", _in_zookeeper_mode),
)

RULES = {number: Rule(number=number, holds=holds, look=look) for number, holds, look in _ALL}
"""Every rule by number."""


def ask(numbers: tuple[str, ...], facts: Facts) -> tuple[Finding, ...]:
    """What the rules of these numbers say, passed ones included.

    Of a group that does not exist only C01 speaks: nothing else can be said about it."""
    if not facts.view.exists:
        return RULES["C01"].ask(facts)
    return tuple(finding for number in numbers for finding in RULES[number].ask(facts))
