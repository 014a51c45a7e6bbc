"""The numbered rules of a downgrade's preflight: each passes where it should, and says what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from groupshift.domain.cluster import Asked, ClusterView, Property
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.group_protocol import ASSIGNORS, PROTOCOLS, Kind
from groupshift.domain.hazards import BOOK
from groupshift.domain.verdict import Finding, Verdict
from groupshift.domain.versions import LINES, Line, Version
from groupshift.log import Decoded
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.facts import DowngradeFacts, LogFacts, log_facts
from groupshift.moves.downgrade.releases import CHANGES, INTER_BROKER, LEVELS, target_of
from groupshift.moves.downgrade.rules import RULES, ask
from support.coordinator_story import (
    PARTITIONS,
    classic,
    commit,
    compacted,
    consumer_group,
    epoch,
    gone,
    log,
    to_classic,
)
from support.downgrade_clusters import broker, cluster, listed

PASS, WARNS, UNSURE, FAILS = Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.ERROR, Verdict.FAIL
MV, GV = "metadata.version", "group.version"


def facts(
    view: ClusterView,
    to: str = "3.9.2",
    records: Sequence[Decoded] | None = (),
    coordinator: Coordinator | None = None,
    said: str = "",
) -> DowngradeFacts:
    """The cluster, its target and its log (None: not read)."""
    target = target_of(to, coordinator)
    read = None if records is None else log_facts(records, target)
    return DowngradeFacts(view=view, target=target, log=read, said=Version.parse(said) if said else None)


def asked(*of: object, **more: object) -> dict[str, Finding]:
    """The worst finding of each rule."""
    found: dict[str, Finding] = {}
    for finding in ask(facts(*of, **more)):  # type: ignore[arg-type]
        known = found.get(finding.rule)
        if known is None or finding.verdict.rank > known.verdict.rank:
            found[finding.rule] = finding
    return found


def verdicts(found: dict[str, Finding]) -> dict[str, Verdict]:
    """Of the numbered rules that did not pass."""
    return {
        number: finding.verdict
        for number, finding in found.items()
        if number.startswith("W") and finding.verdict is not PASS
    }


def test_a_prepared_cluster_passes_but_for_the_snapshot_that_it_must_await() -> None:
    """4.3.1 at 3.9 with classic groups only; the rules are asked in the order of their numbers."""
    view = cluster(broker(groups=[listed("g")]))
    found = asked(view, records=log(commit("g"), classic("g")))
    assert verdicts(found) == {"W13": WARNS}
    assert "offset of 100 or above" in found["W13"].hint
    assert [number for number in found if number.startswith("W")] == list(RULES)
    assert list(RULES) == [f"W{n:02}" for n in range(1, len(RULES) + 1)]


def test_nothing_that_was_not_read_passes() -> None:
    """Without the log the rules that need it say so."""
    found = verdicts(asked(cluster(), "3.4.0", None))
    assert (found["W15"], found["W17"]) == (UNSURE, FAILS)
    assert verdicts(asked(cluster(broker(release="3.9.2")), "3.4.0", None))["W17"] is UNSURE
    assert "W15" not in verdicts(asked(cluster(partitions=0), records=None))


@pytest.mark.parametrize(
    ("view", "to", "rule", "verdict", "said"),
    [
        (cluster(replace(broker(), supported={})), "3.9.2", "W01", UNSURE, "does not tell its release"),
        (cluster(replace(broker(), supported={MV: (7, 99)})), "3.9.2", "W01", UNSURE, "up to 99"),
        (cluster(), "3.9.9", "W01", WARNS, "newer than 3.9.2"),
        (cluster(broker(1), broker(2, "4.2.1")), "3.9.2", "W02", FAILS, "several releases"),
        (
            cluster(broker(1, "3.9.2"), broker(2, "3.9.2", properties={PROTOCOLS: "classic,consumer"})),
            "3.8.1", "W02", FAILS, "both group coordinators",
        ),
        (cluster(broker(release="3.8.1")), "3.9.2", "W03", FAILS, "newer than what runs"),
        (cluster(), "4.3.1", "W03", UNSURE, "may or may not be older"),
        (cluster(quorum=None, quorum_problem="no answer"), "3.9.2", "W04", FAILS, "no answer"),
        (cluster(kraft=False, quorum=None, controller=-1), "3.9.2", "W04", FAILS, "has no controller"),
        (cluster(replace(broker(), loading=True)), "3.9.2", "W05", UNSURE, "is loading"),
        (cluster(replace(broker(), untold="ERR (29)")), "3.9.2", "W05", UNSURE, "ERR (29)"),
        (cluster(leaderless=(3,)), "3.9.2", "W05", UNSURE, "partition 3 of the offsets topic"),
        (cluster(broker(groups=[listed("s", Kind.SHARE)])), "3.9.2", "W06", FAILS, "'s'"),
        (cluster(broker(groups=[listed("s", Kind.STREAMS)])), "4.0.2", "W06", FAILS, "type streams ('s')"),
        (
            cluster(broker(release="4.4.0", groups=[listed("s", Kind.SHARE)]), features={"share.version": 2}),
            "4.3.1", "W06", WARNS, "share.version 2",
        ),
        (cluster(broker(groups=[listed("n", Kind.CONSUMER)])), "3.9.2", "W07", FAILS, "('n') with members"),
        (
            cluster(broker(groups=[listed("n", Kind.CONSUMER, state="Empty")])),
            "3.9.2", "W07", FAILS, "without members",
        ),
        (
            cluster(broker(1, groups=[listed("g")]), broker(2, groups=[listed("g", Kind.CONSUMER)])),
            "3.9.2", "W08", FAILS, "classic at broker 1, consumer at broker 2",
        ),
        (cluster(features={MV: 21, GV: 1}), "3.9.2", "W11", FAILS, "group.version is finalised at 1"),
        (cluster(features={"kraft.version": 1}), "3.8.1", "W11", FAILS, "no release lowers it"),
        (cluster(features={MV: 30}), "4.2.1", "W12", FAILS, "4.3-IV0 (30) changed the metadata log"),
        (
            cluster(broker(properties={PROTOCOLS: "classic,consumer,streams"})),
            "3.9.2", "W14", FAILS, "does not know streams and ends",
        ),
        (cluster(broker(properties={ASSIGNORS: "uniform"})), "3.9.2", "W14", FAILS, "names of classes"),
        (
            cluster(broker(properties={"group.consumer.assignment.interval.ms": "0"})),
            "4.2.1", "W14", WARNS, "ignores it",
        ),
        (
            cluster(broker(properties={"controller.quorum.bootstrap.servers": "h:1"})),
            "3.8.1", "W14", FAILS, "wants controller.quorum.voters",
        ),
        (cluster(broker(release="3.9.2"), kraft=False), "3.5.2", "W14", FAILS, "has no inter.broker"),
        (
            cluster(broker(release="3.9.2", properties={INTER_BROKER: "3.9-IV0"}), kraft=False),
            "3.5.2", "W14", FAILS, "versions up to 3.5",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_by_its_rule(
    view: ClusterView, to: str, rule: str, verdict: Verdict, said: str
) -> None:
    """With the values met, and a remedy."""
    found = asked(view, to)[rule]
    assert (found.verdict, said in found.reason) == (verdict, True), found
    assert found.hint


def test_consumer_groups_stay_where_the_target_serves_them() -> None:
    """4.3.1 at 4.0 to 4.0.2: a live native member is kept."""
    view = cluster(broker(groups=[listed("n", Kind.CONSUMER)]), features={MV: 25, GV: 1})
    assert verdicts(asked(view, "4.0.2", log(*consumer_group("n")))) == {"W13": WARNS}


def test_the_old_coordinator_of_40_serves_no_consumer_groups() -> None:
    """It is in the jar still, by an internal property."""
    view = cluster(broker(groups=[listed("n", Kind.CONSUMER)]), features={MV: 25, GV: 1})
    found = asked(view, "4.0.2", log(*consumer_group("n")), Coordinator.OLD)
    assert verdicts(found)["W07"] is FAILS


def test_groups_whose_offsets_load_are_named_as_unconverted_only() -> None:
    """Rule O4 of the replay lint is W07's matter: offsets are there, members are not."""
    view = cluster(broker(groups=[listed("n", Kind.CONSUMER)]))
    found = asked(view, records=log(*consumer_group("n"), commit("n")))
    assert verdicts(found) == {"W07": FAILS, "W13": WARNS}


