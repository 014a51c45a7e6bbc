"""The numbered rules of a protocol move's preflight: each passes where it should, and says what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.group_protocol import (
    AWAY,
    DOWNGRADING,
    POLICY,
    PROTOCOLS,
    UPGRADING,
    KafkaGroup,
    Kind,
    Policy,
    Protocol,
    ProtocolView,
    Way,
)
from groupshift.domain.protocol.preflight import RULES, ProtocolFacts, ask
from groupshift.domain.rows import (
    AssignmentRow,
    ClusterState,
    LogEndRow,
    OffsetRow,
    ProblemRow,
    SubscriptionRow,
)
from groupshift.domain.verdict import Finding, Verdict
from support.protocol_groups import broker, classic, consumer, member, view

UP, DOWN = Protocol.CONSUMER, Protocol.CLASSIC
PASS, WARNS, UNSURE, FAILS = Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.ERROR, Verdict.FAIL


def asked(seen: ProtocolView, to: Protocol = UP, way: Way = Way.ONLINE, **more: object) -> dict[str, Finding]:
    """The worst finding of each rule."""
    found: dict[str, Finding] = {}
    for finding in ask(ProtocolFacts(view=seen, to=to, way=way, **more)):  # type: ignore[arg-type]
        known = found.get(finding.rule)
        if known is None or finding.verdict.rank > known.verdict.rank:
            found[finding.rule] = finding
    return found


def verdicts(found: dict[str, Finding]) -> dict[str, Verdict]:
    """Of the rules that did not pass; P20 apart, which warns of every dynamic member that is rolled."""
    return {
        number: finding.verdict
        for number, finding in found.items()
        if finding.verdict is not PASS and number != "P20"
    }


def test_a_healthy_classic_group_passes_every_rule() -> None:
    """All of them are asked, in the order of their numbers."""
    found = asked(view(classic(3)))
    assert verdicts(found) == {}
    assert list(found) == list(RULES) == [f"P{n:02}" for n in range(1, len(RULES) + 1)]
    assert "PN14" in found["P08"].reason


def test_a_healthy_consumer_group_can_go_back() -> None:
    """The members bring their own assignor then."""
    found = asked(view(consumer(3)), DOWN)
    assert verdicts(found) == {}
    assert "partition.assignment.strategy" in found["P11"].hint


@pytest.mark.parametrize(
    ("group", "rule", "verdict", "said"),
    [
        (KafkaGroup(group="g", kind=Kind.ABSENT), "P01", FAILS, "no broker knows group g"),
        (KafkaGroup(group="g", kind=Kind.SHARE, state="Stable"), "P02", FAILS, "share group"),
        (KafkaGroup(group="g", kind=Kind.STREAMS, state="Stable"), "P02", FAILS, "streams group"),
        (classic(2, protocol_type="connect"), "P02", FAILS, "connect"),
        (classic(0, protocol_type="sr"), "P02", FAILS, "sr"),
        (KafkaGroup(group="g", kind=Kind.UNKNOWN, state="Loading"), "P02", UNSURE, "Loading"),
        (KafkaGroup(group="g", kind=Kind.CONSUMER, state="Stable"), "P02", UNSURE, "describes no member"),
    ],
)
def test_what_is_no_group_of_consumers_is_refused_by_name(
    group: KafkaGroup, rule: str, verdict: Verdict, said: str
) -> None:
    """And nothing else is said about it."""
    found = asked(view(group))
    assert verdicts(found) == {rule: verdict}
    assert said in found[rule].reason
    assert found[rule].hint
    assert max(found) == rule


def test_a_group_that_is_there_already_and_one_that_is_half_way() -> None:
    """The first has nothing to move; the second goes on."""
    assert asked(view(consumer(2)))["P03"].verdict is WARNS
    half = asked(view(consumer(2, 1)))["P03"]
    assert (half.verdict, "1 of 3" in half.reason) == (PASS, True)
    assert asked(view(classic(2)), DOWN)["P03"].verdict is WARNS


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("policy", Policy)
def test_the_answers_of_each_policy_are_judged(policy: Policy, way: Way) -> None:
    """Online a policy may refuse; offline never. The remedy names the setting and the restart."""
    up = asked(view(classic(3), broker(policy)), UP, way)["P08"]
    down = asked(view(consumer(3), broker(policy)), DOWN, way)["P08"]
    open_there = way is Way.OFFLINE or (policy in UPGRADING)
    open_back = way is Way.OFFLINE or (policy in DOWNGRADING)
    assert (up.verdict, down.verdict) == (PASS if open_there else FAILS, PASS if open_back else FAILS)
    for finding, is_open in ((up, open_there), (down, open_back)):
        assert is_open or ("restart" in finding.hint and POLICY in finding.hint)


def test_the_way_back_is_looked_at_before_the_way_there() -> None:
    """With policy upgrade the group would stay of type consumer: a warning, and offline remains."""
    back = asked(view(classic(3), broker(Policy.UPGRADE)))["P09"]
    assert (back.verdict, "PL06" in back.reason) == (WARNS, True)
    assert asked(view(classic(3)))["P09"].verdict is PASS


def test_brokers_must_be_alike() -> None:
    """Different policies or protocols fail; releases and other settings warn; one that serves no native
    member fails twice."""
    mixed = asked(view(classic(3), broker(), broker(Policy.UPGRADE)))
    assert verdicts(mixed) == {"P05": FAILS}
    assert "bidirectional at broker 1, upgrade at broker 2" in mixed["P05"].reason
    old = broker(heartbeats=0, descriptions=5, features={})
    releases = asked(view(classic(3), broker(), old))
    assert (verdicts(releases), "4.0 or newer at broker 1" in releases["P05"].reason) == (
        {"P05": WARNS},
        True,
    )
    unserved = asked(view(classic(3), broker(), broker(features={"group.version": 0})))
    assert verdicts(unserved) == {"P05": FAILS, "P07": FAILS}
    sizes = broker(properties={**broker().properties, "group.max.size": "10"})
    assert verdicts(asked(view(classic(3), broker(), sizes))) == {"P05": WARNS}


def test_the_answers_are_those_of_the_broker_that_coordinates_the_group() -> None:
    """Whatever another broker would answer."""
    down = broker(Policy.DOWNGRADE)
    assert asked(view(classic(3), broker(), down, coordinator=2))["P08"].verdict is FAILS
    assert asked(view(classic(3), broker(), down, coordinator=1))["P08"].verdict is PASS


def test_policy_disabled_fails_on_the_way_back_whether_members_are_admitted_or_not() -> None:
    """On 4.3.1 the classic member is refused (PC10), on 4.1.2 the group stays mixed (PC11, then PL06)."""
    admits = broker(properties={POLICY: "disabled", PROTOCOLS: "classic,consumer"})
    for at in (broker(Policy.DISABLED), admits):
        assert asked(view(consumer(3), at), DOWN)["P08"].verdict is FAILS


def test_settings_that_are_not_told_are_not_guessed() -> None:
    """Error: it could not be measured."""
    silent = broker(properties={PROTOCOLS: "classic,consumer"}, untold="CLUSTER_AUTHORIZATION_FAILED (31)")
    found = asked(view(classic(3), silent))
    assert {number: found[number].verdict for number in ("P04", "P08")} == {"P04": UNSURE, "P08": UNSURE}
    assert "31" in found["P04"].reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"loading": True}, "broker 2 is loading"),
        ({"coordinator": None}, "broker 2 names no coordinator"),
        ({"coordinator": 2}, "several coordinators: 1 (broker 1), 2 (broker 2)"),
        ({"lists": Kind.CLASSIC}, "broker 2 lists the group without coordinating it"),
    ],
)
def test_brokers_must_agree_on_the_coordinator(change: dict[str, object], said: str) -> None:
    """Whatever the second one says differently."""
    seen = view(classic(3), broker(), broker())
    second = replace(seen.brokers[1], **change)  # type: ignore[arg-type]
    found = asked(replace(seen, brokers=(seen.brokers[0], second)))
    assert verdicts(found) == {"P06": UNSURE}
    assert said in found["P06"].reason


def test_a_group_that_rebalances_is_waited_for() -> None:
    """Any state but Stable and Empty."""
    for state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        assert asked(view(replace(classic(3), state=state)))["P10"].verdict is WARNS
    assert asked(view(classic(0)))["P10"].verdict is PASS


@pytest.mark.parametrize(
    ("assignor", "verdict", "said"),
    [
        ("range", PASS, "group.remote.assignor=range"),
        ("roundrobin", PASS, ""),
        ("cooperative-sticky", WARNS, "offline"),
        ("org.example.Own", WARNS, "depend"),
    ],
)
def test_assignors_map_to_those_of_the_server(assignor: str, verdict: Verdict, said: str) -> None:
    """Range stays with group.remote.assignor, round robin becomes uniform, sticky ones are no safe bet."""
    found = asked(view(classic(3, protocol=assignor)))["P11"]
    assert found.verdict is verdict
    assert said in found.hint


def test_data_of_the_assignor_is_refused_online_and_passes_offline() -> None:
    """P08 names the row and the way round it; brokers before 4.0 do not look."""
    members = tuple(member(DOWN, n, user_data=20) for n in range(2))
    sticky = classic(2, protocol="cooperative-sticky", members=members)
    online = asked(view(sticky))
    assert (online["P08"].verdict, online["P11"].verdict) == (FAILS, WARNS)
    assert ("PN12" in online["P08"].reason, "--offline" in online["P08"].hint) == (True, True)
    assert asked(view(sticky), UP, Way.OFFLINE)["P08"].verdict is PASS
    assert asked(view(sticky, broker(descriptions=5)))["P11"].verdict is PASS


def test_an_offline_move_says_that_nobody_consumes_meanwhile() -> None:
    """And online of an empty group that there is nothing to roll."""
    offline = asked(view(classic(3)), UP, Way.OFFLINE)["P12"]
    assert (offline.verdict, "3 are in the group" in offline.reason) == (WARNS, True)
    assert "nobody is in the group" in asked(view(classic(0)))["P12"].reason


def test_offsets_are_complete_and_within_their_logs() -> None:
    """Missing ones warn where there are records, those outside fail, an incomplete state proves nothing."""

    def state(*offsets: tuple[int, int], problems: tuple[str, ...] = ()) -> ClusterState:
        return ClusterState(
            cluster_id="c",
            taken_at_ms=1,
            subscriptions=[SubscriptionRow(group="g", member_id="m", topic="t")],
            offsets=[OffsetRow(group="g", topic="t", partition=p, offset=o) for p, o in offsets],
            log_ends=[LogEndRow(topic="t", partition=p, log_start=s, log_end=9) for p, s in ((0, 0), (1, 9))],
            problems=[ProblemRow(group="g", problem=text) for text in problems],
        )

    def judged(found: ClusterState) -> Finding:
        return asked(view(classic(3)), state=found)["P13"]

    assert judged(state((0, 9))).verdict is PASS
    assert judged(state((0, 0), (1, 9))).verdict is PASS
    assert (judged(state()).verdict, "t-0" in judged(state()).reason) == (WARNS, True)
    assert (judged(state((0, 10))).verdict, "t-0 at 10" in judged(state((0, 10))).reason) == (FAILS, True)
    assert judged(state((0, 5), (1, 3))).verdict is PASS, "below the log start: explained"
    assert judged(state((0, 5), problems=("group 'g': unread",))).verdict is UNSURE


@pytest.mark.parametrize(
    ("subscribed", "verdict"),
    [("~ord.*", FAILS), ("~pay.*", PASS), ("~x{1,2}", FAILS), ("~(?P<a>b)", FAILS), ("other", PASS)],
)
def test_topics_that_an_expression_matches_are_read_before_anybody_has_them(
    subscribed: str, verdict: Verdict
) -> None:
    """The offset of one that was made anew is beyond its log; one that nobody reads is left over. What cannot
    be evaluated may match."""
    state = ClusterState(
        cluster_id="c",
        taken_at_ms=1,
        subscriptions=[SubscriptionRow(group="g", member_id="m", topic=subscribed)],
        assignments=[AssignmentRow(group="g", member_id="m", topic="payments", partition=0)],
        offsets=[OffsetRow(group="g", topic="orders", partition=0, offset=500)],
        log_ends=[LogEndRow(topic="orders", partition=0, log_start=0, log_end=9)],
    )
    assert asked(view(consumer(3)), DOWN, state=state)["P13"].verdict is verdict


def committed(
    *, topic_id: str = "new", epoch: int = 5, ended: int = -1, topic: str = "orders"
) -> ClusterState:
    """One commit, and the topic ``orders`` of today at epoch 5; ``ended`` is where its own epoch did."""
    from groupshift.domain.commit_places import TopicNow, Topics

    row = OffsetRow(group="g", topic=topic, partition=0, offset=7, leader_epoch=epoch, topic_id=topic_id)
    now = {name: TopicNow(topic=name, topic_id="new", epochs={0: 5}) for name in ("orders", "old")}
    return ClusterState(
        cluster_id="c",
        taken_at_ms=1,
        topics=Topics(now=now, ends={(topic, 0, epoch): ended}),
        assignments=[AssignmentRow(group="g", member_id="m", topic="orders", partition=0)],
        offsets=[row, OffsetRow(group="g", topic="orders", partition=0, offset=7)]
        if topic != "orders"
        else [row],
        log_ends=[LogEndRow(topic="orders", partition=0, log_start=0, log_end=9)],
    )


@pytest.mark.parametrize(("to", "topic_id"), [(UP, "former"), (UP, "another"), (DOWN, "former")])
def test_f03_a_commit_of_a_former_topic_is_no_offset_to_move_with(to: Protocol, topic_id: str) -> None:
    """A native member that asks by topic id is told none and resets; by name it is another record."""
    group = classic(3) if to is UP else consumer(3)
    found = asked(view(group), to, state=committed(topic_id=topic_id))["P13"]
    assert (found.verdict, "former topic" in found.reason, "orders-0 at 7" in found.reason) == (
        FAILS,
        True,
        True,
    )
    assert asked(view(group), to, state=committed())["P13"].verdict is PASS


@pytest.mark.parametrize(("epoch", "ended"), [(9, -1), (3, 2)])
def test_f10_a_foreign_leader_epoch_is_said_before_members_change(epoch: int, ended: int) -> None:
    """Too high or too low: a Java consumer that starts there reads nothing, or goes back."""
    found = asked(view(classic(3)), state=committed(epoch=epoch, ended=ended))["P13"]
    assert (found.verdict, f"orders-0 (epoch {epoch}, now 5)" in found.reason) == (WARNS, True)
    assert "groupshift repair epochs" in found.hint


def test_strays_of_a_topic_that_nobody_reads_are_left_over() -> None:
    """Neither a former topic's commit nor a foreign epoch of it stands in the way."""
    for state in (committed(topic="old", topic_id="former"), committed(topic="old", epoch=9)):
        assert asked(view(classic(3)), state=state)["P13"].verdict is PASS


