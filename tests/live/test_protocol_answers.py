"""The tool predicts what a coordinator answers to members of the other protocol, and the broker gives it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer

from groupshift.adapters.kafka.broker_views import LiveProtocolViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import FeatureChange, update_features
from groupshift.adapters.kafka.wire import BrokerError
from groupshift.adapters.system import SystemClock
from groupshift.cli.main import main
from groupshift.domain.group_protocol import POLICY, Kind, Protocol, Way
from groupshift.domain.protocol.answers import AnswerOutcome, CoordinatorEvent
from groupshift.domain.protocol.live_rules import settled
from groupshift.domain.verdict import Verdict
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import marked, stop, wait_until
from support.protocol_story import PATIENCE_S, Given, Story, story


@pytest.fixture(scope="module")
def disabled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A 4.3.1 whose policy is `disabled`: no broker changes it while it runs (error 42)."""
    home = Home(tmp_path_factory.mktemp("disabled")).create()
    try:
        yield start_kraft(home, KraftOptions(heap="320m", properties={POLICY: "disabled"})).bootstrap
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


def outcomes(given: list[Given]) -> dict[str, tuple[AnswerOutcome, int]]:
    """Of each event, after every prediction was held against the broker."""
    for each in given:
        each.check()
    return {each.name: (each.predicted.outcome, each.code) for each in given}


def test_policy_bidirectional_answers_as_predicted(kraft: Cluster) -> None:
    """The table of docs/reference/coordinator-on-real-brokers.md §C, first column, on the session's 4.3.1."""
    with story(kraft.bootstrap) as told:
        found = outcomes(list(told.events()))
    assert found == {
        "native, no group": (AnswerOutcome.CREATED, 0),
        "native, live classic": (AnswerOutcome.CONVERTS, 0),
        "native, assignor with data": (AnswerOutcome.REFUSED, 69),
        "native, live connect": (AnswerOutcome.REFUSED, 69),
        "native, empty consumer": (AnswerOutcome.CONVERTS, 0),
        "native, empty connect": (AnswerOutcome.CONVERTS, 0),
        "classic, live consumer": (AnswerOutcome.ADMITTED, 0),
        "last native leaves classic ones": (AnswerOutcome.CONVERTS, 0),
        "last native leaves nobody": (AnswerOutcome.EMPTIED, 0),
        "classic, empty consumer": (AnswerOutcome.CONVERTS, 0),
        "classic, no group": (AnswerOutcome.CREATED, 0),
        "native, instance id taken": (AnswerOutcome.REFUSED, 111),
        "classic, no common assignor": (AnswerOutcome.REFUSED, 23),
        "classic, twin of the last native": (AnswerOutcome.CONVERTS, 0),
    }


def test_policy_disabled_answers_as_predicted(disabled: str) -> None:
    """Its last column: live groups keep their type and their members' protocol, empty ones convert."""
    with story(disabled) as told:
        found = outcomes(list(told.events()))
    assert found["native, live classic"] == (AnswerOutcome.REFUSED, 69)
    assert found["classic, live consumer"] == (AnswerOutcome.REFUSED, 23)
    assert "last native leaves classic ones" not in found
    assert found["native, empty consumer"] == (AnswerOutcome.CONVERTS, 0)
    assert found["classic, empty consumer"] == (AnswerOutcome.CONVERTS, 0)


def test_coordinator_31d_a_classic_member_is_never_admitted_where_the_policy_is_disabled(
    disabled: str,
) -> None:
    """It is answered 23 as often as it comes, and the native member keeps the group."""
    with story(disabled) as told:
        live = told.native()
        for _ in range(3):
            refused = told.join_classic(live.group)
            refused.check()
            assert refused.code == 23
            live.beat()
        found = told.look(live.group)
    assert (found.kind, found.state) == (Kind.CONSUMER, "Stable")
    assert [each.member_id for each in found.members] == [live.member_id]


def test_a_feature_that_was_taken_back_is_seen_by_the_next_look(disabled: str) -> None:
    """With group.version at 0 native members are answered 35, and their group is told by the lists only; the
    connections are those of before. An empty group of theirs still converts to classic."""
    cluster = KafkaCluster(disabled, timeout_s=PATIENCE_S)
    (broker,) = cluster.attempt(cluster.brokers)
    with story(disabled) as told:
        live, left = told.native(), told.native()
        left.leave()
        assert told.look(live.group).epoch == live.epoch
        update_features(
            cluster.broker(broker.node_id), {"group.version": 0}, change=FeatureChange.SAFE_DOWNGRADE
        )
        try:
            wait_until(
                lambda: told.predict(CoordinatorEvent.NATIVE_JOINS, live.group).code == 35, PATIENCE_S, "35"
            )
            found = told.look(live.group)
            assert (found.kind, found.state, found.members, found.empty) == (
                Kind.CONSUMER,
                "Stable",
                (),
                False,
            )
            assert told.predict(CoordinatorEvent.NATIVE_JOINS, live.group).number == "PN01"
            with pytest.raises(BrokerError, match=r"UNSUPPORTED_VERSION \(35\)"):
                told.join_native(live.group)
            told.join_classic(left.group).check()
        finally:
            update_features(cluster.broker(broker.node_id), {"group.version": 1})
            cluster.close()
        wait_until(
            lambda: told.predict(CoordinatorEvent.NATIVE_JOINS, live.group).code == 0,
            PATIENCE_S,
            "group.version 1",
        )


