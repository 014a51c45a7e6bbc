"""Every rule of the move: what it lets pass, and what it says when it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from groupshift.domain.facts import Facts, Slot, SlotState
from groupshift.domain.group import Owner
from groupshift.domain.group_rules import RULES, ask
from groupshift.domain.modes import MemberKind, Mode, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import PhaseName, Until
from groupshift.domain.verdict import Verdict
from groupshift.moves.coordination import rules as rulebook
from groupshift.moves.protocol import rules as protocol_rulebook
from groupshift_testing.world import World
from support.simulated_group import make_group

F7 = {"C08", "C12", "C13", "C14", "C15"}
"""The preconditions of a write of kafka mode (zookeeper-coordination.md §8.10)."""
OLD, AWARE, PLAIN = MemberKind.ZOOKEEPER, MemberKind.AWARE, MemberKind.PLAIN
DOUBT = Verdict.INCONCLUSIVE
P0, P5 = TopicPartition("orders", 0), TopicPartition("orders", 5)


def facts(kind: MemberKind = OLD, spoil: Callable[[World], object] = bool, **wanted: object) -> Facts:
    """A healthy group of one kind, then spoiled."""
    world = make_group(kind).world
    if kind is PLAIN:
        world.write_mode(b"kafka")
    spoil(world)
    places = tuple(
        Slot(
            name=name,
            kind=o.kind,
            state=SlotState.RUNNING if o.running else SlotState.DOWN,
            member_id=world.identity(name),
        )
        for name, o in world.places.items()
    )
    return Facts(view=world.read(world.group), places=places, **wanted)


@dataclass(frozen=True)
class Case:
    """One rule, a way to break it, and a word that its sentence must hold."""

    rule: str
    kind: MemberKind
    spoil: Callable[[World], object]
    says: str
    verdict: Verdict = Verdict.FAIL
    wanted: Mode | None = None


def set_kind(place: str, kind: MemberKind) -> Callable[[World], object]:
    """Somebody changes one member."""
    return lambda world: setattr(world.places[place], "kind", kind)


def stop_all(world: World) -> None:
    """Nobody is left."""
    for occupant in world.places.values():
        occupant.running = False


CASES = [
    Case("C01", OLD, lambda w: setattr(w, "group", "other"), "neither"),
    Case("C02", OLD, stop_all, "no members"),
    Case("C02", PLAIN, bool, "only 3 plain"),
    Case("C03", OLD, lambda w: setattr(w, "problems", ("registration x is no JSON",)), "x is no JSON"),
    Case("C04", OLD, lambda w: setattr(w, "strangers", ("kc-1",)), "kc-1"),
    Case("C04", AWARE, lambda w: setattr(w, "strangers", ("kc-1",)), "D11"),
    Case("C05", OLD, lambda w: w.znode.pop(P0), "orders-0"),
    Case("C06", OLD, lambda w: w.write_mode(b"kafka"), "D13"),
    Case("C07", OLD, lambda w: w.write_mode(b"kafka\n"), "neither kafka nor zookeeper"),
    Case("C08", AWARE, lambda w: setattr(w.places["m2"], "fence", None), "m2"),
    Case("C28", AWARE, lambda w: setattr(w.places["m2"], "fence", None), "m2", wanted=Mode.KAFKA),
    Case("C28", AWARE, lambda w: setattr(w.places["m2"], "fence", None), "stay in zookeeper mode", DOUBT),
    Case("C12", AWARE, lambda w: w.kafka.pop(P5), "O8"),
    Case("C12", AWARE, lambda w: w.kafka.update({P5: 89}), "behind"),
    Case("C13", AWARE, set_kind("m1", OLD), "m1"),
    Case("C14", AWARE, lambda w: setattr(w, "kafka_state", "PreparingRebalance"), "Preparing", Verdict.ERROR),
    Case("C15", AWARE, lambda w: setattr(w, "strangers", ("kc-1",)), "kc-1"),
    Case("C16", AWARE, lambda w: setattr(w, "strangers", ("kc-1",)), "forbid a toggle"),
    Case("C17", AWARE, bool, "not kafka", wanted=Mode.KAFKA),
    Case("C18", OLD, lambda w: setattr(w.places["m3"], "running", False), "m3"),
    Case("C21", AWARE, bool, "still in ZooKeeper"),
    Case("C21", PLAIN, stop_all, "has no members"),
    Case("C22", AWARE, bool, "zookeeper mode"),
    Case("C23", AWARE, lambda w: w.write_mode(b"kafka"), "kafka mode"),
    Case("C26", AWARE, lambda w: w.kafka.pop(P5), "the toggle will ask for them", DOUBT),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.says}")
def test_a_broken_rule_says_what_is_wrong_and_what_to_do(case: Case) -> None:
    """The verdict is the rule's, the sentence names what was met, and there is a hint."""
    world_facts = facts(case.kind, case.spoil, wanted=case.wanted)
    if case.rule == "C01":
        world_facts = replace(world_facts, view=replace(world_facts.view, exists=False))
    findings = ask((case.rule,), world_facts)
    bad = [finding for finding in findings if finding.verdict is case.verdict]
    assert any(case.says in finding.reason for finding in bad), findings
    assert all(finding.hint for finding in bad)


