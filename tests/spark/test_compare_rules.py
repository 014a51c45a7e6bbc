"""Every kind of equality rule at both sides: what it allows, and what it does not, in one run a move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from groupshift.domain.equality_rules import Comparison, RuleKind
from groupshift.domain.verdict import Verdict
from groupshift.spark.compare.comparing import DIFFERENCES, compare
from groupshift.spark.compare.find_by_checksums import Request
from spark.cluster_snapshots import TAKEN_MS, Tables, one_group, write

Change = Callable[[Tables], None]
Cases = dict[str, tuple[Change, set[str]]]
"""Name of a group: what happens to it, and the rules that it then breaks."""


def of(table: str, at: int | None = None, **values: object) -> Change:
    """Set columns of one row of a table, or of all."""

    def change(tables: Tables) -> None:
        for number, row in enumerate(tables[table]):
            if at is None or number == at:
                row.update(values)

    return change


def drop(table: str, at: int) -> Change:
    """Remove one row."""

    def change(tables: Tables) -> None:
        del tables[table][at]

    return change


def again(table: str, at: int, **values: object) -> Change:
    """Add one row like another."""

    def change(tables: Tables) -> None:
        tables[table].append({**tables[table][at], **values})

    return change


def both(*changes: Change) -> Change:
    """One after the other."""

    def change(tables: Tables) -> None:
        for one in changes:
            one(tables)

    return change


def gone(tables: Tables) -> None:
    """The whole group is no longer there."""
    for name, rows in tables.items():
        if name != "log_ends":
            rows.clear()


def same(_: Tables) -> None:
    """Nothing happens."""


AT_REST: Cases = {
    "same": (same, set()),
    "gone": (gone, {"01", "02"}),
    "type": (of("groups", type="consumer"), {"11"}),
    "rebalancing": (of("groups", state="PreparingRebalance"), set()),
    "emptied": (of("groups", state="Empty"), {"12"}),
    "protocol-type": (of("groups", protocol_type="connect"), {"13"}),
    "assignor": (of("groups", protocol="roundrobin"), {"14"}),
    "bumped": (of("groups", generation=8), set()),
    "restarted": (of("groups", generation=6), {"15"}),
    "renamed": (of("members", 0, client_id="other"), {"17"}),
    "rejoined": (
        both(*(of(name, at, member_id="m9") for name, at in (("members", 0), ("subscriptions", 0)))),
        set(),
    ),
    "static": (of("members", 0, instance_id="other"), {"18"}),
    "member-lost": (drop("members", 1), {"16", "17", "18"}),
    "topics": (of("subscriptions", topic="else"), {"19"}),
    "swapped": (of("assignments", member_id="m1"), set()),
    "twice": (again("assignments", 0, member_id="m2"), {"21"}),
    "unowned": (drop("assignments", 3), {"21"}),
    "advanced": (of("offsets", 0, offset=60), {"03"}),
    "committed-again": (of("offsets", 0, commit_timestamp_ms=TAKEN_MS + 1), {"06"}),
}
LIVE: Cases = {
    "forward": (of("offsets", 0, offset=60, metadata="x", leader_epoch=9), set()),
    "to-the-end": (of("offsets", 0, offset=100), set()),
    "beyond": (of("offsets", 0, offset=101), {"03"}),
    "back": (of("offsets", 0, offset=49), {"03"}),
    "later": (of("offsets", 0, commit_timestamp_ms=TAKEN_MS + 1), set()),
    "earlier": (of("offsets", 0, commit_timestamp_ms=TAKEN_MS - 1), {"06"}),
    "metadata": (of("offsets", 0, metadata="x"), set()),
    "lost": (drop("offsets", 0), {"02"}),
}
BACK: Cases = {
    "converted": (of("groups", type="classic", generation=1), set()),
    "left-over": (same, {"11"}),
    "to-share": (of("groups", type="share"), {"11"}),
    "rejoined": (both(of("groups", type="classic"), of("members", 0, member_id="x")), set()),
    "went-back": (both(of("groups", type="classic"), of("offsets", 0, offset=1)), {"03"}),
}
UPGRADE: Cases = {
    "converted": (of("groups", type="consumer", protocol="uniform"), set()),
    "assigning": (of("groups", type="consumer", state="Assigning"), set()),
    "left-over": (same, {"11"}),
}
MOVED: Cases = {
    "committed-anew": (
        both(of("groups", state="Stable", generation=0), of("offsets", commit_timestamp_ms=TAKEN_MS + 5)),
        set(),
    ),
    "shadowed": (of("offsets", 1, offset=1), {"03"}),
    "left-behind": (gone, {"01", "02"}),
    "metadata": (of("offsets", 1, metadata="x"), {"05"}),
}
TOGGLED: Cases = {
    "consuming": (both(of("offsets", 0, offset=70, metadata=""), of("groups", type="")), set()),
    "fell-back": (of("offsets", 0, offset=49), {"03"}),
    "beyond": (of("offsets", 0, offset=101), {"03"}),
    "not-in-kafka": (drop("offsets", 2), {"02"}),
}
COPIED: Cases = {
    "translated": (both(of("offsets", offset=12), of("groups", state="Empty", type="classic")), set()),
    "at-start": (of("offsets", 0, offset=10), set()),
    "at-end": (of("offsets", 0, offset=100), set()),
    "below": (of("offsets", 0, offset=9), {"03"}),
    "above": (of("offsets", 0, offset=101), {"03"}),
    "metadata": (of("offsets", 0, metadata="lost"), {"05"}),
    "partial": (drop("offsets", 0), {"02"}),
}
RUNS = [
    (Comparison.DOWNGRADE, False, "ED", AT_REST, {}),
    (Comparison.DOWNGRADE, True, "ED", LIVE, {}),
    (Comparison.PROTOCOL_BACK, False, "EB", BACK, {"type": "consumer"}),
    (Comparison.PROTOCOL, False, "EP", UPGRADE, {}),
    (Comparison.EXPANSION, False, "EX", MOVED, {}),
    (Comparison.COORDINATION, False, "EC", TOGGLED, {}),
    (Comparison.CLUSTER, False, "EL", COPIED, {}),
]


def together(cases: Cases, before: dict[str, object], *, changed: bool) -> Tables:
    """All groups of a run in one snapshot, each with a topic of its own."""
    found: Tables = {}
    for name, (change, _) in cases.items():
        tables = one_group()
        of("groups", **before)(tables)
        if changed:
            change(tables)
        for table, rows in tables.items():
            for row in rows:
                row.update({key: name for key in ("group",) if key in row})
                row.update({"topic": f"{row['topic']}-{name}"} if "topic" in row else {})
            found.setdefault(table, []).extend(rows)
    return found


@pytest.mark.parametrize(("move", "live", "prefix", "cases", "before"), RUNS)
def test_a_rule_holds_and_breaks_where_it_says(
    tmp_path: Path,
    spark: SparkSession,
    *,
    move: Comparison,
    live: bool,
    prefix: str,
    cases: Cases,
    before: dict[str, object],
) -> None:
    """Each group breaks exactly the rules that it was made to break; a sound one breaks none."""
    other = {"cluster_id": "cluster-b"} if move is Comparison.CLUSTER else {}
    request = Request(
        before=write(tmp_path / "a", together(cases, before, changed=False)),
        after=write(tmp_path / "b", together(cases, before, changed=True), **other),
        output=tmp_path / "out",
        comparison=move,
        live=live,
    )
    outcome = compare(request, session=lambda: spark)
    broken: dict[str, set[str]] = {name: set() for name in cases}
    for one in outcome.results:
        for name in cases:
            if one.finding.verdict is Verdict.FAIL and f"group {name}" in one.finding.reason.replace(
                ":", ","
            ):
                named = one.finding.reason.replace(":", ",")
                if f"group {name}," in named:
                    broken[name].add(one.finding.rule)
    for path in (request.output / DIFFERENCES).glob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            if not row["allowed"]:
                broken[row["group"]].add(row["rule"])
    assert broken == {name: {f"{prefix}{number}" for number in rules} for name, (_, rules) in cases.items()}
    assert outcome.verdict is Verdict.FAIL
    if other:
        (offset,) = (one for one in outcome.results if one.about["demand"] == RuleKind.WITHIN)
        assert offset.count == 2


def test_an_expansion_keeps_every_group_that_committed(tmp_path: Path, spark: SparkSession) -> None:
    """One without offsets is forgotten with the restart of its coordinator; one that is new is told."""
    kept, bare, new = one_group(), one_group(), one_group()
    bare["offsets"].clear()
    for name, tables in (("bare", bare), ("new", new)):
        for rows in tables.values():
            for row in rows:
                row.update({key: name for key in ("group",) if key in row})
    for rows in new.values():
        if rows is not new["groups"]:
            rows.clear()

    def holding(*found: Tables) -> Tables:
        return {name: [row for tables in found for row in tables[name]] for name in kept}

    for number, (after, verdict, said) in enumerate(
        (
            (holding(kept), Verdict.PASS, ""),
            (holding(kept, bare), Verdict.PASS, ""),
            (holding(kept, bare, new), Verdict.FAIL, "group new: the group was not there before"),
        )
    ):
        outcome = compare(
            Request(
                before=write(tmp_path / f"a{number}", holding(kept, bare)),
                after=write(tmp_path / f"b{number}", after),
                output=tmp_path / f"out{number}",
                comparison=Comparison.EXPANSION,
                live=False,
            ),
            session=lambda: spark,
        )
        (found,) = [each for each in outcome.findings if each.rule == "EX01"]
        assert (found.verdict, said in found.reason) == (verdict, True), found


def copied(tmp_path: Path, spark: SparkSession, before: Tables, after: Tables) -> tuple[Verdict, str]:
    """The verdict about a copy in another cluster, and what is said of it that is not proven."""
    request = Request(
        before=write(tmp_path / "a", before),
        after=write(tmp_path / "b", after, cluster_id="cluster-b"),
        output=tmp_path / "out",
        comparison=Comparison.CLUSTER,
    )
    outcome = compare(request, session=lambda: spark)
    return outcome.verdict, " ".join(each.reason for each in outcome.incomplete)


def test_f12_numbers_that_any_log_holds_prove_no_copy(tmp_path: Path, spark: SparkSession) -> None:
    """0 and 1 while the source went on, and the source's own number in another log; the rest is none."""
    before, after = one_group(), one_group()
    logs = [(10, 100, 12, 12), (0, 100, 1, 1), (0, 900, 52, 52), (10, 100, 53, 53)]
    for at, (start, end, offset, _) in enumerate(logs):
        after["log_ends"][at] |= {"log_start": start, "log_end": end}
        after["offsets"][at] |= {"offset": offset}
    verdict, said = copied(tmp_path, spark, before, after)
    assert verdict is Verdict.ERROR
    assert "not proven" in said
    assert "orders-1: offset 1 may be where the copy began: the source has 51" in said
    assert "orders-2: offset 52 is the number of the source, whose log is [10, 100] and not [0, 900]" in said
    assert "orders-0" not in said
    assert "orders-3" not in said


