"""The old consumer's assignors and the Kafka-mode thread mapping, against the spec's vectors."""

from __future__ import annotations

import random

import pytest

from groupshift.domain.assignment import (
    Assignor,
    TextForm,
    assign,
    consumer_of,
    map_to_threads,
    range_assignment,
    stream_of,
    thread_ids,
    threads_by_topic,
)
from groupshift.domain.partitions import TopicPartition

Members = dict[str, dict[str, int]]


def by_thread(assignment: dict[TopicPartition, str]) -> dict[str, set[str]]:
    """Thread id → partitions as text."""
    result: dict[str, set[str]] = {}
    for partition, thread in assignment.items():
        result.setdefault(thread, set()).add(str(partition))
    return result


def expected(table: dict[str, str]) -> dict[str, set[str]]:
    """Thread id → partitions, from ``'t-0 t-1'``; threads with none are left out."""
    return {thread: set(text.split()) for thread, text in table.items() if text}


def numbers(**counts: int) -> dict[str, range]:
    """Topic → its partition numbers."""
    return {topic: range(count) for topic, count in counts.items()}


RANGE = {
    "R1": (
        {"g_c1": {"t": 2}, "g_c2": {"t": 2}},
        numbers(t=5),
        {"g_c1-0": "t-0 t-1", "g_c1-1": "t-2", "g_c2-0": "t-3", "g_c2-1": "t-4"},
    ),
    "R2": (
        {"g_a": {"t": 12}},
        numbers(t=14),
        {
            "g_a-0": "t-0 t-1",
            "g_a-1": "t-2 t-3",
            "g_a-10": "t-4",
            "g_a-11": "t-5",
            **{f"g_a-{n}": f"t-{n + 4}" for n in range(2, 10)},
        },
    ),
    "R3": (
        {"g_h1-100-aa": {"t1": 1, "t2": 2}, "g_h10-099-bb": {"t1": 2}, "g_h2-100-cc": {"t2": 1}},
        numbers(t1=2, t2=7),
        {
            "g_h1-100-aa-0": "t1-0 t2-0 t2-1 t2-2",
            "g_h10-099-bb-0": "t1-1",
            "g_h1-100-aa-1": "t2-3 t2-4",
            "g_h2-100-cc-0": "t2-5 t2-6",
        },
    ),
    "R4": (
        {"g_a": {"t": 3}, "g_a-1": {"t": 1}},
        numbers(t=6),
        # `g_a-1-0` is thread 0 of consumer `g_a-1`; it sorts between two threads of `g_a`
        {"g_a-0": "t-0 t-1", "g_a-1": "t-2 t-3", "g_a-1-0": "t-4", "g_a-2": "t-5"},
    ),
}


@pytest.mark.parametrize("vector", RANGE)
def test_scenario_01_vectors_range(vector: str) -> None:
    """R1 to R4 come out as the real consumer computes them, whatever the order of the input."""
    members, partitions, result = RANGE[vector]
    assert by_thread(range_assignment(threads_by_topic(members), partitions)) == expected(result)
    shuffled = random.Random(1)
    for _ in range(20):
        items = list(members.items())
        shuffled.shuffle(items)
        mixed = {topic: shuffled.sample(list(each), len(each)) for topic, each in partitions.items()}
        again = assign(Assignor.RANGE, threads_by_topic(dict(items)), mixed)
        assert by_thread(again) == expected(result)


def names(table: dict[str, str], **short: str) -> dict[str, set[str]]:
    """Expand ``'e0 k1'`` with e=events, k=clicks to partition names."""
    return {
        thread: {f"{short[item[0]]}-{item[1:]}" for item in text.split()} for thread, text in table.items()
    }