def test_a_group_that_two_brokers_list_is_refused() -> None:
    """Also of one type: two coordinators have it."""
    view = cluster(broker(1, groups=[listed("g")]), broker(2, groups=[listed("g")]))
    assert asked(view)["W08"].reason.endswith("classic at broker 1, classic at broker 2")


def test_newer_types_are_counted_from_the_lowest_on() -> None:
    """A group epoch (type 3) counts, and so does its tombstone."""
    found = log_facts(log(epoch("g"), gone(epoch("g")), commit("g", version=4)), target_of("3.9.2"))
    assert (found.new_types, found.commits, found.records) == ({3: 2}, 4, 3)


def test_connect_groups_are_named_and_stay_as_they_are() -> None:
    """They are classic: every release loads them."""
    found = asked(cluster(broker(groups=[listed("c", protocol_type="connect")])))["W09"]
    assert (found.verdict, "'c': of classic type (connect)" in found.reason) == (PASS, True)


def test_what_people_say_the_brokers_run_decides_within_a_line() -> None:
    """And is refused where it is not of the line that they tell."""
    view = cluster(broker(release="3.9.2"))
    assert asked(view, "3.9.1")["W03"].verdict is UNSURE
    assert verdicts(asked(view, "3.9.1", said="3.9.2")) == {}
    assert asked(view, "3.9.2", said="3.9.1")["W03"].verdict is FAILS
    assert "not 4.0.2" in asked(view, "3.8.1", said="4.0.2")["W01"].reason
    spoken = broker(release="3.9.2", properties={INTER_BROKER: "3.5"})
    untold = cluster(replace(spoken, supported={}), kraft=False, quorum=None, controller=1)
    assert verdicts(asked(replace(untold, finalised={}), "3.5.2", said="3.9.2")) == {}


