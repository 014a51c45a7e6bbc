"""The report of an audit of offsets: what it means comes first, and nothing in it is markup."""

from __future__ import annotations

from dataclasses import replace

import pytest
from markupsafe import escape

from groupshift.audit.offsets import Audit, Looked, Mismatch
from groupshift.audit.report import SHOWN, judged, render, sentence
from groupshift.domain.verdict import Verdict
from support.audit_rules import BY_NUMBER

EVIL = "<script>alert(1)</script>"


def row(number: str, group: str = "orders-app", partition: int = 0) -> Mismatch:
    """One difference of this rule."""
    rule = BY_NUMBER[number]
    told = {"answered": 12_345, "logged": 12_346, "zookeeper": None, "mode": None, "log_end": 20_000}
    where = {"log_partition": 7, "log_offset": 99, "foreign_partition": 8, "foreign_offset": 4}
    said = {"rule": number, "kind": rule.kind, "weight": rule.weight, "reason": rule.reason}
    at = {"group": group, "topic": "orders", "partition": partition, "remedy": rule.remedy}
    return Mismatch(**at, **said, **told, **where)  # type: ignore[arg-type]


def audit(*rows: Mismatch, keys: int = 100, problems: tuple[str, ...] = ()) -> Audit:
    """An audit that found these."""
    looked = Looked(keys=keys, mismatches=rows, problems=problems)
    return Audit(
        began_ms=0, ended_ms=3_200, cluster_id="c1", zookeeper=True, retention_ms=604_800_000, looked=looked
    )


@pytest.mark.parametrize(
    ("rows", "verdict", "word"),
    [
        ((), Verdict.PASS, "clean"),
        (("A08", "A28"), Verdict.PASS, "clean"),
        (("A08", "A01"), Verdict.INCONCLUSIVE, "1 not explained"),
        (("A01", "A33"), Verdict.FAIL, "2 not explained"),
    ],
)
def test_the_worst_weight_is_its_colour(rows: tuple[str, ...], verdict: Verdict, word: str) -> None:
    """A missing source alone proves nothing; what is explained is green."""
    found = audit(*(row(number, partition=at) for at, number in enumerate(rows)))
    assert judged(found) == (verdict, word)
    assert f'<span class="badge {verdict}">{word}</span>' in render(found)


def test_it_says_what_to_do_for_each_kind_and_how_to_see_that_it_is_gone() -> None:
    """Remedies with their counts, the most frequent first, and a command with the first groups."""
    rows = [row("A10", f"g{number}") for number in range(7)]
    text = render(audit(*rows, row("A33", "g1", 3)))
    assert "8 offsets differ without an explanation, in 7 groups; 92 of 100 offsets agree" in text
    frequent, rare = (escape(BY_NUMBER[number].remedy) for number in ("A10", "A33"))
    frequent, rare = (
        f"{said}</strong>: {todo}"
        for said, todo in (("7 stale answer", frequent), ("1 stores diverge", rare))
    )
    assert text.index(frequent) < text.index(rare)
    assert "groupshift audit --groups g0,g1,g2,g3,g4</code> (and the other 2)" in text


def test_a_row_tells_every_source_and_where_the_deciding_records_lie() -> None:
    """Numbers with thousands set apart; what a source does not say is a dash."""
    text = render(audit(row("A04")))
    for part in (
        "foreign record (A04)",
        "12,345",
        "12,346",
        "20,000",
        "partition 7 at 99; partition 8 says 4",
    ):
        assert part in text
    assert '<td class="number">-</td>' in text


def test_only_so_many_rows_are_shown_and_the_rest_is_counted() -> None:
    """The page of a cluster that is wholly wrong stays small."""
    text = render(audit(*(row("A10", f"g{number}") for number in range(SHOWN + 9)), keys=1000))
    assert text.count("stale answer (A10)") == SHOWN
    assert f"The first {SHOWN} of {SHOWN + 9}; differences.parquet" in text


def test_a_clean_audit_and_one_of_nothing_say_so() -> None:
    """Nothing to do is told from nothing looked at."""
    clean, nothing = render(audit()), render(audit(keys=0))
    assert "No offset differs: 100 of 100 offsets agree in three sources." in clean
    explained = (
        "All 100 offsets are as they should be: 99 agree in three sources, 1 differ for a known reason."
    )
    assert explained in render(audit(row("A08")))
    assert "every source says the same of every offset" in clean
    assert "Not explained" not in clean
    assert "there was nothing to audit" in nothing
    assert "the cluster you mean" in nothing
    assert judged(audit(keys=0)) == (Verdict.INCONCLUSIVE, "nothing to audit")


def test_nothing_is_said_of_offsets_where_a_source_did_not_tell() -> None:
    """What was not read may have offsets."""
    silent = "coordinator 3 does not answer"
    looked = Looked(keys=0, mismatches=(), problems=(silent,), unread={"orders-app": (silent,)})
    unread = replace(audit(keys=0), looked=looked)
    assert judged(unread) == (Verdict.INCONCLUSIVE, "not proven")
    assert sentence(unread).startswith("Not every source told all it has: 0 of 0 offsets agree")
    assert "the cluster you mean" not in render(unread)


def test_names_and_problems_are_never_markup() -> None:
    """A group may be called anything."""
    text = render(replace(audit(row("A10", EVIL), problems=(EVIL,)), cluster_id=EVIL))
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 4
