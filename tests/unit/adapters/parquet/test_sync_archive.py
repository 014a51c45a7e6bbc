"""The archive of offset syncs: what was read once is there after any restart, whole or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.parquet import sync_archive
from groupshift.adapters.parquet.store import Place
from groupshift.adapters.parquet.sync_archive import ParquetSyncArchive
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken, Conflict, Rejected, Transient
from groupshift.links.sync_history import EpochEnd, PartitionPair, Sync
from groupshift.links.sync_log import Histories, SyncLogPosition, SyncsRead, extend

AT, OTHER = TopicPartition("orders", 3), TopicPartition("café", 0)


def read(first: int, *pairs: tuple[TopicPartition, int, int], unreadable: int = 0) -> SyncsRead:
    """Syncs that follow each other in the topic from an offset on."""
    syncs = tuple(
        (at, Sync(upstream=upstream, downstream=downstream, log_offset=first + number, log_time_ms=number))
        for number, (at, upstream, downstream) in enumerate(pairs)
    )
    position = SyncLogPosition(topic_id="topic", next_offset=first + len(pairs))
    return SyncsRead(syncs=syncs, position=position, unreadable=unreadable)


def keep(archive: ParquetSyncArchive, histories: Histories, part: SyncsRead) -> None:
    """A cycle: the histories grow, and all is kept."""
    extend(histories, part)
    archive.append(part, {at: history.epoch for at, history in histories.items()})


def offsets(histories: Histories, at: TopicPartition, commits: range) -> list[int | None]:
    """What the syncs make of committed offsets."""
    found = (histories[at].conservative(commit) for commit in commits)
    return [each.offset if each else None for each in found]


def test_what_was_read_is_there_after_a_restart(tmp_path: Path) -> None:
    """In any number of cycles; the position says where to go on."""
    folder, histories = str(tmp_path / "archive"), Histories()
    archive = ParquetSyncArchive(folder, "link")
    assert archive.position() == SyncLogPosition()
    assert archive.load() == {}
    for cycle in range(5):
        pairs = [(at, 100 * cycle + n, 90 * cycle + n) for n in range(7) for at in (AT, OTHER)]
        keep(archive, histories, read(14 * cycle, *pairs, unreadable=1))
    again = ParquetSyncArchive(folder, "link")
    assert again.position() == SyncLogPosition(topic_id="topic", next_offset=70)
    assert again.unreadable == 5
    loaded = again.load()
    assert set(loaded) == {AT, OTHER}
    for at in (AT, OTHER):
        assert len(loaded[at]) == 35
        assert offsets(loaded, at, range(500)) == offsets(histories, at, range(500))
    assert set(again.load([AT])) == {AT}
    assert len(again.load([AT])[AT]) == 35
    assert len(again.load([TopicPartition("none", 0)])[TopicPartition("none", 0)]) == 0


def test_small_files_are_joined_and_large_ones_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cycle each half a minute makes no file each half a minute."""
    monkeypatch.setattr(sync_archive, "_SMALL", 10)
    archive, histories = ParquetSyncArchive(str(tmp_path), "link"), Histories()
    for cycle in range(12):
        keep(archive, histories, read(4 * cycle, *((AT, 4 * cycle + n, 4 * cycle + n) for n in range(4))))
    index = json.loads((tmp_path / "index.json").read_bytes())
    assert [each["rows"] for each in index["files"]] == [12, 12, 12, 12]
    assert {each.name for each in tmp_path.iterdir()} == {
        "index.json",
        *(each["file"] for each in index["files"]),
    }
    assert len(archive.load()[AT]) == 48


def test_epochs_are_kept_and_only_the_current_one_translates(tmp_path: Path) -> None:
    """One ends by a topic id, one by a sync that goes back; the older ones stay in the index."""
    archive, histories = ParquetSyncArchive(str(tmp_path), "link"), Histories()
    keep(archive, histories, read(0, (AT, 10, 5), (AT, 20, 15)))
    pair = PartitionPair(source_id="s1", target_id="t1", source_start=0, target_end=99, sync_log_end=2)
    assert histories[AT].observe(pair) is None
    assert histories[AT].observe(replace(pair, target_id="t2")) is EpochEnd.TARGET_TOPIC_ID
    keep(archive, histories, read(2, (AT, 30, 3)))
    loaded = ParquetSyncArchive(str(tmp_path), "link").load()[AT]
    assert loaded.epoch == histories[AT].epoch
    assert loaded.epoch.target_id == "t2"
    assert loaded.conservative(25) is None
    assert len(loaded) == 1
    keep(archive, histories, read(3, (AT, 40, 1)))
    loaded = ParquetSyncArchive(str(tmp_path), "link").load()[AT]
    assert loaded.epoch.cause is EpochEnd.TARGET_WENT_BACK
    assert loaded.epoch == histories[AT].epoch
    index = json.loads((tmp_path / "index.json").read_bytes())
    assert [each["epoch"]["number"] for each in index["epochs"]] == [0, 1, 2]