@pytest.mark.parametrize("kind", [OLD, AWARE])
def test_a_healthy_group_passes_every_rule_of_assess(kind: MemberKind) -> None:
    """Passed rules are findings too, one each."""
    findings = ask(rulebook.RULES.assess, facts(kind))
    assert [finding.verdict for finding in findings] == [Verdict.PASS] * len(rulebook.RULES.assess)
    assert [finding.rule for finding in findings] == list(rulebook.RULES.assess)


def test_assess_asks_for_the_toggle_where_it_comes_first() -> None:
    """A group of aware members in zookeeper mode hears every precondition of F7 at once."""
    seen = facts(AWARE)
    asked = rulebook.assessed(seen.view, Until.TOGGLE)
    assert set(asked) > F7
    assert {finding.verdict for finding in ask(asked, seen)} == {Verdict.PASS}
    for kind, until in ((AWARE, Until.ROLL), (OLD, Until.TOGGLE)):
        assert rulebook.assessed(facts(kind).view, until) == rulebook.RULES.assess


def test_the_preconditions_of_a_mode_write_are_those_of_f7() -> None:
    """Every clause has its rule, and the phase that writes the mode asks it; the rollback asks D11."""
    there, back = (rulebook.RULES.phases[each].before for each in (PhaseName.TOGGLE, PhaseName.UNDO_TOGGLE))
    assert set(there) >= F7
    assert "C16" in back
    assert "C08" not in back, "zookeeper mode is the remedy (F6)"


def test_an_aware_member_is_in_both_directories_and_in_kafka() -> None:
    """A migration id left behind and a member whose Kafka side is missing are named."""
    healthy = facts(AWARE)
    ghost = replace(healthy.view, migration_ids=(*healthy.view.migration_ids, "orders-app_gone-1"))
    half = replace(healthy.view, kafka=replace(healthy.view.kafka, members=healthy.view.kafka.members[1:]))
    for view, says in ((ghost, "orders-app_gone-1 have a migration id"), (half, "m1-1 are registered but")):
        (finding,) = ask(("C27",), replace(healthy, view=view))
        assert finding.verdict is DOUBT
        assert says in finding.reason


@pytest.mark.parametrize("phase", [PhaseName.TOGGLE, PhaseName.UNDO_TOGGLE])
def test_an_aware_group_may_be_toggled_both_ways(phase: PhaseName) -> None:
    """F7 holds for a healthy group of aware members."""
    assert {f.verdict for f in ask(rulebook.RULES.phases[phase].before, facts(AWARE))} == {Verdict.PASS}


def test_a_plain_member_beside_aware_ones_is_allowed_in_kafka_mode() -> None:
    """That is how retire begins (§9)."""

    def one_retired(world: World) -> None:
        world.write_mode(b"kafka")
        world.places["m3"].kind = PLAIN

    assert [f.verdict for f in ask(("C04",), facts(AWARE, one_retired))] == [Verdict.PASS]


def test_a_partition_without_records_needs_no_offset_yet() -> None:
    """A warning: with the reset position of an empty log nothing can be lost so far."""

    def empty(world: World) -> None:
        world.znode.pop(P0)
        world.ends[P0] = 0

    (finding,) = ask(("C05",), facts(OLD, empty))
    assert finding.verdict is Verdict.INCONCLUSIVE


def test_owners_are_counted_and_must_be_members() -> None:
    """Nobody, twice, and a stranger are three different sentences."""
    healthy = facts(OLD)
    first, *rest = healthy.view.owners
    again = Owner(partition=rest[0].partition, thread_id="orders-app_m1-1-0", czxid=1, session_id=1)
    gone = Owner(partition=rest[-1].partition, thread_id="orders-app_gone-1-0", czxid=1, session_id=1)
    spoiled = replace(healthy.view, owners=(*rest[:-1], again, gone))
    reasons = [finding.reason for finding in ask(("C11",), replace(healthy, view=spoiled))]
    assert [reason.split(":")[0] for reason in reasons] == [
        "owned by nobody",
        "owned more than once",
        "owned by someone who is no member",
    ]
    assert str(first.partition) in reasons[0]


