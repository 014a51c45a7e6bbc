"""The numbered rules of a group that ZooKeeper coordinates (C…), and the register of all rules of a group.

What they say is in ``group_rules.toml``; which are asked when is the moves' business.
Source: docs/reference/zookeeper-coordination.md §5, §8.9 (D11, D13, O8), §8.10 (F6, F7), §8.11 (N3), §9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from groupshift.domain.facts import Facts, sentence_list
from groupshift.domain.foreign_json import shown
from groupshift.domain.group import GroupView, Member
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.old_members import (
    commits_to_kafka,
    fits_of_each,
    fitting,
    held_by_old,
    stands_still,
    worth_a_second_look,
)
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.protocol import live_rules as protocol
from groupshift.domain.rules import Rules, Says, some
from groupshift.domain.verdict import Finding

COORDINATION: Rules[Facts] = Rules("domain/group_rules.toml")
COOPERATIVE = "cooperative-sticky"
KC_ASSIGNORS = ("", "range", "roundrobin")
"""Kafka assignors that an aware member offers (L7); empty: nobody joined yet."""
_rule = COORDINATION.rule


def _without(kind: MemberKind) -> Callable[[Facts], bool]:
    """A rule about members of a kind could not fail where none is there."""
    return lambda facts: not facts.view.of_kind(kind)


def _ids(members: Iterable[Member]) -> list[str]:
    return [member.member_id for member in members]


@_rule("C01")
def group_exists(facts: Facts) -> Iterator[Says]:
    """Known to ZooKeeper or Kafka at all."""
    if not facts.view.exists:
        yield Says("group_unknown", group=facts.view.group)


@_rule("C02")
def has_members(facts: Facts) -> Iterator[Says]:
    """Somebody is registered below ``ids``."""
    view = facts.view
    if view.exists and not view.ids:
        plain = len(view.of_kind(MemberKind.PLAIN))
        met = f"only {plain} plain Kafka members" if plain else "no members"
        yield Says("no_members", group=view.group, met=met)


@_rule("C03")
def understood(facts: Facts) -> Iterator[Says]:
    """Nothing about the group was left out because it could not be parsed."""
    for problem in facts.view.problems:
        yield Says("not_understood", problem=problem)


@_rule("C04")
def plain_members_allowed(facts: Facts) -> Iterator[Says]:
    """D11: beside ZooKeeper members a plain Kafka member is allowed in kafka mode only
    (zookeeper-coordination.md §9 lines 4, 5)."""
    view = facts.view
    plain, old = _ids(view.of_kind(MemberKind.PLAIN)), _ids(view.of_kind(MemberKind.ZOOKEEPER))
    if plain and (old or (view.of_kind(MemberKind.AWARE) and view.effective_mode is not Mode.KAFKA)):
        beside = f" beside old members {sentence_list(old)}" if old else f" in {view.effective_mode} mode"
        yield Says("plain_beside", members=plain, group=view.group, beside=beside)


def _missing(view: GroupView, store: str) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Partitions without a committed offset: a failure where there are records, else (``_empty``) a
    warning."""
    offsets = view.stores[store]
    absent = {at: end for at, end in view.ends.items() if at not in offsets}
    for empty in (False, True):
        if partitions := sorted(at for at, end in absent.items() if (end.log_end <= end.log_start) is empty):
            yield "_empty" if empty else "", partitions


@_rule("C05")
def znode_offsets_complete(facts: Facts) -> Iterator[Says]:
    """N3: an old consumer reads only ZooKeeper."""
    for suffix, names in _missing(facts.view, "ZooKeeper"):
        yield Says(f"no_znode_offset{suffix}", partitions=names)


@_rule("C06", _without(MemberKind.ZOOKEEPER))
def no_left_over_mode(facts: Facts) -> Iterator[Says]:
    """D13: no mode node that would act later, by itself."""
    view = facts.view
    if view.of_kind(MemberKind.ZOOKEEPER) and view.mode.requested is Mode.KAFKA:
        yield Says("left_over_mode", group=view.group)


@_rule("C07")
def mode_well_formed(facts: Facts) -> Iterator[Says]:
    """Exact comparison (zookeeper-coordination.md §8.3): anything else would silently mean ZooKeeper."""
    mode = facts.view.mode
    if mode.malformed:
        yield Says("malformed_mode", group=facts.view.group, held=shown(mode.data))


