"""Every offset sync of a link that was ever read, in a folder: `groupshift.links.sync_log.SyncArchive`.

Files of syncs in the order of the log, and ``index.json``: how far the topic was read, the files with their
SHA-256, and the epochs of each partition (the last one of a partition is the current one; its syncs are those
from its first log offset on). The index is replaced in one move after the files that it names are there, so
a process that is killed leaves the archive as it was, and perhaps a file that no index names. Files are never
changed; one that is small is joined with what follows into a new one.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from groupshift.adapters.parquet.store import Place, columns_in, encoded, entry_of, manifest_bytes
from groupshift.domain.evidence import FORM, FileEntry
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.domain.foreign_text_quoting import without_login
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plain import built
from groupshift.domain.snapshot import Column, ColumnType, Table
from groupshift.errors import Broken, Conflict, Rejected
from groupshift.links.sync_history import Epoch, Sync, SyncHistory
from groupshift.links.sync_log import Histories, SyncLogPosition, SyncsRead

_INDEX = "index.json"
_SMALL = 20_000
"""Syncs in a file up to which it is joined with what follows."""
_NUMBERS = ("upstream", "downstream", "log_offset", "log_time_ms")
_TABLE = Table(
    name="syncs",
    columns=(
        Column(name="topic", type=ColumnType.STRING),
        Column(name="partition", type=ColumnType.INT),
        *(Column(name=name, type=ColumnType.LONG) for name in _NUMBERS),
    ),
    key=("log_offset",),
)
_Rows = dict[str, list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpochEntry:
    topic: str
    partition: int
    epoch: Epoch

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """``unreadable`` counts records of the topic that were no syncs."""

    link: str
    version: int = FORM
    position: SyncLogPosition = field(default_factory=SyncLogPosition)
    unreadable: int = 0
    epochs: tuple[_EpochEntry, ...] = ()
    files: tuple[FileEntry, ...] = ()

    @property
    def current(self) -> dict[TopicPartition, Epoch]:
        """The current epoch of each partition."""
        return {each.at: each.epoch for each in self.epochs}


class ParquetSyncArchive:
    """A local folder or a URI that Arrow opens, for one link. See the port; used by one thread."""

    def __init__(self, folder: str, link: str) -> None:
        place = Place.of(folder, f"the archive {without_login(folder)!r}", "name")
        self._place = replace(place, root=posixpath.dirname(place.path)) if place.is_local else place
        self._link = link
        self._last_index: bytes | None = None

    @property
    def unreadable(self) -> int:
        """How many records of the topic were no syncs, in all. Raises as `position`."""
        return self._read().unreadable

    def position(self) -> SyncLogPosition:
        """See the port."""
        return self._read().position

    def append(self, read: SyncsRead, epochs: Mapping[TopicPartition, Epoch]) -> None:
        """See the port."""
        before = self._last_index
        index = self._read()
        if before is not None and self._last_index != before:
            raise Conflict(
                f"the archive of syncs {self._place.path} was written by another process meanwhile: let one "
                "only keep the link in step, and start again"
            )
        files, new = index.files, dict[str, bytes]()
        rows = _rows(read)
        if rows["topic"]:
            if files and files[-1].rows <= _SMALL:
                rows = {name: kept + rows[name] for name, kept in self._rows_of(files[-1]).items()}
                files = files[:-1]
            count, first = len(rows["topic"]), rows["log_offset"][0]
            name = f"{_TABLE.name}-{first:020}-{read.position.log_end:020}.parquet"
            new[name] = encoded(_TABLE, rows)
            files = (*files, entry_of(_TABLE.name, name, count, new[name]))
        current = index.current
        changed = {at: epoch for at, epoch in epochs.items() if current.get(at) != epoch}
        kept = (each for each in index.epochs if not _replaced(each, changed))
        added = (
            _EpochEntry(topic=at.topic, partition=at.partition, epoch=each) for at, each in changed.items()
        )
        index = replace(
            index,
            position=read.position,
            unreadable=index.unreadable + read.unreadable,
            epochs=(*kept, *added),
            files=files,
        )
        about = asdict(index)
        del about["files"]
        new[_INDEX] = manifest_bytes(about, files)
        self._place.put(new)
        self._last_index = new[_INDEX]
        self._remove_others({each.file for each in files})

    def load(self, partitions: Collection[TopicPartition] | None = None) -> Histories:
        """See the port."""
        index = self._read()
        current = index.current
        wanted = current if partitions is None else partitions
        histories = {at: SyncHistory(current.get(at)) for at in wanted}
        for entry in index.files:
            for topic, partition, up, down, offset, time_ms in zip(
                *self._rows_of(entry).values(), strict=True
            ):
                at = TopicPartition(topic, partition)
                if at not in histories and partitions is None:
                    histories[at] = SyncHistory()
                if at in histories:
                    sync = Sync(upstream=up, downstream=down, log_offset=offset, log_time_ms=time_ms)
                    histories[at].append(sync)
        return histories

    def _read(self) -> _Index:
        """The index; an empty one where nothing is kept yet.

        Raises:
            Broken: it was altered, or is of another link.
            Rejected: a newer release wrote it.
        """
        where = f"{self._place.path}/{_INDEX}"
        text = (self._place / _INDEX).read(FILE_BYTES)
        self._last_index = text or b""
        if text is None:
            return _Index(link=self._link)
        try:
            fields = load_object(text, "it", at_most=FILE_BYTES)
            index: _Index = built(_Index, fields)
        except (Rejected, TypeError, ValueError) as wrong:
            raise Broken(f"{where} is not the index of an archive of syncs ({wrong})") from wrong
        if index.version > FORM:
            raise Rejected(f"{where} is of form {index.version}, this release reads forms up to {FORM}")
        if index.link != self._link:
            raise Broken(f"{where} is of link {index.link!r}, not of {self._link!r}: name its own folder")
        return index

    def _rows_of(self, entry: FileEntry) -> _Rows:
        data = (self._place / entry.file).verified(entry.sha256)
        return columns_in(f"{self._place.path}/{entry.file}", data)

    def _remove_others(self, named: Collection[str]) -> None:
        """Remove files of syncs that the index does not name (any more)."""
        for path, _ in self._place.below():
            if path.startswith(f"{_TABLE.name}-") and path not in named:
                with suppress(OSError):
                    self._place.system.delete_file((self._place / path).path)


def _replaced(kept: _EpochEntry, changed: Mapping[TopicPartition, Epoch]) -> bool:
    """True if what is said of this very epoch changed."""
    epoch = changed.get(kept.at)
    return epoch is not None and epoch.number == kept.epoch.number


def _rows(read: SyncsRead) -> _Rows:
    syncs = [(at, sync) for at, sync in read.syncs if isinstance(sync, Sync)]
    return {
        "topic": [at.topic for at, _ in syncs],
        "partition": [at.partition for at, _ in syncs],
        **{name: [getattr(sync, name) for _, sync in syncs] for name in _NUMBERS},
    }
