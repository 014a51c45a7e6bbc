"""Every SQL check of snapshots: silent on a sound one, and naming the row on the one it exists for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from pyspark.sql import SparkSession

from groupshift.domain.modes import MemberKind
from groupshift.domain.phase_rules import AllowedChanges, PhaseRule
from groupshift.domain.plan import PhaseName
from groupshift.domain.verdict import Verdict
from groupshift.spark import checks
from groupshift.spark.checks import Ruled
from spark.snapshots import (
    AWARE_KAFKA,
    AWARE_ZOOKEEPER,
    CANARY,
    OLD_THREE,
    Snapshot,
    canary_rules,
    frame,
    member,
    offset,
    owner,
    snapshot,
    toggle_rules,
)

Change = Callable[[Snapshot], Any]


def register(spark: SparkSession, moment: str, tables: Snapshot) -> None:
    """Make literal tables visible as the views the checks read."""
    for name, rows in tables.items():
        frame(spark, name, rows).createOrReplaceTempView(f"{moment}_{name}")


def ask(
    spark: SparkSession,
    rules: AllowedChanges,
    wanted: Sequence[PhaseRule] = checks.SNAPSHOT_CHECKS,
    *,
    itself: bool = False,
) -> tuple[Ruled, ...]:
    """What the checks say of the registered tables."""
    checks.register(spark, rules)
    return tuple(checks.run(spark, rules, wanted, itself=itself))


EVERY = tuple(check.statement for check in checks.SNAPSHOT_CHECKS)


def run(
    spark: SparkSession,
    before: Snapshot,
    after: Snapshot,
    rules: AllowedChanges,
    names: Collection[str] = EVERY,
) -> dict[str, list[str]]:
    """Sentences of the named checks that found something, by the name of the check."""
    register(spark, "before", before)
    register(spark, "after", after)
    wanted = [check for check in checks.SNAPSHOT_CHECKS if check.statement in names]
    results = zip(wanted, ask(spark, rules, wanted), strict=True)
    return {
        check.statement: [str(offence) for offence in result.offences]
        for check, result in results
        if result.offences
    }


def leftovers(spark: SparkSession) -> list[tuple[str, int]]:
    """Topic and partition of what no member reads."""
    return [(row["topic"], row["partition"]) for row in spark.table("leftovers").collect()]


def test_a_sound_canary_offends_nothing(spark: SparkSession) -> None:
    """One old member became an aware one, offsets advanced as far as delivered."""
    assert run(spark, snapshot(OLD_THREE), snapshot(CANARY, 520), canary_rules()) == {}


def test_a_sound_toggle_offends_nothing(spark: SparkSession) -> None:
    """The mode became kafka, both stores hold the offsets, all members follow."""
    before, after = snapshot(AWARE_ZOOKEEPER), snapshot(AWARE_KAFKA, 520, kafka=True)
    assert run(spark, before, after, toggle_rules()) == {}


def replace_row(table: str, index: int, **values: Any) -> Change:
    """A change that sets values of one row."""
    return lambda tables: tables[table][index].update(values)


def drop(table: str, index: int) -> Change:
    """A change that removes one row."""
    return lambda tables: tables[table].pop(index)


def add(table: str, row: dict[str, Any]) -> Change:
    """A change that appends one row."""
    return lambda tables: tables[table].append(row)


CANARY_PLANTS: list[tuple[str, Change, dict[str, list[str]]]] = [
    (
        "a key twice",
        add("offsets", offset(2, 540)),
        {"keys_unique": ["orders-2: its zookeeper offset is in table offsets 2 times"]},
    ),
    (
        "an offset nobody delivered",
        replace_row("ledger", 1, last_delivered=520),
        {
            "offset_delivered": [
                "orders-1: the zookeeper offset advanced from 510 to 530 but the last record delivered is 520"
            ]
        },
    ),
    (
        "an advance without any delivery",
        drop("ledger", 1),
        {
            "offset_delivered": [
                "orders-1: the zookeeper offset advanced from 510 to 530 but no member delivered it"
            ]
        },
    ),
    (
        "an offset beyond the log",
        replace_row("log_ends", 3, log_end=549),
        {"offset_in_log": ["orders-3: the zookeeper offset 550 is outside the log [0, 549]"]},
    ),
    (
        "a partition more",
        add("log_ends", {"topic": "orders", "partition": 6, "log_start": 0, "log_end": 0}),
        {
            "partition_set_equal": ["orders-6: the partition was not there before"],
            "one_owner": ["orders-6: no member owns it"],
        },
    ),
    (
        "a log made anew",
        lambda tables: (tables["log_ends"][0].update(log_end=400), tables["offsets"].pop(0)),
        {"log_not_truncated": ["orders-0: the log end went back from 505 to 400"]},
    ),
    ("nobody owns it", drop("owners", 0), {"one_owner": ["orders-0: no member owns it"]}),
    (
        "two owners",
        add("owners", owner(4, "m1-1")),
        {
            "keys_unique": ["orders-4: is in table owners 2 times"],
            "one_owner": ["orders-4: 2 owners at once: payments_m1-1-0 and payments_m3-2-0"],
        },
    ),
    (
        "an owner who is no member",
        replace_row("owners", 0, member_id="payments_m9-1"),
        {"owner_is_member": ["orders-0: owned by payments_m9-1, which is not a member of the group"]},
    ),
    (
        "one member too few of a kind",
        replace_row("members", 2, kind="old", mode=None),
        {
            "member_kinds": [
                "0 members of kind aware where 1 were expected",
                "3 members of kind old where 2 were expected (payments_m1-1, payments_m2-1, payments_m3-2)",
            ]
        },
    ),
    (
        "another subscription",
        replace_row("subscriptions", 2, topic="clicks"),
        {
            "subscriptions_equal": [
                "clicks: 0 streams subscribed before, 1 after",
                "orders: 3 streams subscribed before, 2 after",
            ]
        },
    ),
    (
        "a mode node that nobody here wrote",
        replace_row("group", 0, mode_text="kafka"),
        {"mode_as_expected": ["the mode node holds kafka where nothing was expected"]},
    ),
    (
        "a member that does not follow",
        replace_row("members", 2, mode="kafka"),
        {"members_follow_mode": ["member payments_m3-2 acts in kafka mode where zookeeper is in effect"]},
    ),
    (
        "a canary with more than its share",
        lambda tables: [row.update(member_id="payments_m3-2") for row in tables["owners"][3:]],
        {"even_share": ["payments_m3-2 owns 3 of 6 partitions, its even share is 2"]},
    ),
]


@pytest.mark.parametrize(
    ("change", "offends"), [plant[1:] for plant in CANARY_PLANTS], ids=[plant[0] for plant in CANARY_PLANTS]
)
def test_a_plant_in_a_canary_is_named(
    spark: SparkSession, change: Change, offends: dict[str, list[str]]
) -> None:
    """Each plant offends the checks that are there for it, with where and why."""
    after = snapshot(CANARY, 520)
    change(after)
    assert run(spark, snapshot(OLD_THREE), after, canary_rules(), offends) == offends


TOGGLE_PLANTS: list[tuple[str, Change, dict[str, list[str]]]] = [
    (
        "a znode ahead",
        replace_row("offsets", 0, offset=521),
        {"stores_agree": ["orders-0: the znode 521 is ahead of Kafka 520"]},
    ),
    (
        "a znode too far behind",
        replace_row("offsets", 2, offset=489),
        {
            "stores_agree": [
                "orders-1: the znode 489 is 41 behind Kafka 530, more than one commit interval (40)"
            ]
        },
    ),
    (
        "no znode at all",
        drop("offsets", 0),
        {"stores_agree": ["orders-0: Kafka has 520 and there is no znode: a rollback would start elsewhere"]},
    ),
    (
        "no Kafka offset",
        drop("offsets", 1),
        {
            "kafka_store_complete": [
                "orders-0: the znode has 520, Kafka has nothing: a plain consumer would use its reset policy"
            ]
        },
    ),
    (
        "a mode that is not in effect",
        lambda tables: [
            tables["group"][0].update(effective_mode="zookeeper"),
            *(row.update(mode="zookeeper") for row in tables["members"]),
        ],
        {"mode_as_expected": ["the mode in effect is zookeeper where kafka was expected"]},
    ),
]


@pytest.mark.parametrize(
    ("change", "offends"), [plant[1:] for plant in TOGGLE_PLANTS], ids=[plant[0] for plant in TOGGLE_PLANTS]
)
def test_a_plant_in_a_toggle_is_named(
    spark: SparkSession, change: Change, offends: dict[str, list[str]]
) -> None:
    """Each plant offends the checks that are there for it, with where and why."""
    after = snapshot(AWARE_KAFKA, 520, kafka=True)
    change(after)
    assert run(spark, snapshot(AWARE_ZOOKEEPER), after, toggle_rules(), offends) == offends


def test_plain_members_are_not_asked_for_znodes_or_streams(spark: SparkSession) -> None:
    """What only ZooKeeper members keep up is not held against partitions of plain consumers."""
    plain = tuple(member(f"m{number}-3", "plain") for number in (1, 2, 3))
    after = snapshot(plain, 700, kafka=True)
    for row in after["owners"]:
        row.update(store="kafka", thread_id=None)
    after["offsets"] = [
        offset(row["partition"], 520 if row["store"] == "zookeeper" else row["offset"], row["store"])
        for row in after["offsets"]
    ]
    changes = replace(
        toggle_rules(), phase=PhaseName.RETIRE, replaced=3, old=MemberKind.AWARE, new=MemberKind.PLAIN
    )
    before = snapshot(AWARE_KAFKA, 520, kafka=True)
    before["subscriptions"][0]["streams"] = 2
    assert run(spark, before, after, changes) == {}


def test_a_passed_check_is_a_finding_too(spark: SparkSession) -> None:
    """Every check leaves a finding; those asked in kafka mode only say so."""
    register(spark, "before", snapshot(OLD_THREE))
    register(spark, "after", snapshot(CANARY, 520))
    results = ask(spark, canary_rules())
    assert {result.finding.verdict for result in results} == {Verdict.PASS}
    assert len(results) == len(checks.SNAPSHOT_CHECKS)


def test_every_statement_is_run() -> None:
    """No file below ``sql/checks/snapshot`` is forgotten."""
    there = {
        path.name.removesuffix(".sql")
        for path in files("groupshift").joinpath("sql/checks/snapshot").iterdir()
    }
    assert there == {check.statement for check in checks.SNAPSHOT_CHECKS}


LEFTOVERS = {"payments-old-0": ("payments-old", 0), "deleted-4": ("deleted", 4), "orders-99": ("orders", 99)}


@pytest.mark.parametrize("name", LEFTOVERS)
@pytest.mark.parametrize("stores", [("zookeeper",), ("kafka",), ("zookeeper", "kafka")], ids="+".join)
def test_f01_what_no_member_reads_offends_no_check(
    spark: SparkSession, name: str, stores: tuple[str, ...]
) -> None:
    """In kafka mode, too, where a position without a copy in Kafka is otherwise a reason to fail."""
    topic, partition = LEFTOVERS[name]
    left = [{**offset(partition, 77, store), "topic": topic} for store in stores]
    before, after = snapshot(AWARE_ZOOKEEPER), snapshot(AWARE_KAFKA, 520, kafka=True)
    for tables in (before, after):
        tables["offsets"].extend(left)
    assert run(spark, before, after, toggle_rules()) == {}
    assert leftovers(spark) == [(topic, partition)]


def test_f01_what_was_read_before_or_is_named_is_no_leftover(spark: SparkSession) -> None:
    """A partition that went between the snapshots, and a topic that the brokers do not know, still offend."""
    before, after = snapshot(OLD_THREE), snapshot(CANARY, 520)
    after["log_ends"].pop()
    after["owners"].pop()
    found = run(spark, before, after, canary_rules(), ("offset_in_log", "partition_set_equal"))
    assert set(found) == {"offset_in_log", "partition_set_equal"}
    after = snapshot(CANARY, 520)
    after["offsets"].append({**offset(0, 7), "topic": "wanted"})
    after["subscriptions"].append({"member_id": "payments_m1-1", "topic": "wanted", "streams": 1})
    found = run(spark, before, after, canary_rules(), ("offset_in_log",))
    assert "unknown to the brokers" in found["offset_in_log"][0]
    assert leftovers(spark) == []


def test_f01_below_the_log_start_is_explained(spark: SparkSession) -> None:
    """An idle partition whose records are deleted passes, and the sentence says where its reader begins."""
    before, after = snapshot(OLD_THREE), snapshot(CANARY, 520)
    after["log_ends"][3].update(log_start=600, log_end=600)
    after["log_ends"][4].update(log_start=580, log_end=590)
    assert run(spark, before, after, canary_rules(), ("offset_in_log",)) == {}
    (wanted,) = [check for check in checks.SNAPSHOT_CHECKS if check.statement == "offset_in_log"]
    (result,) = ask(spark, canary_rules(), [wanted])
    assert result.finding.verdict is Verdict.PASS
    assert "orders-3: explained: the zookeeper offset 550 is below the log start 600" in result.finding.reason
    assert "at 580 with auto.offset.reset=earliest (smallest), or at 590 with latest" in result.finding.reason


def answered(answer: str, start: int = 521, end: int = 530) -> AllowedChanges:
    """The rules of a canary with what the log answers about one range."""
    said = {"topic": "orders", "partition": 1, "from": start, "to": end, "answer": answer, "reason": "so"}
    return replace(canary_rules(), log=(said,))


@pytest.mark.parametrize(
    ("rules", "offends"),
    [
        (answered("nothing"), set()),
        (answered("lost"), {"offset_delivered"}),
        (answered("not proven"), {"offset_not_proven"}),
        (answered("nothing", end=529), {"offset_delivered"}),
        (answered("nothing", start=522), {"offset_delivered"}),
    ],
    ids=["markers only", "a record", "the log is gone", "another end", "another start"],
)
def test_f02_what_the_log_does_not_hold_is_not_lost(
    spark: SparkSession, rules: AllowedChanges, offends: set[str]
) -> None:
    """An offset beyond the last record delivered offends only where the log has a record, or cannot tell."""
    after = snapshot(CANARY, 520)
    replace_row("ledger", 1, last_delivered=520)(after)
    names = ("offset_delivered", "offset_not_proven")
    found = run(spark, snapshot(OLD_THREE), after, rules, names)
    assert set(found) == offends
    verdicts = {check.statement: check.verdict for check in checks.SNAPSHOT_CHECKS}
    assert verdicts["offset_not_proven"] is Verdict.INCONCLUSIVE


def test_u17_a_snapshot_beside_itself_leaves_pairs_unasked(spark: SparkSession) -> None:
    """What holds one snapshot against the other could not fail; what looks at one of them is asked."""
    register(spark, "before", snapshot(AWARE_KAFKA, kafka=True))
    register(spark, "after", snapshot(AWARE_KAFKA, kafka=True))
    results = ask(spark, toggle_rules(), itself=True)
    asked = {result.finding.rule for result in results if result.finding.applies}
    assert asked == {"V03", "V10", "V13", "V14", "V18", "V19", "V20"}
    assert {result.finding.verdict for result in results} == {Verdict.PASS}


def test_u17_a_check_without_anything_to_look_at_is_not_asked(spark: SparkSession) -> None:
    """No ledger, no aware member, zookeeper mode: each says why, and proves nothing."""
    before, after = snapshot(OLD_THREE), snapshot(OLD_THREE, 520)
    after["ledger"] = []
    register(spark, "before", before)
    register(spark, "after", after)
    rules = replace(canary_rules(), replaced=0, old=None, new=None)
    results = {each.finding.rule: each.finding for each in ask(spark, rules)}
    assert {rule for rule, each in results.items() if not each.applies} == {
        "V09",
        "V18",
        "V19",
        "V20",
        "V24",
        "V26",
    }
    assert "not asked in zookeeper mode" in results["V19"].reason
