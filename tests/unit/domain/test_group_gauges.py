"""What brokers count of groups against what they list: each rule on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from groupshift.domain.group_gauges import RULES, Counts, CountView, GaugedBroker
from groupshift.domain.group_protocol import Kind
from groupshift.domain.verdict import Finding, Verdict

LISTED: Counts = {(Kind.CLASSIC, "Stable"): 2, (Kind.CLASSIC, "Empty"): 1, (Kind.CONSUMER, "Empty"): 4}
NEW = GaugedBroker(
    address="h:1",
    node_id=1,
    release="4.3.1",
    types={Kind.CLASSIC: 3, Kind.CONSUMER: 4, Kind.SHARE: 0},
    states={**LISTED, (Kind.CLASSIC, "Dead"): 0, (Kind.CONSUMER, "Stable"): 0},
    partitions={"active": 10, "loading": 0, "failed": 0},
)
OLD = GaugedBroker(
    address="h:2",
    node_id=2,
    release="3.9.2",
    types={Kind.CLASSIC: 3},
    states={(Kind.CLASSIC, "Stable"): 2, (Kind.CLASSIC, "Empty"): 1},
)


def found(*gauged: GaugedBroker, listed: Mapping[int, Counts] | None = None) -> dict[str, list[Finding]]:
    """The findings that did not pass, by rule."""
    view = CountView(gauged=gauged, listed={1: LISTED} if listed is None else listed)
    by_rule: dict[str, list[Finding]] = {}
    for finding in RULES.ask(view):
        if finding.verdict is not Verdict.PASS:
            by_rule.setdefault(finding.rule, []).append(finding)
    return by_rule


def test_counts_that_agree_pass_every_rule() -> None:
    """States are counted of some types only, and zeros are not listed."""
    view = CountView(gauged=(NEW,), listed={1: LISTED})
    assert [(each.rule, each.verdict) for each in RULES.ask(view)] == [
        (number, Verdict.PASS) for number in RULES
    ]


def test_a_type_that_differs_fails_with_both_numbers_and_the_broker() -> None:
    """One group of type consumer is listed and not counted yet."""
    ((finding,),) = found(replace(NEW, types={Kind.CLASSIC: 3, Kind.CONSUMER: 3})).values()
    assert (finding.rule, finding.verdict) == ("PG01", Verdict.FAIL)
    assert finding.reason == "broker 1 (4.3.1) counts 3 groups of type consumer, and lists 4"
    assert "once a minute" in finding.hint


def test_a_type_that_is_listed_and_not_counted_at_all_fails() -> None:
    """As many as none."""
    (finding,) = found(replace(NEW, types={Kind.CLASSIC: 3}))["PG01"]
    assert "counts 0 groups of type consumer" in finding.reason


def test_a_state_that_differs_is_a_warning_and_its_spelling_does_not_matter() -> None:
    """Groups change their state all the time; metrics of other releases write it in lower case."""
    lower = {(kind, state.lower()): count for (kind, state), count in NEW.states.items()}
    assert found(replace(NEW, states=lower)) == {}
    moved = {**LISTED, (Kind.CLASSIC, "Stable"): 1, (Kind.CLASSIC, "PreparingRebalance"): 1}
    findings = found(replace(NEW, states=moved))["PG02"]
    assert {each.verdict for each in findings} == {Verdict.INCONCLUSIVE}
    assert [each.reason.split(" counts ")[1] for each in findings] == [
        "1 groups of type classic in state preparingrebalance, and lists 0",
        "1 groups of type classic in state stable, and lists 2",
    ]


def test_lists_without_types_are_held_against_the_sum() -> None:
    """Brokers before 3.8 tell none; nothing is said of states then."""
    untyped = {2: {(Kind.UNKNOWN, "Stable"): 3}}
    assert found(OLD, listed=untyped) == {}
    (finding,) = found(OLD, listed={2: {(Kind.UNKNOWN, "Stable"): 4}})["PG01"]
    assert finding.reason == "broker 2 (3.9.2) counts 3 groups, and lists 4"


def test_partitions_that_load_or_failed_fail() -> None:
    """Each state on its own; an active one is none of them."""
    findings = found(replace(NEW, partitions={"active": 7, "loading": 2, "failed": 1}))["PG03"]
    assert [each.reason for each in findings] == [
        "broker 1 has 2 coordinator partitions in state loading",
        "broker 1 has 1 coordinator partitions in state failed",
    ]


def test_a_broker_that_loads_is_not_said_to_list_none() -> None:
    """Its list is not whole: nothing is held against it, and it is no broker of another cluster."""
    view = CountView(gauged=(NEW,), listed={1: {}}, loading=(1,))
    ((rule, reason),) = [(e.rule, e.reason) for e in RULES.ask(view) if e.verdict is not Verdict.PASS]
    assert (rule, reason) == (
        "PG03",
        "broker 1 is loading coordinator partitions and cannot list all its groups",
    )


def test_every_broker_is_to_be_read_once() -> None:
    """One that was left out is a warning; one twice, or of another cluster, fails."""
    (left_out,) = found(NEW, listed={1: LISTED, 3: {}})["PG04"]
    assert (left_out.verdict, left_out.reason) == (
        Verdict.INCONCLUSIVE,
        "metrics of brokers 3 were not read",
    )
    (twice,) = found(NEW, replace(NEW, address="h:9"))["PG04"]
    assert (twice.verdict, twice.reason) == (Verdict.FAIL, "h:1, h:9 are all broker 1")
    foreign = found(NEW, replace(NEW, address="h:9", node_id=7))["PG04"]
    assert [each.reason for each in foreign] == ["h:9 is broker 7, which this cluster does not have"]


def test_brokers_with_the_old_and_the_new_coordinator_are_told_apart() -> None:
    """In the middle of a change of 3.9.2 from one to the other: a warning."""
    old_list = {(Kind.CLASSIC, "Stable"): 2, (Kind.CLASSIC, "Empty"): 1}
    (finding,) = found(NEW, OLD, listed={1: LISTED, 2: old_list})["PG05"]
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.reason == "brokers run different coordinators: new at 1 (4.3.1); old at 2 (3.9.2)"
