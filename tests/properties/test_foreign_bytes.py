"""Seeded mutations of real znodes through every reader of them: only our own errors, in bounded time and
memory.

Ten thousand in the suite; ``GROUPSHIFT_FUZZ=1000000`` runs as many as it says, and ``GROUPSHIFT_FUZZ_SEED``
makes others.
"""

from __future__ import annotations

import os
import random
import re
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from groupshift.adapters.zookeeper.nodes import member_of, mode_problems, offset_of, owner_of
from groupshift.adapters.zookeeper.session import Node, as_mode
from groupshift.audit.ownership import _Replay
from groupshift.audit.txnlog import Created, Transaction
from groupshift.domain import znodes
from groupshift.domain.assignment import threads_by_topic
from groupshift.domain.group import GroupView, merge
from groupshift.domain.modes import Holder, parse_holder
from groupshift.domain.old_members import assignments
from groupshift.domain.reconcile import CoordinationView, Member, Situation, decide
from groupshift.domain.registration import (
    Pattern,
    Registration,
    encode_awareness,
    encode_registration,
    parse_awareness,
    parse_registration,
)
from groupshift.domain.rows import OffsetRow
from groupshift.domain.topic_filter import clean_filter, compile_filter
from groupshift.domain.znodes import parse_broker, parse_cluster_id, parse_offset, parse_partitions
from groupshift.errors import GroupshiftError
from groupshift.log.decode import parse_assignment
from groupshift.scan.group_state import NodeTimes, Observed, state_of
from support.znodes import znode

TIMES = int(os.environ.get("GROUPSHIFT_FUZZ", "10000"))
SEED = int(os.environ.get("GROUPSHIFT_FUZZ_SEED", "21"))
SLOWEST_S, MOST_KIB, LONGEST = 1.0, 256 * 1024, 1500
TOPICS = ("orders", "clicks", "eu.orders-v1", "x" * 249, "__consumer_offsets")

_STATIC = Registration(subscription=(("orders", 2), ("clicks", 1)), timestamp="1486000000000")
_WHITE = Registration(subscription=((r"(?!foo)(orders|clicks\.v\d+)-?.*", 3),), pattern=Pattern.WHITE_LIST)
_BLACK = Registration(subscription=(("([a-z]+-)*internal,__.*", 1),), pattern=Pattern.BLACK_LIST)
SEEDS = (
    encode_registration(_STATIC),
    encode_registration(_WHITE),
    encode_registration(_BLACK),
    encode_awareness(_STATIC, software="0.4.0"),
    b'{"version":1,"subscription":{"a\\.b.*":1},"pattern":"white_list","timestamp":1486000000000}',
    b'{"jmx_port":-1,"timestamp":"1486000000000","host":"kafka1","version":1,"port":9092}',
    (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","EXT":"SASL_SSL"},"endpoints":'
        b'["PLAINTEXT://kafka1:9092","EXT://[2001:db8::1]:9093"],"jmx_port":-1,"port":9092,"host":"kafka1",'
        b'"version":5,"timestamp":"1486000000000"}'
    ),
    b'{"partitions":{"0":[1,2],"1":[2,1],"10":[1]},"topic_id":"x","adding_replicas":{},"version":3}',
    b'{"version":"1","id":"1N7JbZwjS-aW9JCXTZUbGQ"}',
    Holder(run="m-1", token=3).encode(),
    b"9223372036854775807",
    b"kafka",
    b"g_box.a-1486000000000-ab12cd34-0",
    b"box:1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    b"mytopic",
    b"",
)
PIECES = (
    b"9" * 5000, b"1e999", b"NaN", b"-Infinity", b"[" * 2000, b'{"a":' * 300, b"]" * 50, b'"\\ud800"',
    b"null", b"true", b"-1", b"30000000", b"1.5", b'""', b"{}", b"[]", b"\x00", b"\xff\xfe",
    b"\xef\xbb\xbf", b"../..", b"/", b"a+)+", b"(a*)*", b"(.*x){20}", b".*" * 9, b"\\\\", b"\\1", b"(?=",
    b"{249}", b"\xe2\x80\xae", b" " * 40, b'"subscription"', b'"pattern"', b"endpoints", b"\xd9\xa3",
    b"\xc2\xb2", b"0x10", b"," * 30, b"|" * 300, b"x" * 4000,
)  # fmt: skip


def flip(data: bytes, at: int, rng: random.Random) -> bytes:
    """One bit."""
    changed = bytes([data[at] ^ 1 << rng.randrange(8)]) if at < len(data) else b""
    return data[:at] + changed + data[at + 1 :]