def test_configurations_of_groups_are_named_with_their_values() -> None:
    """Before 4.0 they are lost; where they cannot be listed it is said."""
    own = {"g": {"consumer.session.timeout.ms": "50000"}}
    view = cluster(group_configs=own, configs_asked=Asked.EVERY)
    found = asked(view)["W10"]
    assert (found.verdict, "consumer.session.timeout.ms=50000" in found.reason) == (FAILS, True)
    assert asked(view, "4.2.1")["W10"].verdict is PASS
    assert asked(cluster(configs_asked=Asked.LISTED))["W10"].verdict is WARNS
    assert asked(cluster(configs_asked=Asked.EVERY, configs_problem="ERR (30)"))["W10"].verdict is UNSURE


HOME = partition_of("native", PARTITIONS)
BESIDE = next(name for name in map("beside-{}".format, range(99)) if partition_of(name, PARTITIONS) == HOME)
ELSEWHERE = next(name for name in map("other-{}".format, range(99)) if partition_of(name, PARTITIONS) != HOME)


def acceptance() -> list[Decoded]:
    """A native group; in its partition a simple one, in another partition a second simple one."""
    lines = [*consumer_group("native"), commit("native"), commit(BESIDE), commit(ELSEWHERE)]
    return log(*lines)


def test_a_target_before_341_names_every_group_beside_a_newer_record() -> None:
    """Raw and converted alike; compacted without tombstones it passes."""
    groups = [listed(name) for name in ("native", BESIDE, ELSEWHERE)]
    view = cluster(
        broker(release="3.9.2", properties={"group.coordinator.new.enable": "true"}, groups=groups),
        features={MV: 8},
    )
    raw = asked(view, "3.4.0", acceptance())
    lost = raw["W16"]
    assert (lost.verdict, raw["W17"].verdict) == (FAILS, FAILS)
    named = f"2 of 3 groups are lost to 3.4.0 (OLD coordinator) by rule O1: '{BESIDE}', 'native'"
    assert lost.reason.startswith(named)
    converted = [*acceptance(), *log(*to_classic("native"), start=30)]
    assert asked(view, "3.4.0", converted)["W16"].reason.partition(";")[0] == lost.reason.partition(";")[0]
    left = compacted(converted, tombstones=False)
    assert verdicts(asked(view, "3.4.0", left)) == {"W13": WARNS, "W14": WARNS}