def test_a_group_of_one_and_groups_that_are_empty_on_the_way() -> None:
    """Nobody consumes in between; in a group of type consumer old commits can go."""
    assert asked(view(classic(1)))["P14"].verdict is WARNS
    assert asked(view(classic(1)))["P15"].verdict is PASS
    back = asked(view(consumer(1)), DOWN)
    assert verdicts(back) == {"P14": WARNS, "P15": WARNS}
    assert asked(view(consumer(3)), DOWN, Way.OFFLINE)["P15"].verdict is WARNS
    assert asked(view(consumer(3)), DOWN)["P15"].verdict is PASS


def test_static_members_are_pointed_out() -> None:
    """Online to classic with their twins' remedy; one that is away counts until its session ends."""
    members = (member(UP, 1, epoch=3, instance_id="i1"), member(UP, 2, epoch=3, instance_id="i2"))
    static = consumer(2, members=members)
    found = asked(view(static), DOWN)["P16"]
    assert (found.verdict, "i1" in found.reason, "group.instance.id" in found.hint) == (PASS, True, True)
    away = replace(static, members=(members[0], replace(members[1], epoch=AWAY)))
    gone = asked(view(away), DOWN)["P16"]
    assert (gone.verdict, "45000 ms" in gone.hint) == (WARNS, True)


