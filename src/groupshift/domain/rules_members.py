"""Rules about members: fence, subscriptions, assignor, awareness, places, shares, retirement.

Sections are those of docs/reference/zookeeper-coordination.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from groupshift.domain.facts import Complaint, Facts, sentence_list
from groupshift.domain.group import GroupView, Member
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.verdict import Verdict

COOPERATIVE = "cooperative-sticky"
KC_ASSIGNORS = ("", "range", "roundrobin")
"""Kafka assignors that an aware member offers (L7); empty: nobody joined yet."""


def _unfenced(facts: Facts) -> str:
    bare = [m.member_id for m in facts.view.of_kind(MemberKind.AWARE) if not m.fence]
    return f"migration-aware members {sentence_list(bare)} publish no fence" if bare else ""


def fenced(facts: Facts) -> Iterator[Complaint]:
    """F6, F7: a member that takes no owner node in kafka mode cannot be excluded by one."""
    if who := _unfenced(facts):
        yield (
            Verdict.FAIL,
            f"{who}: in kafka mode they do not hold owner nodes while they consume (F6)",
            "replace them by groupshift's MigratingConsumer; until then the mode stays zookeeper",
        )


def fenced_for_its_mode(facts: Facts) -> Iterator[Complaint]:
    """§9 line 7: in zookeeper mode such a member takes owner nodes like any old one, so there, if the
    group is to stay there, it is a warning."""
    who = _unfenced(facts)
    if who and Mode.KAFKA in {facts.wanted, facts.view.effective_mode}:
        yield from fenced(facts)
    elif who:
        yield (
            Verdict.INCONCLUSIVE,
            f"{who}: the group has to stay in zookeeper mode while they are in it (F6)",
            "replace them by groupshift's MigratingConsumer before the toggle",
        )


def whole_awareness(facts: Facts) -> Iterator[Complaint]:
    """§9, below its table: an aware member is in ``ids``, ``migration/ids`` and Kafka."""
    view = facts.view
    clients = {member.client_id for member in view.kafka.members}
    ids, aware = set(view.ids), set(view.migration_ids)
    for names, words, hint in (
        (sorted(aware - ids), "have a migration id but no registration", "wait until they have left"),
        (
            sorted(ids & aware - clients),
            "are registered but not in the Kafka group",
            "wait until they have joined; look at their Kafka side",
        ),
    ):
        if names:
            yield Verdict.INCONCLUSIVE, f"migration-aware members {sentence_list(names)} {words}", hint


def _zookeeper_members(view: GroupView) -> tuple[Member, ...]:
    return tuple(member for member in view.members if member.kind is not MemberKind.PLAIN)


def same_subscriptions(facts: Facts) -> Iterator[Complaint]:
    """Same topics at every member, whatever the pattern that names them."""
    topics = {tuple(topic for topic, _ in member.subscription) for member in facts.view.members}
    if len(topics) > 1:
        shown = sentence_list(sorted("+".join(names) or "nothing" for names in topics))
        yield (
            Verdict.INCONCLUSIVE,
            f"members subscribe differently ({shown}): in kafka mode shares change (L7)",
            "give all members the same topics, or accept it at the gate",
        )


def known_assignor(facts: Facts) -> Iterator[Complaint]:
    """L7: aware members offer range and roundrobin, or cooperative-sticky alone where they are told so.

    One that is a member of the Kafka group offers what the group has chosen."""
    protocol = facts.view.kafka.protocol
    joined = {member.client_id for member in facts.view.kafka.members} & set(facts.view.migration_ids)
    if protocol in KC_ASSIGNORS or (protocol == COOPERATIVE and joined):
        return
    remedy = "use range or roundrobin in every Kafka member"
    if protocol == COOPERATIVE:
        remedy = f"set coordination.migration.partition.assignment.strategy={COOPERATIVE} at aware members"
    yield (
        Verdict.FAIL,
        f"the Kafka group uses the assignor {protocol}, which migration-aware members do not offer (L7)",
        remedy,
    )


def all_aware(facts: Facts) -> Iterator[Complaint]:
    """Every child of ``ids`` is also below ``migration/ids`` (§8.3)."""
    unaware = sorted(set(facts.view.ids) - set(facts.view.migration_ids))
    if unaware:
        yield (
            Verdict.FAIL,
            f"members {sentence_list(unaware)} are not migration-aware, so the mode stays zookeeper",
            "replace them first",
        )


def kafka_stable(facts: Facts) -> Iterator[Complaint]:
    """F7: an assignment of a group that is rebalancing says nothing."""
    state = facts.view.kafka.state
    if state != "Stable":
        yield (
            Verdict.ERROR,
            f"the Kafka group is {state}, not Stable, so its members cannot be relied on",
            "wait until its rebalance is over",
        )


def client_ids_match(facts: Facts) -> Iterator[Complaint]:
    """F7: the Kafka group is exactly the aware members."""
    clients = {member.client_id for member in facts.view.kafka.members}
    aware = set(facts.view.migration_ids)
    for names, words in (
        (sorted(aware - clients), "are migration-aware but not in the Kafka group"),
        (sorted(clients - aware), "are in the Kafka group but not migration-aware"),
    ):
        if names:
            yield Verdict.FAIL, f"members {sentence_list(names)} {words} (F7)", "wait until they have joined"


def no_plain_members(facts: Facts) -> Iterator[Complaint]:
    """D11, strictly: what may never be there when the mode becomes ZooKeeper."""
    plain = [member.member_id for member in facts.view.of_kind(MemberKind.PLAIN)]
    if plain:
        yield (
            Verdict.FAIL,
            (
                f"plain Kafka members {sentence_list(plain)} forbid a toggle: "
                "outside kafka mode their partitions would be consumed twice (D11)"
            ),
            "replace them by migration-aware members first",
        )


def places_filled(facts: Facts) -> Iterator[Complaint]:
    """What the fleet driver runs is what the group knows."""
    kinds = {member.member_id: member.kind for member in facts.view.members}
    kinds |= {member.client_id: member.kind for member in facts.view.of_kafka if member.client_id}
    for place in facts.places:
        if place.kind is MemberKind.VACANT:
            continue
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
                (
                    f"place {place.name} runs {place.member_id} as {place.kind}, "
                    f"but the group {'knows it as ' + met if met else 'does not know it'}"
                ),
                "look at that member's log",
            )


def even_share(facts: Facts) -> Iterator[Complaint]:
    """In zookeeper mode: between floor and ceiling of the partitions for each of its streams (§5).

    Says nothing about patterns that name more than one topic: who reads what is then not known here."""
    view = facts.view
    topics = {partition.topic for partition in view.partitions}
    members = _zookeeper_members(view)
    if any(topic not in topics for member in members for topic, _ in member.subscription):
        return
    owned = view.load()
    for member in members:
        low, high = _share(view, member)
        if not low <= owned[member.member_id] <= high:
            yield (
                Verdict.FAIL,
                f"{member.member_id} owns {owned[member.member_id]} partitions, its share is {low} to {high}",
                "wait until the group has settled; then compare its assignor and streams with the others'",
            )


def _share(view: GroupView, member: Member) -> tuple[int, int]:
    """Fewest and most partitions that an even assignor gives to this member's streams."""
    low = high = 0
    for topic, streams in member.subscription:
        total = sum(dict(each.subscription).get(topic, 0) for each in _zookeeper_members(view))
        count = sum(1 for partition in view.partitions if partition.topic == topic)
        low += streams * (count // total)
        high += streams * -(-count // total)
    return low, high


def retired(facts: Facts) -> Iterator[Complaint]:
    """A positive proof: members in Kafka, none in ZooKeeper."""
    view = facts.view
    if view.ids:
        yield (
            Verdict.FAIL,
            f"members {sentence_list(sorted(view.ids))} are still in ZooKeeper and need the mode node",
            "retire them first; an absent mode node means ZooKeeper",
        )
    if not view.kafka.members:
        yield (
            Verdict.FAIL,
            f"the Kafka group is {view.kafka.state} and has no members: an empty ZooKeeper proves nothing",
            "start the plain Kafka consumers",
        )
