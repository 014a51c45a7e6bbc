"""The audit job on a log and ledgers that tell one story a topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from groupshift.jobs import audit_consumption
from spark.stories import EPOCH_MS, GROUP, Story, everything, line, topics


def audit(root: Path, ledgers: Path, log: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """Run the job; returns exit code and audit.json."""
    arguments = ["--ledgers", ledgers, "--zookeeper-log", log, "--group", GROUP, "--output", root / "out"]
    code = audit_consumption.main([*map(str, arguments), *more])
    return code, json.loads((root / "out" / audit_consumption.VERDICT).read_text())


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Path, dict[str, Any]]:
    """One run over every story; the output folder and audit.json."""
    root = tmp_path_factory.mktemp("stories")
    ledgers, log = everything().write(root)
    code, data = audit(root, ledgers, log, "--to-ms", str(EPOCH_MS + 20_000))
    assert code == 0
    return root / "out", data


Told = tuple[Path, dict[str, Any]]


def finding(told: Told, rule: str) -> dict[str, Any]:
    """One finding."""
    return next(one for one in told[1]["findings"] if one["rule"] == rule)


def of(told: Told, part: str, topic: str) -> list[dict[str, Any]]:
    """The rows of one part about one topic."""
    return [row for row in told[1][part] if row["topic"] == topic]


def test_lost_offsets_are_the_gaps_and_what_was_committed_unseen(told: Told) -> None:
    """A hole in the sequence, and a commit beyond the last delivery, are lost records; nothing else is."""
    ranges = {row["topic"]: (row["from_offset"], row["to_offset"]) for row in told[1]["lost_ranges"]}
    assert ranges == {"lost": (10, 12), "beyond": (20, 24)}
    assert (told[1]["lost"], finding(told, "A03")["verdict"]) == (8, "fail")


def test_a_duplicate_at_a_hand_over_is_explained_and_named(told: Told) -> None:
    """From the committed offset to the last one delivered: that is what a hand-over may repeat."""
    (row,) = of(told, "duplicate_ranges", "again")
    assert (row["from_offset"], row["to_offset"], row["records"]) == (7, 9, 3)
    assert (row["committed"], row["reached"]) == (7, 9)
    assert (row["explained"], row["hand_over"]) == (True, "g_m1-1 → g_m2-1")


def test_a_duplicate_from_before_the_commit_is_not_explained(told: Told) -> None:
    """A taker that starts before the committed offset went back too far."""
    (row,) = of(told, "duplicate_ranges", "rewound")
    assert (row["from_offset"], row["to_offset"], row["explained"]) == (4, 9, False)
    assert row["objection"] == "it begins before 7, the offset committed at the hand-over"


def test_an_owner_that_repeats_itself_is_not_explained(told: Told) -> None:
    """A second delivery within one tenure has no hand-over to blame."""
    (row,) = of(told, "duplicate_ranges", "twice")
    assert (row["from_offset"], row["objection"]) == (15, "delivered twice by the same owner")


def test_a_delivery_after_the_node_is_gone_is_an_overlap(told: Told) -> None:
    """An aware member that delivers while another owns is named, with the one that owned."""
    outside = finding(told, "A05")
    assert outside["verdict"] == "fail"
    assert outside["reason"] == (
        "zombie-0: g_m2-1 delivered 2 records outside its ownership, first offset 20 at "
        "15:46:49.600 UTC, 2 of them while g_m3-1 owned it"
    )
    assert outside["count"] == 1


def test_a_late_stamp_of_an_old_member_is_tolerated(told: Told) -> None:
    """The recorder stamps behind a pipe: 600 ms after is within the stated tolerance, and is reported."""
    old = next(row for row in told[1]["members"] if row["member"] == "g_m1-1")
    assert (old["kind"], old["latest_stamp_ms"]) == ("old", 600)
    assert of(told, "duplicate_ranges", "late") == []
    assert told[1]["tolerance_ms"] == {"old": 2000, "aware": 0, "plain": 0}


def test_plain_consumers_are_judged_by_their_deliveries(told: Told) -> None:
    """One that goes on where it stopped, and one within another's deliveries, overlap; hand-overs do not."""
    reasons = finding(told, "A07")["reason"]
    assert "invaded-0: g_p1-1 delivered 2 records from offset 10 while g_m2-1 owned it" in reasons
    assert "resumed-0: g_p1-1 went on at offset 5 although g_p2-1 had delivered up to 7" in reasons
    assert finding(told, "A07")["count"] == 2
    assert told[1]["overlaps"] == 4
    retired = of(told, "duplicate_ranges", "retired")
    assert [(row["from_offset"], row["to_offset"], row["explained"]) for row in retired] == [
        (9, 9, True),
        (13, 14, True),
    ]
    kinds = {row["member"]: row["kind"] for row in told[1]["members"]}
    assert (kinds["g_m2-1"], kinds["g_p1-1"]) == ("aware", "plain")


