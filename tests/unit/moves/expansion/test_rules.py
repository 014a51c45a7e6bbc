"""Every rule of placement complains of what it is there for, says a remedy, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from groupshift.domain.cluster import QuorumView, TopicView
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.group_protocol import KafkaGroup, Kind
from groupshift.domain.verdict import Verdict
from groupshift.log import LogRecord
from groupshift.moves.expansion.facts import PlacementFacts
from groupshift.moves.expansion.rules import RULES, transacting
from support.downgrade_clusters import listed
from support.placement_clusters import answering, at, changed, commit, complaints, facts, leading, view

GROUPS = [f"g{number}" for number in range(30)]
MOVING = sorted(group for group in GROUPS if partition_of(group, 5) != partition_of(group, 8))
EVERYWHERE = {1: [listed(group, state="Empty") for group in GROUPS]}


def only(found: Mapping[str, list[tuple[Verdict, str]]], rule: str) -> tuple[Verdict, str]:
    """The one complaint that there is."""
    assert set(found) == {rule}
    (complaint,) = found[rule]
    return complaint


@pytest.mark.parametrize("to", [None, 16])
def test_a_cluster_at_rest_has_nothing_against_it(to: int | None) -> None:
    """All brokers count what there is, everything is at home."""
    assert complaints(facts(view(groups=EVERYWHERE), at(GROUPS, 8), to=to)) == {}


def test_numbers_are_unique_and_in_order() -> None:
    """X01 to the last."""
    assert list(RULES) == [f"X{number:02}" for number in range(1, len(RULES) + 1)]


def latent(to: int | None = None) -> PlacementFacts:
    """Five became eight, nobody was restarted since."""
    found = view(8, {1: 5, 2: 5, 3: 5}, groups=EVERYWHERE)
    return facts(found, at(GROUPS, 5), to=to, held=5)


def test_the_latent_bomb() -> None:
    """An audit says what the next restart does, to whom; a plan is what cures it, and may begin."""
    verdict, reason = only(complaints(latent()), "X04")
    assert verdict is Verdict.FAIL
    assert f"{len(MOVING)} of 30 groups move then, and lose their offsets ({MOVING[0]}" in reason
    found = complaints(latent(8))
    assert [verdict for verdict, _ in found["X04"]] == [Verdict.INCONCLUSIVE]
    assert {each for each, said in found.items() if said[0][0] is Verdict.FAIL} == set()
    assert latent(8).moving == set(MOVING)


def test_the_latent_bomb_on_one_broker_is_told_by_the_log() -> None:
    """It leads everything, so its answers say nothing; where the newest commits lie does."""
    one = view(8, {1: 5}, groups=EVERYWHERE)
    assert only(complaints(facts(one, at(GROUPS, 5), held=5)), "X04")[0] is Verdict.FAIL
    assert complaints(facts(one, at(GROUPS, 8))) == {}
    unread = complaints(facts(one, None))
    assert unread["X04"][0][0] is Verdict.INCONCLUSIVE
    assert unread["X07"][0][0] is Verdict.ERROR


def test_brokers_that_lead_nothing_prove_no_count() -> None:
    """One leads everything and counts eight; what the others count shows when they lead again."""
    found = view(8)
    alone = replace(found, topic=TopicView(leaders=leading(8, (1,)), replicas=(3,) * 8))
    alone = replace(alone, answers=answering({1: 8, 2: 5, 3: 5}, alone.topic.leaders))
    verdict, reason = only(complaints(facts(alone, at(GROUPS, 8))), "X04")
    assert verdict is Verdict.INCONCLUSIVE
    assert "what broker 2, 3 answers fits 8 partitions and other counts" in reason


def test_a_latent_bomb_whose_count_cannot_be_told() -> None:
    """One broker, one group: eight is ruled out, several are left."""
    group = next(each for each in GROUPS if partition_of(each, 5) != partition_of(each, 8))
    verdict, reason = only(
        {
            each: said
            for each, said in complaints(facts(view(8, {1: 5}), at([group], 5))).items()
            if each == "X04"
        },
        "X04",
    )
    assert verdict is Verdict.FAIL
    assert "which groups move then cannot be told" in reason


def test_what_was_not_told_is_not_passed() -> None:
    """A broker that fits no count, keys without a group, a group without a state."""
    odd = view(8)
    names = dict.fromkeys(odd.answers[0].named, 9)
    odd = replace(odd, answers=(replace(odd.answers[0], named=names), *odd.answers[1:]))
    assert complaints(facts(odd))["X05"][0][0] is Verdict.ERROR
    unreadable = LogRecord(partition=0, offset=0, timestamp_ms=1, key=b"\0\1\0\x40", value=b"")
    assert only(complaints(facts(view(), [unreadable])), "X07")[0] is Verdict.INCONCLUSIVE
    stateless = view(groups={1: [listed("g1", state="")]})
    assert "X13" in complaints(facts(stateless, at(["g1"], 8), to=16))


def test_a_mixed_window() -> None:
    """The brokers that deviate are named, with what they count, and groups with two owners or none."""
    found = view(8, {1: 5, 2: 5, 3: 8}, groups=EVERYWHERE)
    said = complaints(facts(found, at(GROUPS, 5)))
    assert [reason for _, reason in said["X04"]] == [
        "broker 1 counts 5, and __consumer_offsets has 8 partitions",
        "broker 2 counts 5, and __consumer_offsets has 8 partitions",
    ]
    assert all(verdict is Verdict.FAIL for verdict, _ in said["X05"])
    assert "served by two brokers" in said["X05"][0][1]
    strange = view(8, {1: 8, 2: 8, 3: 12}, configured={3: 12})
    assert "broker 3 counts 12" in complaints(facts(strange))["X04"][0][1]


def test_groups_listed_twice() -> None:
    """A warning on a cluster that agrees: residue; it is served by one."""
    twice = {1: [listed("g1", state="Empty")], 2: [listed("g1", state="Empty")]}
    assert only(complaints(facts(view(groups=twice), at(["g1"], 8))), "X06") == (
        Verdict.INCONCLUSIVE,
        "1 group is listed by two brokers: 'g1' at 1 and 2",
    )
    one = {3: [listed("g1", state="Empty"), listed("g1", state="Empty")]}
    assert only(complaints(facts(view(groups=one), at(["g1"], 8))), "X06") == (
        Verdict.INCONCLUSIVE,
        "1 group is listed twice by one broker: 'g1' at 3",
    )


def test_what_lies_elsewhere() -> None:
    """Lost offsets fail; stale ones fail where an OLD coordinator may prefer them; the rest is residue."""
    groups = {1: [listed("g9", state="Empty")]}
    home = partition_of("g9", 8)
    assert (
        "1 offsets of 1 group lie where 8 partitions do not put them"
        in only(complaints(facts(view(groups=groups), [commit("g9", 0)])), "X07")[1]
    )
    stale = [commit("g9", 0, at=50, ms=5), commit("g9", home, at=3, ms=9)]
    old = complaints(facts(view(groups=groups, release="3.4.1"), stale))
    assert old["X07"][0][0] is Verdict.FAIL
    assert "an OLD coordinator" in old["X07"][0][1]
    new = complaints(facts(view(groups=groups), stale))
    assert new["X07"] == [(Verdict.INCONCLUSIVE, "residue of another count is there of 1 group: g9")]


def test_brokers_that_do_not_tell() -> None:
    """Their groups or their configuration would be missing."""
    assert only(complaints(facts(changed(view(), 2, loading=True))), "X03")[0] is Verdict.ERROR
    untold = complaints(facts(changed(view(), 2, untold="no right")))
    assert only(untold, "X03") == (Verdict.ERROR, "broker 2 does not tell its configuration: no right")


def test_replicas_and_leaders() -> None:
    """Every partition is led, and in sync at all its replicas, before anything is restarted."""
    behind = replace(view(), topic=TopicView(leaders=leading(8), replicas=(3,) * 8, behind={4: (2,)}))
    assert only(complaints(facts(behind)), "X02") == (
        Verdict.FAIL,
        "partition 4 of __consumer_offsets is not in sync on broker 2",
    )
    few = replace(view(), topic=TopicView(leaders=leading(8), replicas=(3,) * 7 + (1,)))
    assert only(complaints(facts(few)), "X02")[0] is Verdict.INCONCLUSIVE
    leaderless = replace(view(), topic=TopicView(leaders=(-1, *leading(8)[1:]), replicas=(3,) * 8))
    assert "X02" in complaints(facts(leaderless))


def test_configured_counts() -> None:
    """What a broker is configured with matters when the topic is made: a warning, and worse without it."""
    said = only(complaints(facts(view(configured={3: 50}))), "X08")
    assert said == (
        Verdict.INCONCLUSIVE,
        "broker 3 has offsets.topic.num.partitions=50, and __consumer_offsets has 8 partitions",
    )
    absent = complaints(facts(view(0, {1: 50, 2: 50, 3: 50}, configured={1: 5, 2: 50, 3: 50})))
    assert absent["X08"][0][0] is Verdict.FAIL
    assert "whichever broker a client asks first makes it, with 5 or 50 partitions" in absent["X01"][0][1]


def test_metadata_that_differs() -> None:
    """One broker tells another topic than the others: look again."""
    found = view(8, {1: 8, 2: 5, 3: 8}, differing=(2,))
    assert only(complaints(facts(found)), "X01")[0] is Verdict.ERROR


LEADERLESS = QuorumView(leader=-1, voters=(1,), high_watermark=1)
PLANNED: dict[str, tuple[object, int, Verdict, str]] = {
    "X09": (
        changed(view(), 2, supported={"metadata.version": (1, 8)}),
        16, Verdict.FAIL, "both group coordinators",
    ),
    "X10": (
        replace(view(), cluster=replace(view().cluster, quorum=LEADERLESS)),
        16, Verdict.FAIL, "no leader",
    ),
    "X11": (view(open_transactions={3: ("pay-1",)}), 16, Verdict.FAIL, "transactional id 'pay-1'"),
    "X12": (view(), 12, Verdict.INCONCLUSIVE, "12 is no multiple of 8"),
}  # fmt: skip


@pytest.mark.parametrize("rule", PLANNED)
def test_what_is_in_the_way_of_a_plan(rule: str) -> None:
    """Each by itself."""
    found, to, verdict, said = PLANNED[rule]
    assert isinstance(found, type(view()))
    complaint = only(complaints(facts(found, to=to)), rule)
    assert complaint[0] is verdict
    assert said in complaint[1]


@pytest.mark.parametrize(
    ("group", "rule", "verdict"),
    [
        (listed("g1", state="Stable"), "X13", Verdict.INCONCLUSIVE),
        (listed("g1", Kind.SHARE, state="Empty", protocol_type="share"), "X14", Verdict.FAIL),
    ],
)
def test_groups_that_a_plan_waits_for_or_refuses(group: KafkaGroup, rule: str, verdict: Verdict) -> None:
    """Members must leave before; what a share group keeps cannot be committed again."""
    to = next(count for count in (16, 24, 32) if partition_of("g1", 8) != partition_of("g1", count))
    found = facts(view(groups={1: [group]}), at(["g1"], 8), to=to)
    assert only(complaints(found), rule)[0] is verdict


@pytest.mark.parametrize("moves", [False, True])
def test_groups_that_only_the_log_has(*, moves: bool) -> None:
    """Nobody lists them: one that moves could not be deleted, and would hold up the run after all others
    were."""
    group = next(each for each in GROUPS if (partition_of(each, 8) != partition_of(each, 16)) is moves)
    found = facts(view(), at([group], 8), to=16)
    verdict, reason = only(complaints(found), "X15")
    assert verdict is (Verdict.FAIL if moves else Verdict.INCONCLUSIVE)
    assert ("moves and is listed by no broker" in reason) is moves
    assert repr(group) in reason


@pytest.mark.parametrize(("to", "verdict"), [(None, Verdict.INCONCLUSIVE), (16, Verdict.FAIL)])
def test_a_transaction_that_nobody_tells_of_is_seen_in_the_log(to: int | None, verdict: Verdict) -> None:
    """Brokers before 3.0 list none, some may not be described, and one that hangs is not listed: its records
    hold the last stable offset back."""
    found = view(unstable=(2, 3), open_transactions={3: ("pay-1",)})
    told = complaints(facts(found, to=to))["X11"]
    assert [each for each, _ in told] == [verdict, verdict]
    assert "transaction is open in partition 2 of the offsets topic, and no broker tells which" in told[1][1]
    assert "transactional id 'pay-1' writes offsets to partition" in transacting(found)
    assert "; stop that producer" in transacting(found)
    assert "partition 2" in transacting(view(unstable=(2,)))
    assert "find-hanging" in transacting(view(unstable=(2,)))
    assert transacting(view()) == ""


def test_an_open_transaction_is_a_warning_to_an_audit() -> None:
    """It ends some time; a plan waits for it."""
    found = view(open_transactions={3: ("pay-1",)})
    assert only(complaints(facts(found)), "X11")[0] is Verdict.INCONCLUSIVE


def test_residue_of_a_group_that_moves_forbids_a_plan() -> None:
    """Its deletion could not be proven: the log has something of it afterwards, too. Others are only told."""
    moves = next(
        f"g{number}" for number in range(99) if partition_of(f"g{number}", 5) != partition_of(f"g{number}", 8)
    )
    stays = next(
        f"g{number}" for number in range(99) if partition_of(f"g{number}", 5) == partition_of(f"g{number}", 8)
    )
    for group, verdict in ((moves, Verdict.FAIL), (stays, Verdict.INCONCLUSIVE)):
        home = partition_of(group, 5)
        log = [commit(group, home, at=1, ms=9_000), commit(group, (home + 1) % 5, ms=1_000)]
        found = complaints(facts(view(5), log, to=8))
        assert [each for each, _ in found["X07"]] == [verdict]
        twice = {node: (listed(group, state="Empty"),) for node in (1, 2)}
        found = complaints(facts(view(5, groups=twice), [log[0]], to=8))
        assert [each for each, _ in found["X06"]] == [verdict]


@pytest.mark.parametrize("to", [None, 16])
def test_f13_of_a_log_that_another_broker_wrote_no_place_is_claimed(to: int | None) -> None:
    """Where its groups belong is for its makers to say: no residue, no lost offset, nothing to repair."""
    elsewhere = facts(view(groups=EVERYWHERE), at(GROUPS, 5), to=to, held=8)
    assert elsewhere.log is not None
    assert complaints(elsewhere)["X07"][0][0] is Verdict.FAIL
    foreign = replace(elsewhere)
    vars(elsewhere.log)["others_wrote"] = ("GroupMetadata",)
    ((verdict, reason),) = complaints(foreign)["X07"]
    assert verdict is Verdict.ERROR
    assert "GroupMetadata in the log were not written by Apache Kafka" in reason
