"""Two cluster snapshots compared end to end: classes, skew, duplicates, and what settles the question."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from groupshift.adapters.parquet.snapshots import ParquetClusterSnapshots
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.rows import (
    AssignmentRow,
    ClusterState,
    GroupRow,
    LogEndRow,
    MemberRow,
    OffsetRow,
)
from groupshift.domain.rows import SubscriptionRow as Subscribed
from groupshift.domain.verdict import Verdict
from groupshift.spark.compare.comparing import DIFFERENCES, VERDICT, compare
from groupshift.spark.compare.find_by_checksums import Request
from groupshift.spark.compare.judging import ComparisonOutcome
from spark.cluster_snapshots import TAKEN_MS, Rows, Tables, commit, commits, one_group, write

Run = Callable[..., tuple[ComparisonOutcome, list[dict[str, Any]]]]


@pytest.fixture
def run(tmp_path: Path, spark: SparkSession) -> Run:
    """Write two snapshots and compare them; gives the outcome and the differences found."""

    def job(before: Tables, after: Tables, **asked: Any) -> tuple[ComparisonOutcome, list[dict[str, Any]]]:
        manifest = asked.pop("manifest", {})
        files = asked.pop("files", (1, 1))
        request = Request(
            before=write(tmp_path / "a", before, files=files[0], **manifest),
            after=write(tmp_path / "b", after, files=files[1], **manifest),
            output=tmp_path / "out",
            **{"comparison": Comparison.DOWNGRADE, **asked},
        )
        outcome = compare(request, session=lambda: spark)
        assert json.loads((request.output / VERDICT).read_text()) == json.loads(json.dumps(outcome.to_data()))
        found = sorted((request.output / DIFFERENCES).glob("*.parquet"))
        return outcome, [row for path in found for row in pq.read_table(path).to_pylist()]

    return job


def changed(rows: Rows, at: int, **values: Any) -> Rows:
    """The rows with one of them changed."""
    return [{**row, **values} if number == at else row for number, row in enumerate(rows)]


PLANTED = [
    ("lost", "ED02", "group-0", 0, lambda _: [], {"before_offset": 100, "after_offset": None}),
    ("lost", "ED02", "group-0", 1, lambda row: [{**row, "offset": -1}], {"before_offset": 101}),
    ("extra", "ED02", "new", 0, lambda row: [row], {"before_offset": None, "after_offset": 5}),
    ("regressed", "ED03", "group-1", 0, lambda row: [{**row, "offset": 109}], {"before_offset": 110}),
    ("advanced", "ED03", "group-1", 1, lambda row: [{**row, "offset": 112}], {"after_offset": 112}),
    (
        "leader_epoch",
        "ED04",
        "group-2",
        0,
        lambda row: [{**row, "leader_epoch": 4}],
        {"after_leader_epoch": 4},
    ),
    (
        "metadata_only",
        "ED05",
        "group-2",
        1,
        lambda row: [{**row, "metadata": "x\0"}],
        {"after_metadata": "x\0"},
    ),
    (
        "timestamp",
        "ED06",
        "group-3",
        0,
        lambda row: [{**row, "commit_timestamp_ms": 5}],
        {"after_commit_timestamp_ms": 5, "before_commit_timestamp_ms": TAKEN_MS},
    ),
    (
        "record",
        "ED09",
        "group-3",
        1,
        lambda row: [{**row, "record_sha256": "b"}],
        {"after_record_sha256": "b"},
    ),
    ("duplicate", "ED10", "group-3", 2, lambda row: [row, row], {"before_rows": 1, "after_rows": 2}),
]


def test_each_difference_has_one_class_and_the_rule_that_decides(run: Run) -> None:
    """One of every class planted in one snapshot: all found with both values, none invented."""
    before = [{**row, "record_sha256": "a"} for row in commits()]
    changes = {(group, at): change for _, _, group, at, change, _ in PLANTED}
    after = [
        new
        for row in [*before, {**commit("new", 0, 5), "record_sha256": "a"}]
        for new in changes.get((row["group"], row["partition"]), lambda same: [same])(row)
    ]
    outcome, found = run({"offsets": before}, {"offsets": after})
    by_key = {(row["group"], row["partition"]): row for row in found}
    assert set(by_key) == set(changes)
    for class_, rule, group, at, _, holds in PLANTED:
        row = by_key[group, at]
        assert (row["class"], row["rule"], row["allowed"]) == (class_, rule, False)
        assert {key: row[key] for key in holds} == holds
    assert {name: count for name, count in outcome.counts.items() if count != 1} == {"lost": 2}
    failed = {one.finding.rule: one.count for one in outcome.results if one.finding.verdict is Verdict.FAIL}
    assert failed == {"ED02": 3, "ED03": 2, "ED04": 1, "ED05": 1, "ED06": 1, "ED09": 1, "ED10": 1}
    assert (outcome.verdict, outcome.settled_by) == (Verdict.FAIL, "rows")


def test_a_missing_partition_and_minus_one_are_the_same(run: Run) -> None:
    """Never committed, said in either way, on either side; null and nothing as well."""
    before = [*commits(), commit("idle", 0, -1), commit("plain", 0, 5, metadata=None, leader_epoch=None)]
    after = [*commits(), commit("other", 1, -1), commit("plain", 0, 5, metadata="", leader_epoch=-1)]
    outcome, found = run({"offsets": before}, {"offsets": after})
    assert (outcome.verdict, found) == (Verdict.PASS, [])


def test_the_same_rows_in_other_files_are_equal_by_their_checksums(run: Run) -> None:
    """Order of rows, number of files: nothing that a checksum sees; no row is compared."""
    rows = commits()
    outcome, found = run({"offsets": rows}, {"offsets": rows[::-1]}, files=(1, 3))
    assert (outcome.verdict, outcome.settled_by, found) == (Verdict.PASS, "checksums of segments", [])


@pytest.mark.parametrize(
    ("rows", "files", "settled_by"),
    [(commits(), 2, "files of the same bytes"), (commits()[::-1], 3, "checksums of segments")],
)
def test_equal_rows_need_no_spark(tmp_path: Path, rows: Rows, files: int, settled_by: str) -> None:
    """Files of the same SHA-256 on both sides, or the same rows in others: the session is never asked for."""
    alone = {"offsets", "assignments"}  # what is assigned is looked at by itself
    others = {name: each for name, each in one_group().items() if name not in alone}
    request = Request(
        before=write(tmp_path / "a", {"offsets": commits(), **others}, files=2),
        after=write(tmp_path / "b", {"offsets": rows, **others}, files=files),
        output=tmp_path / "out",
        comparison=Comparison.DOWNGRADE,
    )

    def never() -> SparkSession:
        raise AssertionError("Spark was started")

    outcome = compare(request, session=never)
    assert (outcome.verdict, outcome.settled_by) == (Verdict.PASS, settled_by)
    assert not (request.output / ".progress").exists()


def test_only_files_and_segments_that_differ_are_looked_into(run: Run) -> None:
    """One changed row of 1,000 in four files: one segment differs, and it is the only difference."""
    rows = commits(groups=100, partitions=10)
    outcome, found = run(
        {"offsets": rows}, {"offsets": changed(rows, 777, offset=0)}, files=(4, 4), part_rows=500
    )
    assert outcome.segments["differing"] == 1
    assert [(row["class"], row["group"], row["partition"]) for row in found] == [("regressed", "group-77", 7)]


def test_one_group_of_most_rows_is_spread_over_all_segments(run: Run) -> None:
    """A skewed group: 6,000 rows of one group, four planted differences, compared in many portions."""
    rows = [commit("huge", at, at, topic=f"t{at % 60}") for at in range(6000)] + commits()
    kept = changed(changed(rows, 17, offset=16), 5999, metadata="m")[1:]
    after = [*kept, commit("huge", 9999, 1)]
    outcome, found = run(
        {"offsets": rows}, {"offsets": after}, part_rows=3100, rows_at_once=300, files=(2, 2)
    )
    assert sorted((row["class"], row["partition"]) for row in found) == [
        ("extra", 9999),
        ("lost", 0),
        ("metadata_only", 5999),
        ("regressed", 17),
    ]
    assert outcome.segments["differing"] == 4
    assert outcome.counts["lost"] == outcome.counts["extra"] == 1


def test_a_key_that_is_there_many_times_is_one_row_not_a_product(run: Run) -> None:
    """A thousand times before and a thousand and one times after: reported once, its rows not joined."""
    rows = commits()
    before = rows + [commit("twice", 0, at) for at in range(1000)]
    after = rows + [commit("twice", 0, at) for at in range(1001)]
    outcome, found = run({"offsets": before}, {"offsets": after})
    assert [(row["class"], row["before_rows"], row["after_rows"]) for row in found] == [
        ("duplicate", 1000, 1001)
    ]
    assert outcome.counts["duplicate"] == 1


def test_duplicates_that_are_the_same_on_both_sides_are_looked_for(run: Run) -> None:
    """They cancel in every checksum: keys are counted, where the writer of the snapshot has not done it."""
    rows = [*commits(), *commits()[:2]]
    outcome, _ = run({"offsets": rows}, {"offsets": rows[::-1]}, manifest={"unique_keys": False})
    assert outcome.verdict is Verdict.FAIL
    (unique,) = (one for one in outcome.results if one.finding.rule == "ED10")
    assert unique.count == 4
    assert "orders-0: committed 2 times in one snapshot" in unique.finding.reason


def test_a_column_that_one_snapshot_lacks_is_not_compared_and_said_so(run: Run) -> None:
    """A snapshot of a broker that tells no leader epoch: the rule is inconclusive, the others hold."""
    without = [{key: row[key] for key in row if key != "leader_epoch"} for row in commits()]
    outcome, found = run({"offsets": commits()}, {"offsets": without})
    (rule,) = (one for one in outcome.results if one.finding.rule == "ED04")
    assert (rule.finding.verdict, found) == (Verdict.INCONCLUSIVE, [])
    assert rule.finding.reason.endswith("a snapshot has no column leader_epoch")
    assert outcome.verdict is Verdict.PASS


def live(offset: int, member: str) -> ClusterState:
    """What a live snapshot reads of one stable group of one member."""
    at = {"group": "g", "topic": "t", "partition": 0}
    return ClusterState(
        cluster_id="cluster-a",
        taken_at_ms=TAKEN_MS + offset,
        groups=(
            GroupRow(group="g", type="classic", state="Stable", protocol_type="consumer", protocol="range"),
        ),
        members=(MemberRow(group="g", member_id=member, client_id="c", host="127.0.0.1"),),
        subscriptions=(Subscribed(group="g", member_id=member, topic="t"),),
        assignments=(AssignmentRow(**at, member_id=member),),
        offsets=(OffsetRow(**at, offset=offset, leader_epoch=0, metadata="m\0"),),
        log_ends=(LogEndRow(topic="t", partition=0, log_start=0, log_end=10),),
    )


def test_snapshots_of_the_real_store_are_compared(tmp_path: Path, spark: SparkSession) -> None:
    """What `groupshift snapshot` writes is read here: a rejoin is sound, an offset beyond the log is not."""
    store = ParquetClusterSnapshots()
    for name, state in (("a", live(4, "m1")), ("b", live(10, "m2")), ("c", live(11, "m3"))):
        store.write(tmp_path / name, state)
    verdicts = {}
    for name in ("b", "c"):
        request = Request(
            before=tmp_path / "a",
            after=tmp_path / name,
            output=tmp_path / f"out-{name}",
            comparison=Comparison.DOWNGRADE,
            live=True,
        )
        verdicts[name] = compare(request, session=lambda: spark)
    broken = [one.finding for one in verdicts["c"].results if one.finding.verdict is Verdict.FAIL]
    assert (verdicts["b"].verdict, verdicts["b"].allowed["advanced"]) == (Verdict.PASS, 1)
    assert [(one.rule, one.reason) for one in broken] == [
        ("ED03", "group g, t-0: its offset advanced from 4 to 11, beyond the log end 10")
    ]
    unmeasured = {
        one.finding.rule for one in verdicts["b"].results if one.finding.verdict is Verdict.INCONCLUSIVE
    }
    assert unmeasured == {"ED06", "ED15"}