def test_members_that_cannot_be_read_or_told_apart() -> None:
    """The first stop a conversion online; the second are those of groups on brokers before 4.0."""
    unreadable = classic(2, members=(member(DOWN, unreadable="3 bytes"), member(DOWN, 2)))
    assert verdicts(asked(view(unreadable), UP, Way.OFFLINE))["P17"] is WARNS
    assert "PN11" in asked(view(unreadable))["P08"].reason
    untold = asked(view(consumer(2, members=(member(None), member(None, 2)))), DOWN)
    assert (untold["P18"].verdict, untold["P08"].verdict) == (WARNS, UNSURE)


def test_the_session_timeout_of_native_members_is_the_brokers_own() -> None:
    """Said on the way to consumer."""
    assert "45000 ms" in asked(view(classic(2)))["P19"].reason
    assert asked(view(consumer(2)), DOWN)["P19"].reason == RULES["P19"].holds


@pytest.mark.parametrize("to", [UP, DOWN])
def test_a_roll_of_dynamic_members_is_warned_of(to: Protocol) -> None:
    """They are counted; static members hand over at once, and offline nothing is rolled."""
    here = to.other
    ids = {"i1": 1, "i2": 2}
    static = tuple(member(here, n, epoch=3, instance_id=each) for each, n in ids.items())
    make = classic if to is UP else consumer
    found = asked(view(make(2)), to)["P20"]
    assert (found.verdict, "2 of 2 members are dynamic" in found.reason) == (WARNS, True)
    assert "group.instance.id" in found.hint
    mixed = make(2, members=(static[0], member(here, 3)))
    assert "1 of 2 members are dynamic" in asked(view(mixed), to)["P20"].reason
    assert asked(view(make(2, members=static)), to)["P20"].verdict is PASS
    assert asked(view(make(2)), to, Way.OFFLINE)["P20"].verdict is PASS