def test_translated_numbers_in_their_logs_are_no_question(tmp_path: Path, spark: SparkSession) -> None:
    """They pass: within the log, and not the source's."""
    before, after = one_group(), one_group()
    of("offsets", offset=12)(after)
    verdict, said = copied(tmp_path, spark, before, after)
    assert (verdict, said) == (Verdict.PASS, "")


def test_f12_topics_under_the_names_of_a_mirror_are_not_proven(tmp_path: Path, spark: SparkSession) -> None:
    """Said before what else differs, with both names."""
    before, after = one_group(), one_group()
    of("offsets", topic="source.orders", offset=12)(after)
    of("log_ends", topic="source.orders")(after)
    verdict, said = copied(tmp_path, spark, before, after)
    assert verdict in {Verdict.ERROR, Verdict.FAIL}
    assert "not proven: 'orders' is 'source.orders': the later cluster has the names of a mirror" in said


def test_f03_a_commit_of_another_topic_of_the_same_name_differs(tmp_path: Path, spark: SparkSession) -> None:
    """Another id, or one that its coordinator no longer answers by; an id that is not known is no other."""
    before, after = one_group(), one_group()
    for at, (was, is_now) in enumerate([("id-1", "id-2"), ("id-1", "former"), ("id-1", None), ("", "id-1")]):
        before["offsets"][at] |= {"topic_id": was}
        after["offsets"][at] |= {"topic_id": is_now}
    request = Request(
        before=write(tmp_path / "a", before),
        after=write(tmp_path / "b", after),
        output=tmp_path / "out",
        comparison=Comparison.EXPANSION,
    )
    outcome = compare(request, session=lambda: spark)
    (found,) = (each for each in outcome.results if each.finding.rule == "EX08")
    assert (found.finding.verdict, found.count) == (Verdict.FAIL, 2)
    assert "orders-0: it belonged to the topic id id-1, now to id-2" in found.finding.reason
    assert "orders-1: it belonged to the topic id id-1, now to former" in found.finding.reason
