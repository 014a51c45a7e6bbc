"""Znodes that stop everything today: each is one `Rejected` sentence that names the node, or is bounded."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from groupshift.domain.assignment import threads_by_topic
from groupshift.domain.modes import parse_holder
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import Pattern, Registration, parse_awareness, parse_registration
from groupshift.domain.topic_filter import _Automaton, compile_filter
from groupshift.domain.znodes import parse_broker, parse_cluster_id, parse_offset, parse_partitions
from groupshift.errors import Rejected

DEEP = b"[" * 1200
REGISTRATIONS = {
    "deep": DEEP,
    "deep, as a field": b'{"version":1,"subscription":{"a":1},"pattern":"static","x":' + DEEP,
    "deep, with a backslash": b'"\\q' + DEEP,
    "5,000 digits": b'{"subscription":{"a":' + b"9" * 5000 + b'},"pattern":"static"}',
    "a topic twice": b'{"subscription":{"a":1,"a":2},"pattern":"static"}',
    "half a character": b'{"subscription":{"\\ud800":1},"pattern":"static"}',
    "a path as topic": b'{"subscription":{"../../brokers":1},"pattern":"static"}',
    "the parent as topic": b'{"subscription":{"..":1},"pattern":"static"}',
    "a slash in a topic": b'{"subscription":{"a/b":1},"pattern":"static"}',
    "no topic": b'{"subscription":{"":1},"pattern":"static"}',
    "a topic of 250 characters": b'{"subscription":{"' + b"a" * 250 + b'":1},"pattern":"static"}',
    "a pattern that is no text": b'{"subscription":{"a":1},"pattern":{}}',
    "a list as pattern": b'{"subscription":{"a":1},"pattern":["static"]}',
    "huge": b'{"subscription":{"a":1},"pattern":"static","x":"' + b"x" * 5_000_000 + b'"}',
    "no UTF-8": b'{"subscription":{"a":1},"pattern":"static","x":"\xff\xfe"}',
}


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_s03_a_hostile_registration_is_one_short_sentence(name: str) -> None:
    """Whatever it holds: never another error, never a long text."""
    with pytest.raises(Rejected, match="/consumers/victim/ids/evil") as refused:
        parse_registration(REGISTRATIONS[name], "/consumers/victim/ids/evil")
    assert len(str(refused.value)) < 600


BROKERS = {
    "no host": b'{"version":1,"port":9092}',
    "host null": b'{"version":1,"host":null,"port":9092}',
    "a host that is none": b'{"version":1,"host":"evil:1,other","port":9092}',
    "a port that is text": b'{"version":1,"host":"kafka1","port":"9092"}',
    "a port that is none": b'{"version":1,"host":"kafka1","port":70000}',
    "a negative port": b'{"version":1,"host":"kafka1","port":-1}',
    "version true": b'{"version":true,"host":"kafka1","port":9092}',
    "version of text": b'{"version":"4","endpoints":[]}',
    "a fraction": b'{"version":1.5,"endpoints":[]}',
    "endpoints of text": b'{"version":4,"endpoints":"PLAINTEXT://kafka1:9092"}',
    "endpoints as object": b'{"version":4,"endpoints":{"a":1}}',
    "an endpoint that is no text": b'{"version":4,"endpoints":[5]}',
    "an endpoint without port": b'{"version":4,"endpoints":["PLAINTEXT://kafka1"]}',
    "an endpoint with port x": b'{"version":4,"endpoints":["PLAINTEXT://kafka1:x"]}',
    "an endpoint with 5,000 digits": b'{"version":4,"endpoints":["PLAINTEXT://kafka1:' + b"9" * 5000 + b'"]}',
    "two addresses in one": b'{"version":4,"endpoints":["PLAINTEXT://kafka1:9092,evil:1"]}',
    "no host in it": b'{"version":4,"endpoints":["PLAINTEXT://:9092"]}',
    "a map that is a list": b'{"version":4,"endpoints":["X://k:1"],"listener_security_protocol_map":["X"]}',
    "a map to numbers": b'{"version":4,"endpoints":["X://k:1"],"listener_security_protocol_map":{"X":1}}',
    "deep": DEEP,
}


@pytest.mark.parametrize("name", BROKERS)
def test_s03_a_hostile_broker_is_one_short_sentence(name: str) -> None:
    """No host, no port, other types; the node is named, and the remedy deletes nothing."""
    with pytest.raises(Rejected, match=r"/brokers/ids/1.*restart that broker") as refused:
        parse_broker(BROKERS[name], "/brokers/ids/1")
    assert len(str(refused.value)) < 400


def test_s03_one_hostile_broker_does_not_hide_the_others() -> None:
    """A consumer without bootstrap.servers starts with those that can be read."""
    from groupshift.consumers.zookeeper_nodes import endpoints_of

    good = b'{"version":5,"endpoints":["PLAINTEXT://kafka1:9092","SSL://[::1]:9093"],"features":{}}'
    found = endpoints_of(
        {"/brokers/ids/1": BROKERS["no host"], "/brokers/ids/2": good, "/brokers/ids/3": b""}
    )
    assert [str(each.server) for each in found] == ["kafka1:9092", "[::1]:9093"]
    with pytest.raises(Rejected, match="no broker can be read"):
        endpoints_of({"/brokers/ids/1": DEEP})


@pytest.mark.parametrize(
    "data",
    [
        DEEP, b'{"partitions":' + DEEP, b'{"partitions":"012"}', b'{"partitions":[0]}',
        b'{"partitions":{"-1":[]}}', b'{"partitions":{"1_0":[]}}', b'{"partitions":{"01":[]}}',
        b'{"partitions":{"' + b"9" * 5000 + b'":[]}}',
        b'{"partitions":{"2147483648":[]}}', b'{"partitions":{" 1":[]}}',
    ],
)  # fmt: skip
def test_s03_a_hostile_topic_node_is_one_short_sentence(data: bytes) -> None:
    """Partition numbers are plain decimals of 31 bits."""
    with pytest.raises(Rejected, match=r"/brokers/topics/t: .*repair the topic node") as refused:
        parse_partitions(data, "/brokers/topics/t")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "data",
    [b"9" * 5000, b"9" * 20, b"9223372036854775808", b"-1", b"+5", b" 12", b"1_000", b"12\n"],
)
def test_s03_an_offset_is_a_decimal_of_63_bits(data: bytes) -> None:
    """What Python's int() would take, or break on."""
    with pytest.raises(Rejected, match="/consumers/g/offsets/t/0") as refused:
        parse_offset(data, "/consumers/g/offsets/t/0")
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("data", [DEEP, b'{"run":"m","token":1e999}', b'{"run":"m","token":true}'])
def test_s03_a_hostile_fence_names_nobody(data: bytes) -> None:
    """As any foreign payload."""
    assert parse_holder(data) is None