def test_coordinator_23_a_cooperative_group_of_librdkafka_answers_a_native_member_as_predicted(
    kraft: Cluster, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scenario 23. librdkafka fills the assignment's user data in some rebalances and in others not (both
    seen), so what is predicted is what the first real native member meets: -150 or a converted group."""
    topic = f"sticky-{group}"
    create_topic(kraft.bootstrap, topic, 2)
    usual = {"bootstrap.servers": kraft.bootstrap, "group.id": group, "enable.auto.commit": False}
    cooperative = usual | {"partition.assignment.strategy": "cooperative-sticky"}
    members: list[Consumer] = []
    try:
        for shares in ([2], [1, 1]):
            members.append(Consumer(cooperative))
            members[-1].subscribe([topic])
            wait_until(lambda shares=shares: held(members) == shares, PATIENCE_S, f"{shares} partitions")
        with story(kraft.bootstrap) as told:
            told.await_group(group, lambda found: found.state == "Stable" and len(found.members) == 2)
            data = any(each.user_data for each in told.look(group).members)
            answers = {way: assessed(kraft, group, way, capsys) for way in Way}
            members.append(Consumer(usual | {"group.protocol": "consumer"}))
            members[-1].subscribe([topic])
            met = first_answer(told, group, members)
    finally:
        for member in members:
            member.close()
    code, online = answers[Way.ONLINE]
    (first,) = online["observed"]["answers"]
    assert (first["number"], first["code"]) == (("PN12", 69) if data else ("PN14", 0))
    assert (code, online["ready"]) == ((1, False) if data else (0, True))
    assert {each["rule"]: each["verdict"] for each in online["findings"]}["P11"] == "inconclusive"
    code, offline = answers[Way.OFFLINE]
    assert (code, offline["ready"]) == (0, True)
    assert offline["observed"]["answers"][0]["number"] == "PN06"
    assert met == ((-150, False) if data else (0, False))


def held(members: list[Consumer]) -> list[int]:
    """How many partitions each has, after a poll of each."""
    for member in members:
        member.poll(0.1)
    return [len(member.assignment()) for member in members]


def first_answer(told: Story, group: str, members: list[Consumer]) -> tuple[int, bool]:
    """Code and `fatal()` of the message that the last member gets; 0 when the group has become one of type
    consumer instead."""
    found: list[tuple[int, bool]] = []

    def answered() -> bool:
        for member in members:
            message = member.poll(0.05)
            if member is members[-1] and message is not None and message.error():
                found.append((message.error().code(), message.error().fatal()))
        if told.look(group).kind is Kind.CONSUMER:
            found.append((0, False))
        return bool(found)

    wait_until(answered, PATIENCE_S, f"an answer to the native member of {group}")
    return found[0]


def assessed(kraft: Cluster, group: str, way: Way, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict]:
    """Exit code and document of the verb."""
    command = ["protocol", "assess", "--group", group, "--to", "consumer", "--json", "--timeout", "60"]
    command += ["--offline"] if way is Way.OFFLINE else []
    code = main([*command, "--bootstrap-servers", kraft.bootstrap])
    return code, json.loads(capsys.readouterr().out)


def test_groups_that_are_none_of_consumers_are_refused_by_name(
    kraft: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A share group, one of Connect, and one that nobody knows: one finding that says it, exit code 1."""
    with story(kraft.bootstrap) as told:
        connect, share, nobody = told.classic(kind="connect").group, told.group(), told.group()
        told.join_share(share)
        told.await_group(share, lambda found: found.kind is Kind.SHARE)
        for group, rule, said in (
            (connect, "P02", "of protocol type connect"),
            (share, "P02", "is a share group"),
            (nobody, "P01", "no broker knows group"),
        ):
            code, document = assessed(kraft, group, Way.ONLINE, capsys)
            found = [each for each in document["findings"] if each["rule"].startswith("P")]
            assert (code, document["verdict"], found[-1]["rule"]) == (1, "fail", rule)
            assert said in found[-1]["reason"]
            assert (document["observed"]["answers"], len(found)) == ([], int(rule[1:]))


def test_settled_is_said_of_a_group_once_all_its_members_are_native(
    kraft: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while a classic member is left (PS05), then with equal epochs; a group of classic ones is not."""
    views = LiveProtocolViews(KafkaCluster(kraft.bootstrap, timeout_s=PATIENCE_S), SystemClock())

    def bad(group: str, to: Protocol) -> set[str]:
        found = settled(views.look(group), to)
        return {each.rule for each in found if each.verdict is not Verdict.PASS}

    with closing(views), story(kraft.bootstrap) as told:
        native = told.native()
        assert bad(native.group, Protocol.CONSUMER) == set()
        found = told.look(native.group)
        assert found.epoch == found.assignment_epoch == native.epoch
        assert "PS01" in bad(native.group, Protocol.CLASSIC)
        assess = ["protocol", "assess", "--group", native.group, "--bootstrap-servers", kraft.bootstrap]
        monkeypatch.setenv("COLUMNS", "250")
        assert main([*assess, "--to", "classic", "--all"]) == 0
        shown = capsys.readouterr().out
        lacks = [word for word in (native.member_id[:8], "P08", "PL04", "next:") if word not in shown]
        assert lacks == [], shown
        assert f"groupshift protocol run --group {native.group} --to classic" in shown
        classic = told.classic()
        told.join_native(classic.group)
        assert "PS05" in bad(classic.group, Protocol.CONSUMER)
        assert told.look(classic.group).kind is Kind.CONSUMER
