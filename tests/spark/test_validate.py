"""The validation job end to end on snapshots that the real evidence store wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from groupshift.adapters.parquet.compare_inputs import verify
from groupshift.domain.evidence import MANIFEST, Moment, SnapshotOf
from groupshift.domain.phase_rules import PHASE_RULES, AllowedChanges
from groupshift.errors import Broken, Rejected
from groupshift.jobs import validate
from groupshift.spark import validation
from spark.snapshots import CANARY, OLD_THREE, canary_rules, offset, owner, snapshot, store, tamper
from support.loaded import loads
from support.small_disk import listing, needs_mount, small_disk

Run = Callable[..., tuple[int, dict[str, Any], Path]]


@pytest.fixture
def run(tmp_path: Path, spark: SparkSession) -> Run:
    """Run the job on two folders; returns exit code, verdict.json and the output folder."""

    def job(
        before: Path, after: Path, rules: AllowedChanges | None = None
    ) -> tuple[int, dict[str, Any], Path]:
        output, file = tmp_path / "out", tmp_path / "rules.json"
        file.write_text(json.dumps((rules or canary_rules()).to_data()))
        arguments = ["--before", before, "--after", after, "--output", output, "--rules", file]
        code = validate.main([*map(str, arguments)])
        verdict = output / validate.VERDICT
        return code, json.loads(verdict.read_text()) if verdict.exists() else {}, output

    return job


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A sound snapshot before and after a canary; partition 5 is idle."""
    before, after = snapshot(OLD_THREE), snapshot(CANARY, 520)
    after["offsets"][5] = offset(5, 550)
    after["log_ends"][5]["log_end"] = 555
    return (
        store(tmp_path / "evidence", "canary", Moment.BEFORE, before),
        store(tmp_path / "evidence", "canary", Moment.AFTER, after, taken_at_ms=1_763_740_021_500),
    )


def rules_of(verdict: dict[str, Any], outcome: str) -> dict[str, str]:
    """Reasons of the findings with that verdict, by rule."""
    return {one["rule"]: one["reason"] for one in verdict["findings"] if one["verdict"] == outcome}


def test_a_sound_phase_passes(run: Run, pair: tuple[Path, Path]) -> None:
    """Every rule is named in the verdict, all differences are in Parquet, the report stands alone."""
    code, verdict, output = run(*pair)
    assert (code, verdict["verdict"], verdict["version"]) == (0, "pass", 1)
    assert (verdict["run"], verdict["phase"], verdict["moment"]) == ("run-1", "canary", "after")
    assert verdict["counts"] == {"lost": 0, "extra": 0, "regressed": 0, "advanced": 5, "metadata_only": 0}
    assert set(rules_of(verdict, "pass")) == {f"V{number:02d}" for number in range(1, 27) if number != 23}
    assert verdict["manifests"] == {
        moment: verify(folder, of=SnapshotOf.GROUP).manifest.digest
        for moment, folder in zip(("before", "after"), pair, strict=True)
    }
    differences = pq.read_table(output / validate.DIFFERENCES).to_pylist()
    assert {row["class"] for row in differences} == {"lost", "extra", "advanced", "metadata_only"}
    assert all(row["allowed"] for row in differences)
    page = (output / verdict["report"]).read_text()
    assert not re.search(r"(?:src|href)=|url\(|@import|https?://", page)
    assert page.count("payments_m3-2") >= 2
    assert all(one["success"] for one in verdict["expectations"])
    assert len(verdict["expectations"]) > 60
    assert pq.read_table(output / validate.FAILING).num_rows == 0
    assert set(verdict["versions"]) == {"spark", "java", "great_expectations"}
    assert verdict["versions"]["spark"].startswith("4.")


def test_an_idle_znode_one_lower_is_named(run: Run, pair: tuple[Path, Path]) -> None:
    """The plant of the issue: an idle partition's offset went back by one; the report says which."""
    rows = pq.read_table(pair[1] / "offsets.parquet").to_pylist()
    rows[5]["offset"] = 549
    tamper(pair[1], "offsets", rows)
    code, verdict, output = run(*pair)
    assert (code, verdict["verdict"]) == (0, "fail")
    assert rules_of(verdict, "fail") == {"V06": "orders-5: its zookeeper offset went back from 550 to 549"}
    assert verdict["counts"]["regressed"] == 1
    assert (
        "orders-5: its zookeeper offset went back from 550 to 549" in (output / validate.REPORT).read_text()
    )