def splice(data: bytes, at: int, rng: random.Random) -> bytes:
    """The end of another node."""
    other = rng.choice(SEEDS)
    return data[:at] + other[rng.randint(0, len(other)) :]


def nest(data: bytes, _at: int, rng: random.Random) -> bytes:
    """Around the bounds of depth."""
    depth = rng.choice((1, 40, 64, 65, 1200))
    return b"[" * depth + data + b"]" * depth


def renumber(data: bytes, _at: int, rng: random.Random) -> bytes:
    """Something else for one of its numbers."""
    numbers = list(re.finditer(rb"[0-9]+", data))
    if not numbers:
        return data
    start, end = rng.choice(numbers).span()
    return data[:start] + rng.choice(PIECES) + data[end:]


MUTATIONS: tuple[Callable[[bytes, int, random.Random], bytes], ...] = (
    flip,
    splice,
    nest,
    renumber,
    lambda data, at, _rng: data[:at],
    lambda data, at, rng: data[:at] + rng.choice(PIECES) + data[at:],
    lambda data, at, rng: data[:at] + data[: rng.randint(0, 60)] + data[at:],
    lambda data, at, rng: data[:at] + data[at + rng.randint(1, 8) :],
    lambda data, at, rng: data[:at] + bytes([rng.randrange(256)]) + data[at:],
)


def mutated(rng: random.Random) -> bytes:
    """A real znode after one to four mutations: flips, cuts, nesting, huge numbers, splices of another."""
    data = rng.choice(SEEDS)
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(MUTATIONS)(data, rng.randint(0, len(data)), rng)
    return data


def node(path: str, data: bytes, owner: int) -> Node:
    """A znode of group g."""
    return znode(f"/consumers/g/{path}", data, owner)


def view_of(data: bytes, owner: int) -> Any:
    """Everything a scan does with a group whose every node holds this."""
    from groupshift.domain.foreign_text_quoting import visible
    from groupshift.domain.group import NoOffset

    name = data[:40].decode("latin-1").replace("/", "_") or "x"
    registered, aware = node("ids/g_m1", data, owner), node("migration/ids/g_m1", data, owner)
    members, problems = zip(*(member_of(registered, each) for each in (None, aware)), strict=True)
    owned = [owner_of(node(f"owners/t/{at}", data, owner)) for at in ("0", name)]
    offsets = [offset_of(node(f"offsets/t/{at}", data, owner)) for at in ("0", name)]
    mode = as_mode(node("migration/mode", data, 0))
    side = GroupView(
        group="g", exists=True, mode=mode, ids=("g_m1",), migration_ids=(), members=members[:1],
        owners=tuple(each for each in owned if not isinstance(each, str | None)),
        zookeeper_offsets=tuple(each for each in offsets if isinstance(each, OffsetRow)),
        no_offsets=tuple(each for each in offsets if isinstance(each, NoOffset)),
        problems=(*mode_problems("/consumers/g/migration/mode", mode), *problems[0], *problems[1]),
    )  # fmt: skip
    view = merge(1, side, GroupView(group="g", topics=dict.fromkeys(TOPICS, 2)))
    for problem in view.problems:
        assert len(problem) < 3000, problem
        visible(problem)
    assignments(view)
    return state_of(Observed(view=view, times=NodeTimes()), None)


def decided(data: bytes, _owner: int) -> Any:
    """What a member makes of it that meets this registration and this topic node."""
    own = Registration(subscription=(("orders", 1),))
    view = CoordinationView(
        registrations={"g_me": own, "g_m1": parse_registration(data)},
        partitions={topic: parse_partitions(b'{"partitions":{"0":[],"1":[]}}') for topic in TOPICS},
    )
    member = Member(consumer_id="g_me", subscription={"orders": 1}, aware=True)
    return decide(Situation(member=member, view=view))


def expanded(data: bytes, _owner: int) -> Any:
    """A registration, its topics and its threads."""
    found = parse_registration(data, "/consumers/g/ids/g_m1")
    return threads_by_topic({"g_m1": found.topics(TOPICS)})


def filtered(data: bytes, _owner: int) -> Any:
    """The bytes as a topic filter."""
    compiled = compile_filter(data.decode("latin-1"))
    return [compiled.fullmatch(name) for name in (*TOPICS, "a" * 249, "a" * 40 + "!")]