def _unfenced(view: GroupView) -> list[str]:
    return _ids(member for member in view.of_kind(MemberKind.AWARE) if not member.fence)


@_rule("C08", _without(MemberKind.AWARE))
def fenced(facts: Facts) -> Iterator[Says]:
    """F6, F7: a member that takes no owner node in kafka mode cannot be excluded by one."""
    yield from some("unfenced", members=_unfenced(facts.view))


@_rule("C28", _without(MemberKind.AWARE))
def fenced_for_its_mode(facts: Facts) -> Iterator[Says]:
    """§9 line 7: in zookeeper mode such a member takes owner nodes like any old one, so there, if the
    group is to stay there, it is a warning."""
    if Mode.KAFKA in {facts.wanted, facts.view.effective_mode}:
        yield from fenced(facts)
    else:
        yield from some("unfenced_in_zookeeper_mode", members=_unfenced(facts.view))


@_rule("C09")
def same_subscriptions(facts: Facts) -> Iterator[Says]:
    """Same topics at every member, whatever the pattern that names them."""
    topics = {tuple(topic for topic, _ in member.subscription) for member in facts.view.members}
    if len(topics) > 1:
        yield Says("subscribe_differently", topics=sorted("+".join(names) or "nothing" for names in topics))


@_rule("C10")
def known_assignor(facts: Facts) -> Iterator[Says]:
    """L7: aware members offer range and roundrobin, or cooperative-sticky alone where they are told so.

    One that is a member of the Kafka group offers what the group has chosen."""
    view, protocol = facts.view, facts.view.kafka.protocol
    if protocol == COOPERATIVE:
        if view.kafka.clients.isdisjoint(view.migration_ids):
            yield Says("cooperative_not_offered", assignor=protocol)
    elif protocol not in KC_ASSIGNORS:
        yield Says("assignor_not_offered", assignor=protocol)


@_rule("C11")
def owned_once(facts: Facts) -> Iterator[Says]:
    """One owner node (or Kafka assignment of a plain member) a partition, of a live member."""
    view = facts.view
    live = {member.member_id for member in view.members}
    owned = view.owners_by_partition
    if not owned and view.members:
        yield Says("partitions_unread")
    for sentence, partitions in (
        ("owned_by_nobody", [str(p) for p, names in owned.items() if not names]),
        ("owned_twice", [f"{p} ({', '.join(n)})" for p, n in owned.items() if len(n) > 1]),
        ("owned_by_stranger", [f"{p} ({n})" for p, names in owned.items() for n in names if n not in live]),
    ):
        yield from some(sentence, partitions=sorted(partitions))


@_rule("C12")
def kafka_offsets_complete(facts: Facts) -> Iterator[Says]:
    """O8: a plain Kafka consumer reads only Kafka."""
    view = facts.view
    for suffix, names in _missing(view, "Kafka"):
        yield Says(f"no_kafka_offset{suffix}", partitions=names)
    (znodes, kafka), unread = view.stores.values(), frozenset(view.leftovers)
    behind = [
        f"{at} (Kafka {kafka[at]}, ZooKeeper {offset})"
        for at, offset in znodes.items()
        if kafka.get(at, offset) < offset and at not in unread
    ]
    yield from some("kafka_behind", partitions=sorted(behind))


@_rule("C13")
def all_aware(facts: Facts) -> Iterator[Says]:
    """Every child of ``ids`` is also below ``migration/ids`` (§8.3)."""
    yield from some("unaware", members=sorted(set(facts.view.ids) - set(facts.view.migration_ids)))


@_rule("C14")
def kafka_stable(facts: Facts) -> Iterator[Says]:
    """F7: an assignment of a group that is rebalancing says nothing."""
    state = facts.view.kafka.state
    if state != "Stable":
        yield Says("not_stable", state=state)


@_rule("C15")
def client_ids_match(facts: Facts) -> Iterator[Says]:
    """F7: the Kafka group is exactly the aware members."""
    clients, aware = facts.view.kafka.clients, set(facts.view.migration_ids)
    yield from some("aware_not_in_kafka", members=sorted(aware - clients))
    yield from some("in_kafka_not_aware", members=sorted(clients - aware))


@_rule("C16")
def no_plain_members(facts: Facts) -> Iterator[Says]:
    """D11, strictly: what may never be there when the mode becomes ZooKeeper."""
    yield from some("plain_members", members=_ids(facts.view.of_kind(MemberKind.PLAIN)))