def test_an_unread_topic_is_an_error_not_a_pass() -> None:
    """No partitions at all proves nothing."""
    blind = facts(OLD)
    blind = replace(blind, view=replace(blind.view, log_ends=(), owners=()))
    assert [f.verdict for f in ask(("C11",), blind)] == [Verdict.ERROR]


def test_a_member_must_act_on_this_very_write_of_the_mode_node() -> None:
    """F6: an older write with the same text is not enough."""

    def toggled(world: World) -> None:
        world.write_mode(b"kafka")

    seen = facts(AWARE, toggled, wanted=Mode.KAFKA)
    assert [f.verdict for f in ask(("C17",), seen)] == [Verdict.PASS]
    newer = replace(seen.view, mode=replace(seen.view.mode, mzxid=seen.view.mode.mzxid + 1))
    (late,) = ask(("C17",), replace(seen, view=newer))
    assert "do not act on" in late.reason


def test_the_even_share_is_floor_to_ceiling_for_each_stream() -> None:
    """Six partitions, three members: two each; a member with none is not even."""
    healthy = facts(AWARE)
    assert [f.verdict for f in ask(("C19",), healthy)] == [Verdict.PASS]
    hoarded = tuple(replace(o, thread_id="orders-app_m1-1-0") for o in healthy.view.owners)
    uneven = ask(("C19",), replace(healthy, view=replace(healthy.view, owners=hoarded)))
    assert len(uneven) == 3
    assert "owns 6 partitions" in uneven[0].reason


def test_different_subscriptions_are_a_question_for_people() -> None:
    """Allowed by the old protocol, but shares change in kafka mode."""
    healthy = facts(OLD)
    odd = replace(healthy.view.members[0], subscription=(("clicks", 1),))
    view = replace(healthy.view, members=(odd, *healthy.view.members[1:]))
    assert [f.verdict for f in ask(("C09",), replace(healthy, view=view))] == [Verdict.INCONCLUSIVE]


def test_an_assignor_that_aware_members_lack_is_refused() -> None:
    """L7: cooperative and eager members cannot share a group; who is in it offers what it has chosen."""
    seen = facts(AWARE)
    odd = replace(seen.view, kafka=replace(seen.view.kafka, protocol="sticky"))
    assert [f.verdict for f in ask(("C10",), replace(seen, view=odd))] == [Verdict.FAIL]
    chosen = replace(seen.view, kafka=replace(seen.view.kafka, protocol="cooperative-sticky"))
    assert [f.verdict for f in ask(("C10",), replace(seen, view=chosen))] == [Verdict.PASS]
    others = replace(facts(OLD).view, kafka=replace(facts(OLD).view.kafka, protocol="cooperative-sticky"))
    assert [f.verdict for f in ask(("C10",), replace(facts(OLD), view=others))] == [Verdict.FAIL]


def test_an_unknown_group_is_one_finding_only() -> None:
    """Nothing else can be said about it."""
    unknown = replace(facts(OLD).view, exists=False)
    assert [f.rule for f in ask(rulebook.RULES.assess, Facts(view=unknown))] == ["C01"]


def test_every_rule_of_the_rulebook_exists_and_is_asked_somewhere() -> None:
    """No number without a rule, no rule without a use."""
    asked: set[str] = set()
    known: set[PhaseName] = set()
    for rules in (rulebook.RULES, protocol_rulebook.RULES):
        asked |= {*rules.assess, *rules.only_time}
        asked |= {number for each in rules.phases.values() for number in (*each.before, *each.after)}
        known |= set(rules.phases)
    assert asked == set(RULES)
    assert known == set(PhaseName)


def test_left_over_zookeeper_is_fine() -> None:
    """Only kafka would act by itself."""
    view = replace(facts(OLD).view, mode=ModeNode(data=b"zookeeper", version=3, czxid=1, mzxid=9))
    assert [f.verdict for f in ask(("C06", "C07"), Facts(view=view))] == [Verdict.PASS] * 2


LEFT = TopicPartition("payments-old", 0)
GONE = TopicPartition("deleted", 4)
BEYOND = TopicPartition("orders", 99)