def test_s03_other_hostile_nodes_are_refused_or_say_nothing() -> None:
    """Migration ids and the cluster's id."""
    for data in (DEEP, b'{"mode":' + DEEP):
        with pytest.raises(Rejected):
            parse_awareness(data)
        with pytest.raises(Rejected):
            parse_cluster_id(data)
    with pytest.raises(Rejected):
        parse_cluster_id(b'{"id":{"a":1}}')
    found = parse_awareness(b'{"mode":["kafka"],"mode_czxid":[1],"mode_mzxid":{},"fence":true,"software":5}')
    assert (found.mode, found.acting_on, found.fence, found.version) == (None, None, None, None)


def test_s03_the_transaction_log_has_nodes_with_5000_digits_too() -> None:
    """The audit of who owned what reads what anybody wrote."""
    from groupshift.audit import ownership
    from groupshift.audit.txnlog import Created, Transaction

    replay = ownership._Replay(root="/consumers/g")
    digits = "9" * 5000
    transaction = Transaction(session=1, zxid=1, time_ms=1, changes=())
    for path, data in (
        (f"/consumers/g/owners/t/{digits}", b"x"),
        ("/consumers/g/offsets/t/0", digits.encode()),
    ):
        replay.apply(transaction, Created(path=path, data=data))
    assert len(replay.problems) == 2
    assert TopicPartition("t", 0) not in {each.partition for each in replay.offsets}


EXPLODING = [
    "(a+)+$", "(a|a)*$", "(a|aa)+$", "(.*a){20}", "(a*)*b", "([a-z]+)*!", "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(x+x+)+y", ".*.*.*.*.*.*x", "(a?){200}a{200}", "(?=(a+)+$).*", "(?!(a+)+b).*b", r"(a+)\1*b",
    "((a*)*)*b", "(?i)(A+)+B", "([a-z]*)*[0-9]", "[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*[0-9]",
    "(a|b|ab)*c", "((a|b)+)+c", r"(\w+\.?)+!", r"\b(a+)+\b!", "(a*?)*?b", "(?:(?:a+)+)+!", "(a{1,50}){1,50}",
    "a{1,30000}", "(((a{100}){100}){100}){100}b", "(|a)+b", "(" * 200 + "a" + ")" * 200,
    "a{99999999999999999999}", "a*" * 5000 + "b", "(a|b)*a" + "(a|b)" * 190, "[" * 20_000,
    "(" * 20_000, "a|" * 100_000,
]  # fmt: skip

