"""The ledger port: what members delivered, from the files they write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groupshift.adapters.ledger import LedgerFiles
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def line(member: str, partition: int, offset: int) -> str:
    """One record as members write it."""
    record = {"member": member, "topic": "orders", "partition": partition, "offset": offset, "at_ms": 1}
    return json.dumps(record) + "\n"


def test_the_highest_offset_of_any_member_counts(tmp_path: Path) -> None:
    """Over all files, also those of members that are gone, and whatever the order of offsets."""
    (tmp_path / "m1-1.jsonl").write_text(line("g_m1-1", 0, 5) + line("g_m1-1", 0, 3) + line("g_m1-1", 1, 7))
    (tmp_path / "m2-1.jsonl").write_text(line("g_m2-1", 0, 9))
    assert LedgerFiles(tmp_path).last_delivered("g") == {P0: 9, P1: 7}


def test_other_groups_are_left_out(tmp_path: Path) -> None:
    """A group's members start with its name and an underscore."""
    (tmp_path / "a.jsonl").write_text(line("g_m1-1", 0, 5) + line("gg_m1-1", 0, 99))
    assert LedgerFiles(tmp_path).last_delivered("g") == {P0: 5}
    assert LedgerFiles(tmp_path).last_delivered("g2") == {}


def test_no_folder_is_an_empty_ledger(tmp_path: Path) -> None:
    """Neither a missing folder nor none at all is an error."""
    assert LedgerFiles(tmp_path / "absent").last_delivered("g") == {}
    assert LedgerFiles(None).last_delivered("g") == {}
    assert LedgerFiles("").last_delivered("g") == {}


def test_a_torn_last_line_counts_once_it_is_whole(tmp_path: Path) -> None:
    """The writer may be in the middle of it; the rest is read when it is there."""
    path, ledger, record = tmp_path / "m1-1.jsonl", LedgerFiles(tmp_path), line("g_m1-1", 0, 6)
    path.write_text(line("g_m1-1", 0, 5) + record[:20])
    assert ledger.last_delivered("g") == {P0: 5}
    with path.open("a") as file:
        file.write(record[20:])
    assert ledger.last_delivered("g") == {P0: 6}


def test_the_highest_offset_below_a_bound(tmp_path: Path) -> None:
    """Whatever lies beyond it, before or behind what was read, of members of the group only."""
    path, ledger = tmp_path / "m1-1.jsonl", LedgerFiles(tmp_path)
    path.write_text(line("g_m1-1", 0, 5) + line("g_m1-1", 1, 7) + line("x_m1-1", 0, 8))
    assert ledger.delivered_below("g", {P0: 9, P1: 7}) == {P0: 5}
    assert ledger.last_delivered("g") == {P0: 5, P1: 7}
    with path.open("a") as file:
        file.write(line("g_m1-1", 0, 12) + line("g_m1-1", 0, 6) + line("g_m1-1", 0, 8)[:-5])
    (tmp_path / "m2-1.jsonl").write_text(line("g_m2-1", 1, 3))
    for _ in range(2):
        assert ledger.delivered_below("g", {P0: 9, P1: 7}) == {P0: 6, P1: 3}
    assert ledger.last_delivered("g") == {P0: 12, P1: 7}
    assert ledger.delivered_below("g", {P0: 9, P1: 7}) == {P0: 6, P1: 3}
    assert LedgerFiles(None).delivered_below("g", {P0: 9}) == {}


def test_only_what_was_added_is_read_again(tmp_path: Path) -> None:
    """What was read stays known even where its bytes have since been overwritten in place."""
    path, ledger = tmp_path / "m1-1.jsonl", LedgerFiles(tmp_path)
    first = line("g_m1-1", 0, 5)
    path.write_text(first)
    assert ledger.last_delivered("g") == {P0: 5}
    with path.open("r+") as file:
        file.write("x" * (len(first) - 1) + "\n" + line("g_m1-1", 1, 2))
    assert ledger.last_delivered("g") == {P0: 5, P1: 2}


def test_a_file_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    """A new file of the same name is another ledger."""
    path, ledger = tmp_path / "m1-1.jsonl", LedgerFiles(tmp_path)
    path.write_text(line("g_m1-1", 0, 500) * 3)
    assert ledger.last_delivered("g") == {P0: 500}
    draft = tmp_path / "draft"
    draft.write_text(line("g_m1-1", 0, 4))
    draft.replace(path)
    assert ledger.last_delivered("g") == {P0: 4}


def test_a_large_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that straddle two pieces are whole."""
    monkeypatch.setattr("groupshift.adapters.ledger._CHUNK", 256)
    (tmp_path / "m1-1.jsonl").write_text("".join(line("g_m1-1", n % 2, n) for n in range(1000)))
    assert LedgerFiles(tmp_path).last_delivered("g") == {P0: 998, P1: 999}


@pytest.mark.parametrize(
    "bad", ["{}", "not json", "[1]", '{"member":"g_m","topic":"t","partition":"x","offset":1}']
)
def test_a_whole_line_that_is_no_record_is_broken(tmp_path: Path, bad: str) -> None:
    """File and line are named: what was delivered can no longer be proven."""
    path = tmp_path / "m1-1.jsonl"
    path.write_text(line("g_m1-1", 0, 5) + bad + "\n")
    with pytest.raises(Broken, match=r"line 2 of ledger .*m1-1\.jsonl"):
        LedgerFiles(tmp_path).last_delivered("g")


def timed(member: str, partition: int, at_ms: int) -> str:
    """One record with its time."""
    record = {"member": member, "topic": "orders", "partition": partition, "offset": at_ms, "at_ms": at_ms}
    return json.dumps(record) + "\n"


def test_tenures_are_runs_of_deliveries_by_time(tmp_path: Path) -> None:
    """Over all files: a run ends where another member delivers; other groups and times are left out."""
    (tmp_path / "m1.jsonl").write_text("".join(timed("g_m1", 0, at) for at in (10, 20, 50, 60, 900)))
    (tmp_path / "m2.jsonl").write_text(timed("g_m2", 0, 30) + timed("g_m2", 1, 35) + timed("g_m2", 0, 40))
    (tmp_path / "x.jsonl").write_text(timed("h_m1", 0, 25) + timed("g_m3", 0, 70)[:-1])
    found = LedgerFiles(tmp_path).intervals("g", 0, 100)
    runs = [(each.partition, each.member, each.start_ms, each.end_ms, each.records) for each in found]
    assert runs == [
        (P0, "g_m1", 10, 20, 2),
        (P0, "g_m2", 30, 40, 2),
        (P0, "g_m1", 50, 60, 2),
        (P1, "g_m2", 35, 35, 1),
    ]
    assert LedgerFiles(None).intervals("g", 0, 100) == []


def test_a_delivery_without_a_time_is_no_record(tmp_path: Path) -> None:
    """It could not be put in order."""
    (tmp_path / "m1.jsonl").write_text(timed("g_m1", 0, 5).replace('"at_ms"', '"when"'))
    with pytest.raises(Broken, match="no time at_ms"):
        LedgerFiles(tmp_path).intervals("g", 0, 10)


def test_a_line_that_is_no_record_keeps_its_number_however_often_it_is_read(tmp_path: Path) -> None:
    """Who waits reads again and again."""
    (tmp_path / "m1-1.jsonl").write_text(line("g_m1-1", 0, 5) + "not a record\n")
    ledger = LedgerFiles(tmp_path)
    for _ in range(3):
        with pytest.raises(Broken, match="line 2 of ledger"):
            ledger.last_delivered("g")