@pytest.mark.parametrize(
    "at", [LEFT, GONE, BEYOND], ids=["nobody subscribes", "topic gone", "partition gone"]
)
@pytest.mark.parametrize("stores", [("znode",), ("kafka",), ("znode", "kafka")], ids="+".join)
@pytest.mark.parametrize("kind", [OLD, AWARE])
def test_f01_an_offset_that_no_member_reads_is_named_and_no_reason_to_fail(
    at: TopicPartition, stores: tuple[str, ...], kind: MemberKind
) -> None:
    """In either store, stale in Kafka too: every rule passes, and one of them names it with its value."""

    def leave(world: World) -> None:
        for number, store in enumerate(stores):
            getattr(world, store)[at] = 77 - number

    asked = facts(kind, leave)
    assert asked.view.leftovers == (at,)
    everything = tuple(
        dict.fromkeys((*rulebook.RULES.assess, *rulebook.RULES.phases[PhaseName.TOGGLE].before))
    )
    numbers = everything if kind is AWARE else rulebook.RULES.assess
    findings = ask(numbers, asked)
    assert {each.verdict for each in findings} == {Verdict.PASS}, findings
    (said,) = [each for each in findings if str(at) in each.reason]
    assert said.reason.startswith("no member reads it: kept as it is")
    assert "77" in said.reason


def test_f01_a_topic_that_a_member_names_is_no_leftover() -> None:
    """It is unknown to the brokers, and somebody waits for it."""
    view = facts(OLD).view
    (first, *others) = view.members
    wants = replace(first, subscription=(*first.subscription, (GONE.topic, 1)))
    offset = replace(view.zookeeper_offsets[0], **GONE._asdict())
    asked = replace(view, members=(wants, *others), zookeeper_offsets=(*view.zookeeper_offsets, offset))
    assert asked.leftovers == ()
    owned = replace(view.owners[0], partition=LEFT)
    held = replace(offset, **LEFT._asdict())
    assert replace(view, owners=(owned,), zookeeper_offsets=(held,)).leftovers == ()


def test_f01_an_offset_below_the_log_start_is_explained_with_where_its_reader_begins() -> None:
    """An idle partition whose records are deleted: one word for assess, proof and audit, and no warning."""

    def at(start: int, end: int) -> Facts:
        asked = facts(OLD)
        ends = tuple(
            replace(each, log_start=start, log_end=end) if each.at == P0 else each
            for each in asked.view.log_ends
        )
        return replace(asked, view=replace(asked.view, log_ends=ends))

    (empty,) = ask(("C20",), at(5000, 5000))
    assert (empty.verdict, "explained" in empty.reason) == (Verdict.PASS, True)
    assert "begins at 5000, whatever its auto.offset.reset says" in empty.reason
    (some,) = ask(("C20",), at(5000, 5040))
    assert (some.verdict, "explained" in some.reason) == (Verdict.PASS, True)
    assert "at 5000 with auto.offset.reset=earliest" in some.reason
    assert "at 5040 with latest" in some.reason


def test_f01_an_offset_beyond_the_log_end_is_told_before_the_proof_fails_for_it() -> None:
    """A topic that was made anew: V10 would fail with the first snapshot, so `assess` says so."""
    asked = facts(OLD)
    held = {row.at: row.offset for row in asked.view.zookeeper_offsets}
    ends = tuple(
        replace(each, log_start=0, log_end=held[P0] - 1) if each.at == P0 else each
        for each in asked.view.log_ends
    )
    (found,) = ask(("C20",), replace(asked, view=replace(asked.view, log_ends=ends)))
    assert found.verdict is Verdict.FAIL
    assert f"{P0} (ZooKeeper {held[P0]}, log end {held[P0] - 1})" in found.reason
    assert "reset" in found.hint
    at_end = tuple(replace(each, log_end=held[P0]) if each.at == P0 else each for each in ends)
    (found,) = ask(("C20",), replace(asked, view=replace(asked.view, log_ends=at_end)))
    assert found.verdict is Verdict.PASS


def test_u17_a_rule_that_had_nothing_to_look_at_says_that_it_was_not_asked() -> None:
    """It passes, and counts apart; one that could fail counts as passed."""
    findings = {each.rule: each for each in ask(rulebook.RULES.assess, facts(OLD))}
    assert not findings["C28"].applies, "no member is migration-aware"
    assert not findings["C17"].applies if "C17" in findings else True
    assert findings["C05"].applies
    assert findings["C11"].applies
    aware = {each.rule: each for each in ask(rulebook.RULES.assess, facts(AWARE))}
    assert aware["C28"].applies
    assert not aware["C24"].applies, "no old member"
