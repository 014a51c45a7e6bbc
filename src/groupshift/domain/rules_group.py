"""Rules about the group as a whole: existence, mode node, plain members, owners, mode in effect."""

from __future__ import annotations

from collections.abc import Iterator

from groupshift.domain.facts import Complaint, Facts, sentence_list
from groupshift.domain.foreign_json import shown
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.rules_matrix import forbidden, parts_of
from groupshift.domain.verdict import Verdict


def group_exists(facts: Facts) -> Iterator[Complaint]:
    """Known to ZooKeeper or Kafka at all."""
    if not facts.view.exists:
        yield (
            Verdict.FAIL,
            f"group {facts.view.group} is known neither to ZooKeeper nor to Kafka",
            "check the name and the chroot of the ZooKeeper connection",
        )


def has_members(facts: Facts) -> Iterator[Complaint]:
    """Somebody is registered below ``ids``."""
    view = facts.view
    if view.exists and not view.ids:
        plain = len(view.of_kind(MemberKind.PLAIN))
        met = f"only {plain} plain Kafka members" if plain else "no members"
        yield (
            Verdict.FAIL,
            f"group {view.group} has {met}: nothing is coordinated through ZooKeeper",
            "start its consumers, or choose a group that is consumed through ZooKeeper",
        )


def understood(facts: Facts) -> Iterator[Complaint]:
    """Nothing about the group was left out because it could not be parsed."""
    for problem in facts.view.problems:
        yield Verdict.FAIL, problem, "do what it says, then assess again"


def plain_members_allowed(facts: Facts) -> Iterator[Complaint]:
    """D11: beside ZooKeeper members a plain Kafka member is allowed in kafka mode only
    (zookeeper-coordination.md §9 lines 4, 5)."""
    view = facts.view
    if any(mix.rule == "C04" for mix in forbidden(parts_of(view), {view.effective_mode})):
        plain = [member.member_id for member in view.of_kind(MemberKind.PLAIN)]
        old = [member.member_id for member in view.of_kind(MemberKind.OLD)]
        beside = f" beside old members {sentence_list(old)}" if old else f" in {view.effective_mode} mode"
        yield (
            Verdict.FAIL,
            (
                f"plain Kafka members {sentence_list(plain)} are in group {view.group}{beside}: "
                "they follow Kafka only, so every partition they hold would be consumed twice (D11)"
            ),
            "stop the plain Kafka consumers; they may join only in kafka mode",
        )


def no_left_over_mode(facts: Facts) -> Iterator[Complaint]:
    """D13: no mode node that would act later, by itself."""
    view = facts.view
    if view.of_kind(MemberKind.OLD) and view.mode.requested is Mode.KAFKA:
        yield (
            Verdict.FAIL,
            (
                f"the mode node of group {view.group} holds kafka while old members are in the group: "
                "the group would jump to kafka mode the moment the last old member leaves (D13)"
            ),
            "set the mode node to zookeeper or delete it",
        )


def mode_well_formed(facts: Facts) -> Iterator[Complaint]:
    """Exact comparison (zookeeper-coordination.md §8.3): anything else would silently mean ZooKeeper."""
    mode = facts.view.mode
    if mode.malformed:
        yield (
            Verdict.FAIL,
            (
                f"the mode node of group {facts.view.group} holds {shown(mode.data)}, "
                "which is neither kafka nor zookeeper"
            ),
            "set it to zookeeper or delete it",
        )


def owned_once(facts: Facts) -> Iterator[Complaint]:
    """One owner node (or Kafka assignment of a plain member) a partition, of a live member."""
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


def mode_in_effect(facts: Facts) -> Iterator[Complaint]:
    """F7: what the node asks for, and what each aware member publishes that it acts on."""
    view, wanted = facts.view, facts.wanted
    if not isinstance(wanted, Mode):
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


def in_kafka_mode(facts: Facts) -> Iterator[Complaint]:
    """Where only plain members are, the node alone decides."""
    if facts.view.effective_mode is not Mode.KAFKA:
        yield (
            Verdict.FAIL,
            (
                f"group {facts.view.group} is in {facts.view.effective_mode} mode: a plain Kafka consumer "
                "would consume what others own (D11)"
            ),
            "toggle to kafka first",
        )


def in_zookeeper_mode(facts: Facts) -> Iterator[Complaint]:
    """Old members may join only here."""
    if facts.view.effective_mode is not Mode.ZOOKEEPER:
        yield (
            Verdict.FAIL,
            f"group {facts.view.group} is in kafka mode",
            "toggle back to zookeeper first",
        )