def test_a_cycle_without_a_sync_still_moves_on(tmp_path: Path) -> None:
    """The topic held markers or damage only."""
    archive = ParquetSyncArchive(str(tmp_path), "link")
    archive.append(read(0, unreadable=3), {})
    assert archive.position().topic_id == "topic"
    assert archive.unreadable == 3
    assert [each.name for each in tmp_path.iterdir()] == ["index.json"]


class Stopped(Exception):
    """The process ends here."""


@pytest.mark.parametrize("moves", [0, 1])
def test_a_process_that_is_killed_while_it_writes_leaves_the_archive_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """Before the file of syncs is in place, or before the index is; then the same again."""
    folder, histories = str(tmp_path), Histories()
    archive = ParquetSyncArchive(folder, "link")
    keep(archive, histories, read(0, (AT, 10, 5)))
    left = [moves]

    class Dying:
        def __init__(self, system):
            self._system = system

        def __getattr__(self, name):
            return getattr(self._system, name)

        def move(self, source, target):
            if not left[0]:
                raise Stopped
            left[0] -= 1
            self._system.move(source, target)

    dying = ParquetSyncArchive(folder, "link")
    dying._place = replace(dying._place, system=Dying(dying._place.system))
    monkeypatch.setattr(Place, "is_local", True)
    second = read(1, (AT, 20, 15))
    extend(histories, second)
    with pytest.raises(Stopped):
        dying.append(second, {AT: histories[AT].epoch})
    fresh = ParquetSyncArchive(folder, "link")
    assert fresh.position().next_offset == 1
    assert len(fresh.load()[AT]) == 1
    fresh.append(second, {AT: histories[AT].epoch})
    assert len(fresh.load()[AT]) == 2
    index = json.loads((tmp_path / "index.json").read_bytes())
    named = {each["file"] for each in index["files"]}
    assert {each.name for each in tmp_path.glob("*.parquet")} == named


def test_another_writer_is_noticed(tmp_path: Path) -> None:
    """It wrote after this one read."""
    ours, theirs = ParquetSyncArchive(str(tmp_path), "link"), ParquetSyncArchive(str(tmp_path), "link")
    ours.position()
    theirs.append(read(0, (AT, 10, 5)), {})
    with pytest.raises(Conflict, match="another process"):
        ours.append(read(0, (AT, 10, 5)), {})
    assert len(ours.load()[AT]) == 1
    ours.append(read(1, (AT, 20, 15)), {})


def test_what_was_altered_is_broken(tmp_path: Path) -> None:
    """A file of syncs, and the index."""
    archive = ParquetSyncArchive(str(tmp_path), "link")
    archive.append(read(0, (AT, 10, 5)), {})
    (file,) = tmp_path.glob("*.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")
    with pytest.raises(Broken, match="altered"):
        archive.load()
    file.unlink()
    with pytest.raises(Broken, match="gone"):
        archive.load()
    index = tmp_path / "index.json"
    text = index.read_bytes()
    for wrong in (b"", b"{}", text[:-9], text.replace(b'"link": "link"', b'"link": "other"')):
        index.write_bytes(wrong)
        with pytest.raises(Broken):
            archive.position()
    index.write_bytes(text.replace(b'"version": 1', b'"version": 2', 1))
    with pytest.raises(Rejected, match="form 2"):
        archive.position()


def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says that the same may be tried again."""
    archive = ParquetSyncArchive(str(tmp_path), "link")
    archive.append(read(0, (AT, 10, 5)), {})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("groupshift.adapters.parquet.store.made_anew", full)
    with pytest.raises(Transient, match="make room"):
        archive.append(read(1, (AT, 20, 15)), {})
    assert archive.position().next_offset == 1
    assert len(archive.load()[AT]) == 1