@_rule("C17", lambda facts: facts.wanted is None)
def mode_in_effect(facts: Facts) -> Iterator[Says]:
    """F7: what the node asks for, and what each aware member publishes that it acts on."""
    view, wanted = facts.view, facts.wanted
    if not isinstance(wanted, Mode):
        return
    if view.effective_mode is not wanted:
        yield Says("other_mode", mode=view.effective_mode, wanted=wanted)
    late = [
        member.member_id
        for member in view.of_kind(MemberKind.AWARE)
        if member.mode is not wanted
        or (view.mode.data is not None and member.acting_on != view.mode.identity)
    ]
    yield from some("acts_on_other_mode", members=late, wanted=wanted, write=view.mode.identity)


@_rule("C18", lambda facts: not facts.places)
def places_filled(facts: Facts) -> Iterator[Says]:
    """What the fleet driver runs is what the group knows."""
    kinds = {member.member_id: member.kind for member in facts.view.members}
    kinds |= {member.client_id: member.kind for member in facts.view.of_kafka if member.client_id}
    for place in facts.places:
        member = place.member_id
        if place.kind is MemberKind.VACANT:
            continue
        if not place.running:
            yield Says("place_down", place=place.name, member=f" {member}" if member else "")
        elif member is not None and kinds.get(member) is not place.kind:
            met = f"knows it as {kinds[member]}" if member in kinds else "does not know it"
            yield Says("other_in_place", place=place.name, member=member, kind=place.kind, met=met)