def test_a_snapshot_taken_again_is_read_again(run: Run, pair: tuple[Path, Path]) -> None:
    """One Spark session, the same path, other rows: the verdict is that of the files, not of a cache."""
    rows = pq.read_table(pair[1] / "offsets.parquet").to_pylist()
    for offset_of_idle, wanted in ((549, "fail"), (550, "pass"), (548, "fail")):
        rows[5]["offset"] = offset_of_idle
        tamper(pair[1], "offsets", rows)
        assert run(*pair)[1]["verdict"] == wanted


def test_a_second_owner_fails(run: Run, pair: tuple[Path, Path]) -> None:
    """The plant of the issue: an owner row with another owner, the manifest re-hashed to cover it."""
    rows = pq.read_table(pair[1] / "owners.parquet").to_pylist()
    tamper(pair[1], "owners", [*rows, owner(4, "m1-1")])
    code, verdict, output = run(*pair)
    assert (code, verdict["verdict"]) == (0, "fail")
    failed = rules_of(verdict, "fail")
    assert set(failed) == {"V03", "V13", "V22"}
    assert failed["V13"] == "orders-4: 2 owners at once: payments_m1-1-0 and payments_m3-2-0"
    assert "key (topic, partition) is unique" in failed["V22"]
    assert failed["V13"] in (output / validate.REPORT).read_text()
    (broken,) = (one for one in verdict["expectations"] if not one["success"])
    assert (broken["snapshot"], broken["table"], broken["severity"]) == ("after", "owners", "critical")
    rows = pq.read_table(output / validate.FAILING).to_pylist()
    assert [(row["table"], row["topic"], row["partition"]) for row in rows] == [("owners", "orders", 4)] * 2
    assert {json.loads(row["row"])["member_id"] for row in rows} == {"payments_m1-1", "payments_m3-2"}
    page = (output / validate.REPORT).read_text()
    assert loads(page) == []
    assert '<span class="badge fail">fails</span>' in page


