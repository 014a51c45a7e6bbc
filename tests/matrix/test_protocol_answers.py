"""Every policy on every line of releases that has one: predicted, and given by a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from groupshift.domain.group_protocol import (
    CLASSIC_SIZE,
    CONSUMER_SIZE,
    POLICY,
    PROTOCOLS,
    UPGRADING,
    Kind,
    Policy,
)
from groupshift.domain.protocol.answers import AnswerOutcome
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import CONSUMER_PROTOCOL, KraftOptions, start_kraft
from groupshift_sandbox.processes import marked, stop, wait_until
from support.protocol_story import PATIENCE_S, Story, story

LIVE = "native, live classic"
ADMITTED = "classic, live consumer"


@contextmanager
def told_by(release: str, folder: Path, properties: dict[str, str]) -> Iterator[tuple[Story, str]]:
    """A story at a broker of this release, and the broker's address."""
    home = Home(folder / "home").create()
    options = KraftOptions(release=release, heap="320m", properties=properties)
    try:
        bootstrap = start_kraft(home, options).bootstrap
        with story(bootstrap) as told:
            yield told, bootstrap
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("release", ["3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1", "4.4.0"])
def test_the_coordinator_answers_as_predicted(release: str, policy: Policy, tmp_path: Path) -> None:
    """All events of the story; and the two cells in which releases differ by name (KAFKA-18134, 20640)."""
    enabled = CONSUMER_PROTOCOL if release.startswith("3.") else {}
    with told_by(release, tmp_path, {**enabled, POLICY: policy.value}) as (told, _):
        given = {each.name: each for each in told.events()}
    for each in given.values():
        each.check()
    assert len(given) >= 10
    assert (given[LIVE].code == 0) is (policy in UPGRADING)
    refused = policy is Policy.DISABLED and release in {"4.3.1", "4.4.0"}
    assert given[ADMITTED].code == (23 if refused else 0)
    if policy in UPGRADING:
        data = given["native, assignor with data"].predicted.outcome
        assert data is (AnswerOutcome.CONVERTS if release == "3.9.2" else AnswerOutcome.REFUSED)


@contextmanager
def consumers(told: Story, bootstrap: str, group: str, count: int) -> Iterator[None]:
    """Real classic members that are assigned, as far as partitions go."""
    usual = {"bootstrap.servers": bootstrap, "group.id": group, "partition.assignment.strategy": "range"}
    with ExitStack() as closing:
        members = [Consumer(usual) for _ in range(count)]
        for member in members:
            closing.callback(member.close)
            member.subscribe([told.topic])

        def settled() -> bool:
            for member in members:
                member.poll(0.05)
            found = told.look(group)
            return (found.state, len(found.members)) == ("Stable", count)

        wait_until(settled, PATIENCE_S, f"{count} members of {group}")
        yield


@pytest.mark.timeout(600)
def test_groups_of_the_largest_size(tmp_path: Path) -> None:
    """Above group.consumer.max.size 69, at it 81, for members of both protocols."""
    with told_by("4.3.1", tmp_path, {CONSUMER_SIZE: "2"}) as (told, bootstrap):
        for count, code, row in ((1, 0, "PN14"), (2, 81, "PN13"), (3, 69, "PN10")):
            group = told.group()
            with consumers(told, bootstrap, group, count):
                met = told.meet_native(group)
            met.check()
            assert (met.code, met.predicted.number) == (code, row)
        full = told.native()
        told.join_native(full.group)
        native, classic = told.meet_native(full.group), told.join_classic(full.group)
        for met, row in ((native, "PN17"), (classic, "PC05")):
            met.check()
            assert (met.code, met.predicted.number) == (81, row)


@pytest.mark.timeout(600)
def test_groups_that_are_too_large_to_be_classic(tmp_path: Path) -> None:
    """Above group.max.size a group of type consumer stays one; at it a classic group lets nobody in."""
    with told_by("4.3.1", tmp_path, {CLASSIC_SIZE: "1"}) as (told, _):
        last = told.native()
        for _ in range(2):
            told.join_classic(last.group).check()
        left = told.last_leaves(last)
        left.check()
        assert (left.predicted.number, left.after.kind) == ("PL07", Kind.CONSUMER)
        one = told.classic()
        met = told.join_classic(one.group)
        met.check()
        assert (met.code, met.predicted.number) == (81, "PC06")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("release", "properties", "live", "empty", "row"),
    [
        ("3.7.2", {PROTOCOLS: "classic,consumer"}, 69, 69, "PN05"),
        ("3.9.2", {PROTOCOLS: "classic"}, 35, 35, "PN01"),
        ("4.0.2", {PROTOCOLS: "classic"}, 35, 35, "PN01"),
    ],
)
def test_brokers_that_convert_nothing(
    release: str, properties: dict[str, str], live: int, empty: int, row: str, tmp_path: Path
) -> None:
    """The early access of 3.7 converts not even empty groups; where the protocol is off it is 35."""
    with told_by(release, tmp_path, properties) as (told, _):
        member = told.classic()
        met = [told.meet_native(member.group)]
        member.leave()
        told.await_group(member.group, lambda found: found.state == "Empty")
        met.append(told.meet_native(member.group))
        joined = told.join_classic(told.group())
    assert [(each.code, each.predicted.code) for each in met] == [(live, live), (empty, empty)]
    assert {each.predicted.number for each in met} == {row}
    joined.check()
    assert joined.after.kind is Kind.CLASSIC