def test_the_log_is_held_against_what_brokers_list() -> None:
    """Groups that only one of them knows are named; so are anomalies of the log."""
    view = cluster(broker(groups=[listed("g"), listed("only-listed")]))
    found = asked(view, records=log(commit("g"), commit("only-logged")))
    assert found["W15"].verdict is WARNS
    reasons = [each.reason for each in ask(facts(view, records=log(commit("g"), commit("only-logged"))))]
    assert "the log has what no broker lists: 'only-logged'" in reasons
    assert "brokers list what the log does not have: 'only-listed'" in reasons
    twice = asked(cluster(broker(groups=[listed("g")])), records=log(*consumer_group("g"), classic("g")))
    assert twice["W08"].verdict is FAILS


def test_bugs_of_the_book_are_asked_with_what_was_seen() -> None:
    """H03 refuses while group.version is finalised, asks while the snapshot is not known, and is silent
    after."""
    assert asked(cluster(features={MV: 21, GV: 1}))["H03"].verdict is FAILS
    assert asked(cluster(features={MV: 21}))["H03"].verdict is WARNS
    assert "H03" not in asked(cluster(features={MV: 25}), "4.0.2")
    assert asked(cluster(features={MV: 30}), "4.2.1")["H04"].verdict is FAILS


def test_dynamic_properties_are_not_of_the_file() -> None:
    """They come with the metadata, and an older release leaves out what it does not know."""
    view = cluster(replace(broker(), properties={PROTOCOLS: Property(value="streams", static=False)}))
    assert asked(view)["W14"].verdict is PASS


def test_an_empty_log_says_that_there_is_nothing() -> None:
    """No commit, no newer type, no group."""
    assert log_facts([], target_of("3.4.0")) == LogFacts()


def reader_of(level: int) -> str:
    """The newest release of the first line that knows this level of metadata.version."""
    return next(line.newest for line in LINES if line.metadata >= level)


@pytest.mark.parametrize(
    ("level", "line"),
    [
        pytest.param(level, line, id=f"{level}-{line.name}")
        for level in LEVELS
        for line in LINES
        if line.metadata < level
    ],
)
def test_every_level_that_changed_the_metadata_log_refuses_and_no_other(level: int, line: Line) -> None:
    """H04 and W12 from that level down to each target below it, at both borders of each."""
    found = asked(cluster(broker(release=reader_of(level)), features={MV: level}), line.newest)
    crossed = any(each in CHANGES for each in range(line.metadata + 1, level + 1))
    assert (found["H04"].verdict is FAILS if "H04" in found else False) is crossed
    assert (found["W12"].verdict is FAILS) is crossed
    assert (LEVELS[level] in found["W12"].reason) is crossed


def test_the_hazard_book_names_every_level_that_changed_the_metadata_log() -> None:
    """As the table has them."""
    (hazard,) = (each for each in BOOK if each.number == "H04")
    told = hazard.happens.partition(": ")[2].split(", ")
    named = [name for name in LEVELS.values() if name in told]
    assert named == told
    assert named == [name for level, name in LEVELS.items() if level in CHANGES]
    assert (len(named), named[0], named[-1]) == (15, "3.0-IV1", "4.4-IV2")