def test_a_changed_file_is_refused_before_spark(
    run: Run, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not the one its manifest names stops the job before a session exists."""

    def no_session(_: str) -> SparkSession:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(validate, "local_session", no_session)
    path = pair[1] / "offsets.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    code, verdict, output = run(*pair)
    assert (code, verdict["verdict"]) == (5, "fail")
    assert list(rules_of(verdict, "fail")) == ["V01"]
    assert str(path) in rules_of(verdict, "fail")["V01"]
    assert str(path) in capsys.readouterr().err
    assert str(path) in (output / validate.REPORT).read_text()


def _without(manifest: dict[str, Any]) -> None:
    manifest["files"] = [entry for entry in manifest["files"] if entry["table"] != "owners"]


def _more_rows(manifest: dict[str, Any]) -> None:
    manifest["files"][0]["rows"] += 1


def _outside(manifest: dict[str, Any]) -> None:
    manifest["files"][0]["file"] = "../group.parquet"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_without, "lists no file of table owners"),
        (_more_rows, "where its manifest promises 2"),
        (_outside, "no plain Parquet file of its own folder"),
    ],
)
def test_a_manifest_that_lies_is_refused(
    pair: tuple[Path, Path], change: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    """A manifest that leaves a table out, counts wrong, or points elsewhere is no manifest."""
    file = pair[0] / MANIFEST
    manifest = json.loads(file.read_text())
    change(manifest)
    file.write_text(json.dumps(manifest))
    with pytest.raises(Broken, match=sentence):
        verify(pair[0], of=SnapshotOf.GROUP)


def test_strays_and_absences_are_refused(pair: tuple[Path, Path]) -> None:
    """A Parquet file nobody listed, a listed one that is gone, and no manifest at all."""
    before, after = pair
    (before / "more.parquet").write_bytes(b"")
    with pytest.raises(Broken, match=r"more\.parquet is not in the manifest"):
        verify(before, of=SnapshotOf.GROUP)
    (after / "ledger.parquet").unlink()
    with pytest.raises(Broken, match=r"ledger\.parquet is named in the manifest and missing"):
        verify(after, of=SnapshotOf.GROUP)
    (after / MANIFEST).unlink()
    with pytest.raises(Rejected, match=r"has no manifest\.json"):
        verify(after, of=SnapshotOf.GROUP)


def test_a_class_that_is_not_allowed_fails(
    run: Run, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a phase does not allow is not allowed: the rules decide, not the class."""
    strict = tuple(replace(rule, allowed="") if rule.rule == "V07" else rule for rule in PHASE_RULES)
    monkeypatch.setattr(validation, "PHASE_RULES", strict)
    _, verdict, output = run(*pair)
    assert list(rules_of(verdict, "fail")) == ["V07"]
    assert rules_of(verdict, "fail")["V07"].endswith("; and 2 more")
    rows = pq.read_table(output / validate.DIFFERENCES).to_pylist()
    assert {row["class"] for row in rows if not row["allowed"]} == {"advanced"}


def test_a_full_disk_leaves_no_verdict_and_no_report(
    pair: tuple[Path, Path], tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """B6: one sentence and exit code 4; neither a table of an earlier run nor half a page of this one."""
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(canary_rules().to_data()))
    with small_disk(tmp_path / "disk", 4) as kind:
        needs_mount(kind)
        output = tmp_path / "disk" / "out"
        given = ["--before", pair[0], "--after", pair[1], "--output", output, "--rules", rules]
        assert validate.main([*map(str, given)]) == 4
        assert listing(output) == []
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith(f"validate: the disk of {output}")
    assert said.endswith("is full: make room and run the same command again")


def test_f01_a_leftover_is_named_and_held_against_what_it_was(run: Run, tmp_path: Path) -> None:
    """Unchanged it is named; changed it is somebody else's doing and waits for a person, but never fails."""
    found = {}
    for name, then, now in (("kept", 77, 77), ("moved on", 77, 78), ("went back", 77, 5), ("gone", 77, None)):
        before, after = snapshot(OLD_THREE), snapshot(CANARY, 520)
        before["offsets"].append({**offset(0, then), "topic": "payments-old"})
        if now is not None:
            after["offsets"].append({**offset(0, now), "topic": "payments-old"})
        folders = (
            store(tmp_path / name, "canary", Moment.BEFORE, before),
            store(tmp_path / name, "canary", Moment.AFTER, after, taken_at_ms=1_763_740_021_500),
        )
        _, verdict, _ = run(*folders)
        (said,) = [one for one in verdict["findings"] if one["rule"] == "V25"]
        found[name] = (verdict["verdict"], said["verdict"])
        assert verdict["counts"]["lost"] == verdict["counts"]["regressed"] == 0
        if name == "kept":
            assert "payments-old-0: no member reads it: kept as it is (zookeeper offset 77)" in said["reason"]
    assert found == {
        "kept": ("pass", "pass"),
        "moved on": ("inconclusive", "inconclusive"),
        "went back": ("inconclusive", "inconclusive"),
        "gone": ("inconclusive", "inconclusive"),
    }


def test_f01_an_idle_partition_below_its_log_start_is_proven(run: Run, tmp_path: Path) -> None:
    """Neither the check nor the expectations of the snapshots fail; both say that it is explained."""
    before, after = snapshot(OLD_THREE), snapshot(CANARY, 520)
    after["offsets"][5] = offset(5, 550)
    for tables in (before, after):
        tables["log_ends"][5].update(log_start=600, log_end=600)
    folders = (
        store(tmp_path / "evidence", "canary", Moment.BEFORE, before),
        store(tmp_path / "evidence", "canary", Moment.AFTER, after, taken_at_ms=1_763_740_021_500),
    )
    _, verdict, _ = run(*folders)
    assert verdict["verdict"] == "pass", rules_of(verdict, "fail")
    passed = rules_of(verdict, "pass")
    assert all("explained" in passed[rule] for rule in ("V10", "V21", "V22"))


def test_u17_verdict_json_tells_apart_what_was_not_asked(run: Run, pair: tuple[Path, Path]) -> None:
    """A snapshot compared with itself: no rule about pairs counts as passed."""
    _, verdict, _ = run(pair[0], pair[0])
    asked = {one["rule"] for one in verdict["findings"] if one["applies"]}
    assert asked.isdisjoint({"V04", "V05", "V06", "V07", "V08", "V09", "V11", "V12", "V15", "V16", "V17"})
    assert {"V01", "V02", "V03", "V10", "V13"} <= asked