_RR1 = {"g_c1-0": "e0 e2 k0 k2", "g_c2-0": "e1 e3 k1"}
_RR2 = {
    "g_c1-0": "l10 o1 l2 l5 l8",
    "g_c1-1": "l11 l0 l3 l6 l9",
    "g_c2-0": "o0 l1 l4 l7",
}
_RR4 = {"g_c0-0": "x0", "g_c1-0": "y0", "g_c2-0": "y1 z0 z1 z2"}
ROUND_ROBIN = {
    "RR1": (
        {"g_c1": {"clicks": 1, "events": 1}, "g_c2": {"clicks": 1, "events": 1}},
        numbers(clicks=3, events=4),
        _RR1,
        _RR1,
    ),
    "RR2": (
        {"g_c1": {"logins": 2, "orders": 2}, "g_c2": {"logins": 1, "orders": 1}},
        numbers(logins=12, orders=2),
        _RR2,
        _RR2,
    ),
    "RR3": (
        {"g_c1": {"clicks": 1, "orders": 1}, "g_c2": {"clicks": 1, "orders": 1}},
        numbers(clicks=2, orders=3),
        {"g_c1-0": "o0 o2 k1", "g_c2-0": "o1 k0"},
        {"g_c1-0": "k0 o0 o2", "g_c2-0": "k1 o1"},
    ),
    "RR4": (
        {"g_c0": {"t0": 1}, "g_c1": {"t0": 1, "t1": 1}, "g_c2": {"t0": 1, "t1": 1, "t2": 1}},
        numbers(t0=1, t1=2, t2=3),
        _RR4,
        _RR4,
    ),
    "RR5": (
        {"g_c1": {"orders": 2, "clicks": 1}, "g_c2": {"clicks": 2}, "g_c3": {"orders": 1}},
        numbers(orders=4, clicks=5),
        {
            "g_c1-0": "o0 o3 k2",
            "g_c1-1": "o1",
            "g_c3-0": "o2",
            "g_c2-0": "k0 k3",
            "g_c2-1": "k1 k4",
        },
        {
            "g_c1-0": "k0 k3 o1",
            "g_c1-1": "o2",
            "g_c2-0": "k1 k4",
            "g_c2-1": "k2",
            "g_c3-0": "o0 o3",
        },
    ),
}
SHORT = {"e": "events", "k": "clicks", "l": "logins", "o": "orders", "x": "t0", "y": "t1", "z": "t2"}


@pytest.mark.parametrize("form", TextForm)
@pytest.mark.parametrize("vector", ROUND_ROBIN)
def test_scenario_02_vectors_round_robin(vector: str, form: TextForm) -> None:
    """RR1 to RR5 in both text forms; a broken hash or numeric order of partitions fails them."""
    members, partitions, bracket, dash = ROUND_ROBIN[vector]
    result = assign(Assignor.ROUND_ROBIN, threads_by_topic(members), partitions, form)
    wanted = bracket if form is TextForm.BRACKET else dash
    assert by_thread(result) == names(wanted, **SHORT)


MAPPING = {
    "A": ("g_h1-1000-aaaaaaaa", {"t1": 2, "t2": 2}, "t1-0 t1-3 t1-4 t2-1 t2-2"),
    "B": ("g_h2-2000-bbbbbbbb", {"t1": 3, "t2": 1}, "t1-1 t1-5 t2-0 t2-3"),
    "K": ("consumer-1-7f6a", {"t1": 1, "t2": 1}, "t1-2 t2-4"),
    "C": ("g_h3-3000-cccccccc", {"t1": 11}, "t1-2 t1-4 t1-6 t1-8"),
}
MAPPED = {
    "A": {0: "t1-0 t1-4 t2-2", 1: "t1-3 t2-1"},
    "B": {0: "t1-1 t2-0 t2-3", 1: "t1-5"},
    "K": {0: "t1-2 t2-4"},
    "C": {0: "t1-2", 1: "t1-4", 10: "t1-6", 2: "t1-8"},
}


@pytest.mark.parametrize("member", MAPPING)
def test_scenario_03_thread_map(member: str) -> None:
    """The worked example of the thread mapping, including thread 10 before thread 2."""
    cid, streams, held = MAPPING[member]
    partitions = [
        TopicPartition(text.rpartition("-")[0], int(text.rpartition("-")[2])) for text in held.split()
    ]
    result = map_to_threads(partitions, threads_by_topic({cid: streams}))
    assert by_thread(result) == expected({f"{cid}-{n}": text for n, text in MAPPED[member].items()})


def test_a_thread_id_splits_at_its_last_hyphen() -> None:
    """Consumer ids hold hyphens themselves."""
    assert consumer_of("g_h1-100-aa-11") == "g_h1-100-aa"
    assert stream_of("g_h1-100-aa-11") == 11
    assert thread_ids("g_a", 2) == ("g_a-0", "g_a-1")


def test_nobody_subscribed_means_nothing_assigned() -> None:
    """Partitions of a topic without threads have no owner and stop no one."""
    assert range_assignment({"t": ()}, numbers(t=3)) == {}
    assert assign(Assignor.ROUND_ROBIN, {"t": ("g_a-0",)}, numbers(u=3)) == {}
    assert map_to_threads([TopicPartition("u", 0)], {"t": ("g_a-0",)}) == {}