_EVALUATE = """
import json, sys
from groupshift.domain.registration import Pattern, Registration
from groupshift.errors import Rejected
names = ["a" * 249, "x" * 249, "ab" * 124, "a" * 28 + "!", "a" * 248 + "!", "orders.v1", "aB" * 100]
for text in json.load(sys.stdin):
    for pattern in (Pattern.WHITE_LIST, Pattern.BLACK_LIST):
        try:
            Registration(subscription=((text, 1),), pattern=pattern).topics(names)
        except Rejected as refused:
            assert len(str(refused)) < 600, refused
print("evaluated")
"""


def test_s09_no_topic_filter_explodes() -> None:
    """Refused, or followed by an automaton; the old engine needs longer than the universe has."""
    done = subprocess.run(
        [sys.executable, "-c", _EVALUATE],
        input=json.dumps(EXPLODING),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "evaluated\n", done.stderr


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("(a+)+", "a" * 249, "a" * 248 + "!"),
        ("^(a|aa)+$", "a" * 249, "a" * 248 + "b"),
        ("(.*a){20}", "xa" * 20, "xa" * 19),
        (r"(\w+\.)+orders", "eu.west.v1.orders", "eu.west.v1.order"),
        (".*-.*-.*-.*", "a-b-c-d", "a-b-cd"),
        ("([a-z]+(-[a-z]+)*,orders)", "eu-west-one", "eu--west"),
    ],
)
def test_s09_what_exploded_is_matched_by_an_automaton(text: str, matching: str, other: str) -> None:
    """With the answers that a backtracking engine would give if it came to an end."""
    assert isinstance(getattr(compile_filter(text).accepts, "__self__", None), _Automaton)
    assert compile_filter(text).fullmatch(matching)
    assert not compile_filter(text).fullmatch(other)


def test_s09_a_filter_that_is_refused_is_named_briefly() -> None:
    """A megabyte of filter is not repeated in the alarm."""
    for text in ("(" + "a" * 1_000_000 + ")+", r"(a+)+\1", "a{250}"):
        with pytest.raises(Rejected, match="topic filter") as refused:
            compile_filter(text)
        assert len(str(refused.value)) < 600


def test_s09_names_that_no_topic_has_match_nothing() -> None:
    """A child of /brokers/topics may be a megabyte long."""
    white = Registration(subscription=((".*x.*", 1),), pattern=Pattern.WHITE_LIST)
    black = Registration(subscription=(("y", 1),), pattern=Pattern.BLACK_LIST)
    assert white.topics(["x" * 250, "x"]) == {"x": 1}
    assert black.topics(["x" * 1_000_000, "x"]) == {"x": 1}


@pytest.mark.parametrize(
    "subscription",
    ['{"orders":30000000}', '{"orders":2147483647}', '{"orders":10001}', '{"orders":9223372036854775807}',
     "{" + ",".join(f'"t{n}":10000' for n in range(11)) + "}"],
)  # fmt: skip
@pytest.mark.parametrize("pattern", ["static", "white_list"])
def test_s10_more_streams_than_anybody_uses_are_refused(subscription: str, pattern: str) -> None:
    """As a problem of that node, before a single thread is counted out."""
    if pattern == "white_list" and "t10" in subscription:
        subscription = '{"t.*":10001}'
    data = f'{{"version":1,"subscription":{subscription},"pattern":"{pattern}"}}'.encode()
    with pytest.raises(Rejected, match=r"/consumers/g/ids/g_m: .*(streams|digits)"):
        parse_registration(data, "/consumers/g/ids/g_m")


def test_s10_streams_times_topics_times_members_are_bounded() -> None:
    """Each registration is within its bound; together they are not."""
    members = {f"g_m{number}": {f"t{topic}": 10_000 for topic in range(10)} for number in range(20)}
    members["g_most"] = {f"t{topic}": 10_000 for topic in range(11)}
    with pytest.raises(Rejected, match=r"2110000 streams .* g_most alone 110000"):
        threads_by_topic(members)


def test_s10_an_application_cannot_ask_for_them_either() -> None:
    """The same bound where a subscription is written."""
    from groupshift.consumers.consumer import read_subscription

    assert read_subscription({"orders": 10_000})[0] == {"orders": 10_000}
    with pytest.raises(Rejected, match="at most 10000"):
        read_subscription({"orders": 30_000_000})
