"""Who owned which partition when, from what members told; and what a Java consumer's lines become."""

from __future__ import annotations

import json
from pathlib import Path

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.client_members.events import (
    MemberEvent,
    Owned,
    delivered,
    overlapping,
    owned,
    read_events,
    unowned_ms,
)
from groupshift_sandbox.client_members.java_member import events_of, thrown_in

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def _event(member: str, at_ms: int, event: str, *partitions: TopicPartition) -> MemberEvent:
    fields = {"partitions": [list(each) for each in partitions]} if partitions else {}
    return MemberEvent(at_ms=at_ms, member=member, event=event, fields=fields)


def test_a_hand_over_leaves_a_gap_between_two_owners():
    """From the revocation of one member to the assignment of the other; what is kept has no gap."""
    told = [
        _event("a", 100, "assigned", P0, P1),
        _event("a", 500, "revoked", P0),
        _event("b", 530, "assigned", P0),
        _event("b", 900, "closed"),
    ]
    found = owned(told)
    assert found[P0] == [
        Owned(member="a", from_ms=100, to_ms=500),
        Owned(member="b", from_ms=530, to_ms=900),
    ]
    assert found[P1] == [Owned(member="a", from_ms=100, to_ms=None)]
    assert (unowned_ms(found[P0]), unowned_ms(found[P1])) == ([30], [])


def test_a_member_that_was_killed_owns_until_then():
    """It tells nothing, so its end comes from outside."""
    told = [_event("a", 100, "assigned", P0), _event("b", 700, "assigned", P0)]
    assert unowned_ms(owned(told, {"a": 250})[P0]) == [450]
    assert overlapping(owned(told)[P0]) != []


def test_two_owners_at_one_time_overlap_and_leave_no_gap():
    """Also when the one inside ends before the other."""
    told = [
        _event("a", 100, "assigned", P0),
        _event("b", 200, "assigned", P0),
        _event("b", 300, "lost", P0),
        _event("a", 900, "revoked", P0),
        _event("c", 905, "assigned", P0),
    ]
    found = owned(told)[P0]
    assert [(one.member, other.member) for one, other in overlapping(found)] == [("a", "b")]
    assert unowned_ms(found) == [5]


def test_a_line_cut_off_by_the_end_of_its_member_is_no_event(tmp_path: Path):
    """The lines before it are."""
    whole = {"at_ms": 5, "member": "a", "event": "records", "topic": "orders", "partition": 0}
    file = tmp_path / "a.events.jsonl"
    file.write_text(json.dumps({**whole, "first": 3, "last": 5, "count": 3}) + '\n{"at_ms": 6, "mem')
    assert delivered(read_events(file)) == {P0: [3, 4, 5]}
    assert read_events(tmp_path / "none") == []


def test_what_the_java_consumer_prints_becomes_the_same_events():
    """Assignments, records, commits; other lines become none."""
    partitions = [{"topic": "orders", "partition": 1}]
    lines = [
        {"timestamp": 1, "name": "startup_complete"},
        {"timestamp": 2, "name": "partitions_assigned", "partitions": partitions},
        {
            "timestamp": 3,
            "name": "records_consumed",
            "count": 4,
            "partitions": [{"topic": "orders", "partition": 1, "count": 4, "minOffset": 7, "maxOffset": 10}],
        },
        {
            "timestamp": 4,
            "name": "offsets_committed",
            "offsets": [{"topic": "orders", "partition": 1, "offset": 11}],
            "success": False,
            "error": "late",
        },
    ]
    found = [event for line in lines for event in events_of(json.dumps(line), "j")]
    assert found == [
        {"at_ms": 2, "member": "j", "event": "assigned", "partitions": [["orders", 1]]},
        {"at_ms": 3, "member": "j", "event": "records", "topic": "orders", "partition": 1,
         "first": 7, "last": 10, "count": 4},
        {"at_ms": 4, "member": "j", "event": "committed", "offsets": [["orders", 1, 11]], "code": -1,
         "said": "late"},
    ]  # fmt: skip
    assert list(events_of("[main] INFO something", "j")) == []


def test_the_exception_that_ends_a_java_consumer_is_told_from_its_log():
    """By its class and text; a line of the stack is not one."""
    text = "org.apache.kafka.common.errors.GroupIdNotFoundException: Group g not found."
    line = f'Exception in thread "main" {text}\n'
    assert thrown_in(line) == (
        "GroupIdNotFoundException",
        text,
    )
    assert (
        thrown_in("\tat org.apache.kafka.tools.VerifiableConsumer.main(VerifiableConsumer.java:1)\n") is None
    )
    assert thrown_in("[main] WARN org.apache.kafka.clients.NetworkClient - disconnected\n") is None