@_rule("C19")
def even_share(facts: Facts) -> Iterator[Says]:
    """In zookeeper mode: between floor and ceiling of the partitions for each of its streams (§5).

    Says nothing about patterns that name more than one topic: who reads what is then not known here."""
    view = facts.view
    counts = Counter(partition.topic for partition in view.partitions)
    members = view.of_zookeeper
    if any(topic not in counts for member in members for topic, _ in member.subscription):
        return
    owned = Counter(owner for owners in view.owners_by_partition.values() for owner in owners)
    streams: Counter[str] = sum((Counter(dict(each.subscription)) for each in members), Counter())
    for member in members:
        low = sum(n * (counts[topic] // streams[topic]) for topic, n in member.subscription)
        high = sum(n * -(-counts[topic] // streams[topic]) for topic, n in member.subscription)
        if not low <= owned[member.member_id] <= high:
            has = owned[member.member_id]
            yield Says("uneven_share", member=member.member_id, owned=has, low=low, high=high)


@_rule("C20")
def offsets_in_log(facts: Facts) -> Iterator[Says]:
    """Beyond the end: the proof fails for it, so it is told before. Log ends are read last, so none is a
    commit meanwhile. Committed, but deleted since: explained, for what happens next is the consumer's own
    rule."""
    view = facts.view
    beyond = sorted(
        (at, f"{at} ({store} {offsets[at]}, log end {end.log_end})")
        for store, offsets in view.stores.items()
        for at, end in view.ends.items()
        if offsets.get(at, end.log_end) > end.log_end
    )
    yield from some("beyond_log_end", partitions=[text for _, text in beyond])
    for sentence in resets(view):
        yield Says("below_log_start", said=sentence)


@_rule("C21")
def retired(facts: Facts) -> Iterator[Says]:
    """A positive proof: members in Kafka, none in ZooKeeper."""
    view = facts.view
    yield from some("left_in_zookeeper", members=sorted(view.ids))
    if not view.kafka.members:
        yield Says("nobody_in_kafka", state=view.kafka.state)


@_rule("C22")
def in_kafka_mode(facts: Facts) -> Iterator[Says]:
    """Where only plain members are, the node alone decides."""
    if facts.view.effective_mode is not Mode.KAFKA:
        yield Says("no_kafka_mode", group=facts.view.group, mode=facts.view.effective_mode)


@_rule("C23")
def in_zookeeper_mode(facts: Facts) -> Iterator[Says]:
    """Old members may join only here."""
    if facts.view.effective_mode is not Mode.ZOOKEEPER:
        yield Says("no_zookeeper_mode", group=facts.view.group)


@_rule("C24", _without(MemberKind.ZOOKEEPER))
def old_commit_to_zookeeper(facts: Facts) -> Iterator[Says]:
    """§9 line 6: beside migration-aware members, whom they meet in zookeeper mode, the coordinator refuses
    their commits, and with ``dual.commit.enabled`` nothing is written to ZooKeeper either."""
    now, then = held_by_old(facts.view), facts.earlier
    if then is None:
        if worth_a_second_look(now):
            yield Says("second_look_needed")
        return
    proven = commits_to_kafka(then, now)
    sentence = "commits_to_kafka" if proven else "znode_stands_still"
    for member, partitions in (proven or stands_still(then, now)).items():
        yield Says(sentence, member=member, partitions=partitions)


@_rule("C25", lambda facts: facts.view.effective_mode is Mode.KAFKA or not facts.view.partitions)
def one_assignor(facts: Facts) -> Iterator[Says]:
    """§5: each member computes alone and nothing is negotiated, so all must use the same."""
    view = facts.view
    if view.effective_mode is Mode.KAFKA or not view.ids or not view.partitions:
        return
    if fits := fitting(view):
        doubt = "" if len(fits) == 1 else "; these cannot be told apart here"
        yield Says("one_assignor_fits", assignors=" and ".join(fits), told=doubt)
        return
    said = [f"{member}: {', '.join(names) or 'none'}" for member, names in fits_of_each(view).items()]
    yield Says("no_assignor_fits", members=said)


@_rule("C26", lambda facts: not facts.view.migration_ids)
def kafka_offsets_begun(facts: Facts) -> Iterator[Says]:
    """O8, ahead of time: once aware members are in the group, offsets should appear in Kafka."""
    view = facts.view
    absent = [each for _, partitions in _missing(view, "Kafka") for each in partitions]
    if absent and view.migration_ids:
        yield Says("no_kafka_offset_yet", partitions=absent)


@_rule("C27", _without(MemberKind.AWARE))
def whole_awareness(facts: Facts) -> Iterator[Says]:
    """§9, below its table: an aware member is in ``ids``, ``migration/ids`` and Kafka."""
    view = facts.view
    ids, aware = set(view.ids), set(view.migration_ids)
    yield from some("aware_not_registered", members=sorted(aware - ids))
    yield from some("aware_not_joined", members=sorted(ids & aware - view.kafka.clients))


@_rule("C29")
def offsets_nobody_reads(facts: Facts) -> Iterator[Says]:
    """Offset nodes never expire, so most old groups have leftovers: named once, never a reason to fail."""
    for sentence in leftovers(facts.view):
        yield Says("nobody_reads", said=sentence)


def leftovers(view: GroupView) -> tuple[str, ...]:
    """Return a sentence about the committed offsets that no member reads; none where there are none."""
    none = {each.partition: each.held for each in view.no_offsets}
    stores = view.stores.items()
    kept = []
    for at in view.leftovers:
        held = [f"{name} {offsets[at]}" for name, offsets in stores if at in offsets]
        if at in none:
            held.append(f"ZooKeeper holds {none[at]}, which is no offset")
        kept.append(f"{at} ({', '.join(held)})")
    return (f"no member reads it: kept as it is: {sentence_list(kept)}",) if kept else ()


def resets(view: GroupView) -> tuple[str, ...]:
    """Return a sentence for each partition whose lowest committed offset lies below its log's start: where
    its reader goes on, by its own ``auto.offset.reset``."""
    sentences = []
    for at, log in sorted(view.ends.items()):
        offsets = [each[at] for each in view.stores.values() if at in each]
        if min(offsets, default=log.log_start) < log.log_start:
            where = f"{log.log_start}, whatever its auto.offset.reset says"
            if log.log_start != log.log_end:
                where = (
                    f"{log.log_start} with auto.offset.reset=earliest (smallest), or at {log.log_end} with "
                    f"latest (largest), which passes over {log.log_end - log.log_start} offsets"
                )
            sentences.append(
                f"the committed offset {min(offsets)} of {at} is below the log start {log.log_start} "
                f"(its records are deleted): its reader begins at {where}"
            )
    return tuple(sentences)


RULES = {**COORDINATION, **protocol.RULES}
"""Every rule of a group by number: C of coordination, PR of its protocol; a few serve both moves."""


def ask(numbers: tuple[str, ...], facts: Facts) -> tuple[Finding, ...]:
    """Return what the rules of these numbers say, passed ones included.

    Of a group that does not exist only C01 (PR01, where it is asked) speaks: nothing else can be said about
    it."""
    if not facts.view.exists and (facts.view.protocol is None or "PR01" in numbers):
        return RULES["C01" if facts.view.protocol is None else "PR01"].ask(facts)
    return tuple(finding for number in numbers for finding in RULES[number].ask(facts))