def replayed(data: bytes, _owner: int) -> Any:
    """The bytes in the transaction log, as data and as names."""
    replay = _Replay(root="/consumers/g")
    name = data[:100].decode("latin-1")
    transaction = Transaction(session=1, zxid=1, time_ms=1, changes=())
    for path in (f"/consumers/g/owners/t/{name}", "/consumers/g/offsets/t/0", "/consumers/g/migration/mode"):
        replay.apply(transaction, Created(path=path, data=data))
    return replay


READERS: Mapping[str, Callable[[bytes, int], Any]] = {
    "registration": expanded,
    "migration id": lambda data, _owner: parse_awareness(data, "/consumers/g/migration/ids/g_m1"),
    "broker": lambda data, _owner: parse_broker(data, "/brokers/ids/1"),
    "topic": lambda data, _owner: parse_partitions(data, "/brokers/topics/t"),
    "cluster id": lambda data, _owner: parse_cluster_id(data),
    "offset": lambda data, _owner: parse_offset(data, "/consumers/g/offsets/t/0"),
    "fence": lambda data, _owner: parse_holder(data),
    "partition": lambda data, _owner: znodes.partition_number(data.decode("latin-1")),
    "filter": filtered,
    "group": view_of,
    "member": decided,
    "transaction log": replayed,
    "assignment": lambda data, _owner: parse_assignment(data),
}

CHEAP = tuple(name for name in READERS if name not in {"group", "member"})


def refusal(name: str, data: bytes, owner: int) -> str:
    """What a reader says of the bytes, empty when it takes them; anything but our own error is raised."""
    began, said = time.process_time(), ""
    try:
        READERS[name](data, owner)
    except GroupshiftError as error:
        said = str(error)
    assert time.process_time() - began < SLOWEST_S, name
    assert len(said) < LONGEST, said
    return said


@pytest.mark.timeout(max(300, TIMES // 100))
def test_s03_mutated_znodes_raise_our_own_errors_only() -> None:
    """Each input goes through the readers; none takes a second, all together stay small. The rules of a whole
    group cost most, so they see every tenth."""
    rng = random.Random(SEED)
    before_kib, refused = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for number in range(TIMES):
        data, owner = mutated(rng), rng.choice((0, 7))
        for name in READERS if number % 10 == 0 else CHEAP:
            try:
                refused += bool(refusal(name, data, owner))
            except Exception as error:  # noqa: BLE001 - this is what is looked for
                pytest.fail(f"{name}, input {number} of seed {SEED}: {data!r} raised {error!r}")
    assert refused > TIMES
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < MOST_KIB


ATOMS = ("a", "b", ".", "[ab]", "[^a]", r"\w", r"\.", "-", "ab", "(?:a|b)", "(a|ba)", "(?:)", "(a|)")
COUNTS = ("", "", "", "*", "+", "?", "{2}", "*?", "+?", "{0}")


def benign(rng: random.Random) -> str:
    """A small expression: Python's own engine answers it at once."""
    parts = []
    for _ in range(rng.randint(1, 4)):
        inner = "".join(rng.choice(ATOMS) + rng.choice(COUNTS) for _ in range(rng.randint(1, 2)))
        parts.append(rng.choice((f"({inner}){rng.choice(COUNTS)}", inner, f"{inner}|", f"(?:{inner}|a)*")))
    text = "".join(parts)
    return rng.choice((text, f"^{text}$", f"(?i){text}", text.replace(")(", "),("), f"(?!b){text}"))


def cases(rng: random.Random, times: int) -> Iterator[tuple[str, str]]:
    """Expressions with names to try."""
    for _ in range(times):
        yield benign(rng), "".join(rng.choice("abA.-") for _ in range(rng.randint(0, 9)))


def test_s09_filters_match_as_before() -> None:
    """Whichever engine takes it: the answer is that of Python's, which was compared with Java's."""
    from groupshift.domain.topic_filter import TopicFilter, _Automaton

    rng = random.Random(SEED)
    by_automaton = refused = 0
    for text, name in cases(rng, 4000):
        try:
            compiled = compile_filter(text)
        except GroupshiftError:
            refused += 1
            continue
        assert isinstance(compiled, TopicFilter)
        by_automaton += isinstance(getattr(compiled.accepts, "__self__", None), _Automaton)
        expected = re.compile(clean_filter(text), re.ASCII).fullmatch(name) is not None
        assert compiled.fullmatch(name) is expected, (text, name)
    assert by_automaton > 500
    assert refused < 1500