def test_a_clean_hand_over_leaves_its_times_only(told: Told) -> None:
    """Who gave, who took, and how long nobody owned it, from ZooKeeper's clock."""
    (row,) = of(told, "hand_overs", "clean")
    assert (row["from"], row["to"], row["unowned_ms"], row["released_by"]) == (
        "g_m1-1",
        "g_m2-1",
        40,
        "released",
    )
    (partition,) = of(told, "partitions", "clean")
    assert (partition["deliveries"], partition["lost"], partition["duplicates"]) == (20, 0, 0)
    assert (partition["longest_unowned_ms"], partition["longest_unowned_at_ms"]) == (40, EPOCH_MS + 5000)


def test_the_log_is_whole_and_the_verdict_is_the_worst(told: Told) -> None:
    """Two files without a hole pass; owner nodes by themselves never overlap; the audit fails as a whole."""
    assert finding(told, "A01")["verdict"] == "pass"
    assert finding(told, "A06")["verdict"] == "pass"
    assert told[1]["verdict"] == "fail"


def test_between_plain_consumers_silence_is_measured(told: Told) -> None:
    """Nothing says that one has stopped but the other's first delivery."""
    plain = [row for row in told[1]["hand_overs"] if {row["kind"], row["giver_kind"]} == {"plain"}]
    assert 960 in {row["unowned_ms"] for row in plain}


def test_parquet_and_report_hold_the_same(told: Told) -> None:
    """Intervals, hand-overs and duplicates as Parquet; the page names what was found and stands alone."""
    output, data = told
    intervals = pq.read_table(output / "intervals.parquet").to_pylist()
    assert {row["member"] for row in intervals} == {"g_m1-1", "g_m2-1", "g_m3-1"}
    assert topics(pq.read_table(output / "duplicates.parquet").to_pylist()) == topics(
        data["duplicate_ranges"]
    )
    page = (output / data["report"]).read_text()
    assert "Owners over time" in page
    assert "offsets 10 to 12 were delivered to nobody" in page
    assert "it begins before 7" in page
    assert "://" not in page


def test_an_empty_ledger_proves_nothing(tmp_path: Path, spark: SparkSession) -> None:
    """Without any delivery the verdict is error, not pass."""
    story = Story()
    story.registers("m1-1")
    story.owns("orders", "m1-1", 1000)
    ledgers, log = story.write(tmp_path)
    (ledgers / "m1-1.jsonl").touch()
    code, data = audit(tmp_path, ledgers, log)
    assert (code, data["verdict"]) == (0, "error")


def test_a_torn_ledger_loses_its_last_line_only(tmp_path: Path, spark: SparkSession) -> None:
    """A member killed while it wrote leaves half a line: it is left out and named."""
    story = Story()
    story.registers("m2-1")
    story.owns("orders", "m2-1", 1000)
    story.delivers("orders", "m2-1", range(5), 1500)
    ledgers, log = story.write(tmp_path)
    with (ledgers / "m2-1.jsonl").open("a") as file:
        file.write(line(("m2-1", "orders", 5, 2000))[:30])
    code, data = audit(tmp_path, ledgers, log)
    assert (code, data["verdict"], data["deliveries"], data["torn_ledgers"]) == (0, "pass", 5, ["m2-1.jsonl"])


def test_a_ledger_damaged_in_the_middle_is_refused(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that is no delivery and not the last one means that the evidence cannot be trusted."""
    story = Story()
    story.registers("m2-1")
    story.delivers("orders", "m2-1", range(3), 1500)
    ledgers, log = story.write(tmp_path)
    path = ledgers / "m2-1.jsonl"
    path.write_text(path.read_text().replace('"offset":1', '"offset":x'))
    code, data = audit(tmp_path, ledgers, log)
    assert (code, data["verdict"]) == (5, "fail")
    assert "ledger m2-1.jsonl has the line" in capsys.readouterr().err


def test_a_folder_without_a_log_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence that names the folder and the remedy."""
    (tmp_path / "ledgers").mkdir()
    code, _ = audit(tmp_path, tmp_path / "ledgers", tmp_path)
    assert code == 2
    assert (
        f"no ZooKeeper transaction log (log.*) in {tmp_path}; give its version-2 folder"
        in capsys.readouterr().err
    )
