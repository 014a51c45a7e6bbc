"""What runs keep of a whole cluster: snapshots as folders of Parquet files, hashes of live commits as JSON
files, and what a comparison of two snapshots left.

Implements `groupshift.ports.cluster.ClusterSnapshotStore`, `groupshift.ports.log.CommitHashes` and
`groupshift.ports.spark_jobs.ComparisonOutcomes`, on a local file system.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from groupshift.adapters.parquet.store import (
    StorePath,
    decoded,
    draft_of,
    encoded,
    entry_of,
    manifest_bytes,
    unwritable,
)
from groupshift.domain.evidence import MANIFEST, FileEntry, Manifest, PlanOf, SnapshotOf, manifest_of
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.domain.rows import ROWS, ClusterState, OffsetRow
from groupshift.domain.run import findings_from
from groupshift.domain.snapshot import CLUSTER_TABLES, Table
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import read
from groupshift.log.commit_hashes import LiveCommit
from groupshift.ports.spark_jobs import Compared

VERDICT = "verdict.json"
_ROWS_A_FILE = 1_000_000
_TOPIC_ID = "topic_id"
_FORM = 1
_BAD = frozenset({Verdict.FAIL, Verdict.ERROR})


class ParquetClusterSnapshots:
    """Folders on a local file system. A snapshot is put in place whole: written beside its place under
    another name, manifest last, then renamed; whatever goes wrong leaves nothing behind."""

    def write(self, folder: Path, state: ClusterState, plan: PlanOf | None = None) -> Manifest:
        """See the port."""
        folder = folder.absolute()
        self.refuse(folder)
        keys = {(row.group, row.topic, row.partition) for row in state.offsets}
        about = {
            "cluster_id": state.cluster_id,
            "taken_at_ms": state.taken_at_ms,
            "unique_keys": len(keys) == len(state.offsets),
            "read_from": state.read_from.value,
            "plan": None if plan is None else asdict(plan),
        }
        tables = state.tables()
        every = CLUSTER_TABLES.values()
        try:
            with draft_of(folder) as draft:
                files = (_written(draft, each, tables.get(each.name, ())) for each in every)
                text = manifest_bytes(about, chain.from_iterable(files))
                (draft / MANIFEST).write_bytes(text)
        except OSError as failed:
            raise unwritable(f"snapshot {folder}", failed) from failed
        return manifest_of(text, str(folder / MANIFEST), SnapshotOf.CLUSTER)

    def refuse(self, folder: Path) -> None:
        """See the port."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise Rejected(f"{folder} is not an empty folder: a snapshot is never overwritten; name another")

    def digest(self, folder: Path) -> str:
        """See the port."""
        return hashlib.sha256((StorePath.local(folder) / MANIFEST).required()).hexdigest()

    def offsets(self, folder: Path, digest: str) -> tuple[OffsetRow, ...]:
        """See the port."""
        place, known = StorePath.local(folder), {each.name for each in fields(OffsetRow)}
        text = (place / MANIFEST).verified(digest)
        return tuple(
            OffsetRow(**{name: row[name] for name in row if name in known})
            for entry in manifest_of(text, str(folder / MANIFEST), SnapshotOf.CLUSTER).of_table("offsets")
            for row in decoded(str(folder / entry.file), (place / entry.file).verified(entry.sha256))
        )


def _written(draft: Path, table: Table, rows: Sequence[Any]) -> Iterator[FileEntry]:
    """Write the rows of a table, a million a file; an empty table is one empty file. What a live snapshot
    cannot know (when an offset was committed; topic ids, of brokers before 4.1) is no column, which is not
    the same as null."""
    attributes = {each.name for each in fields(ROWS[table.name])}
    if all(getattr(row, _TOPIC_ID, None) is None for row in rows):
        attributes.discard(_TOPIC_ID)
    names = [column.name for column in table.columns if column.name in attributes]
    for number, start in enumerate(range(0, max(1, len(rows)), _ROWS_A_FILE)):
        path = draft / f"{table.name}-{number:05}.parquet"
        part = rows[start : start + _ROWS_A_FILE]
        data = encoded(table, {name: [*map(attrgetter(name), part)] for name in names})
        path.write_bytes(data)
        yield entry_of(table.name, path.name, len(part), data)


class CommitHashFiles:
    """One file a snapshot: ``{"version": 1, "commits": [{"group": …, "sha256": …}, …]}``."""

    def write(self, path: Path, commits: Sequence[LiveCommit]) -> str:
        """See the port; the file is written beside its place, then moved to it."""
        if path.exists():
            raise Rejected(f"{path} is there already: the hashes of a snapshot are never overwritten")
        document = {"version": _FORM, "commits": [asdict(each) for each in commits]}
        data = (json.dumps(document, indent=0, ensure_ascii=False) + "\n").encode()
        StorePath.local(path.parent).put({path.name: data})
        return hashlib.sha256(data).hexdigest()

    def read(self, path: Path, sha256: str) -> tuple[LiveCommit, ...]:
        """See the port."""
        data = (StorePath.local(path.parent) / path.name).verified(sha256)
        commits = load_object(data, str(path), at_most=FILE_BYTES)["commits"]
        return tuple(LiveCommit(**each) for each in commits)


class ComparisonFolders:
    """Folders that the job ``compare`` left on a local file system."""

    def read(self, output: Path) -> Compared | None:
        """See the port."""
        if not (output / MANIFEST).is_file():
            return None
        try:
            manifest, verdict = (
                load_object(read(output / name, below=output), str(output / name), at_most=FILE_BYTES)
                for name in (MANIFEST, VERDICT)
            )
            reasons = map(str, verdict["incomplete"])
            lacks = (Finding(rule="E00", verdict=Verdict.ERROR, reason=reason) for reason in reasons)
            findings = (*lacks, *findings_from(verdict["findings"]))
            return Compared(
                verdict=Verdict(verdict["verdict"]),
                reasons=tuple(f"{each.rule}: {each.reason}" for each in findings if each.verdict in _BAD),
                files=files_of(output),
                findings=findings,
                inputs=(str(manifest["inputs"]["before"]), str(manifest["inputs"]["after"])),
            )
        except (OSError, KeyError, TypeError, ValueError, Rejected) as wrong:
            raise Broken(
                f"the outcome of a comparison in {output} cannot be read ({wrong}): it was altered, a person "
                "must look"
            ) from wrong


def files_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every regular file below a folder, by path with the folder's own name.

    Raises:
        OSError: a file cannot be read.
        Broken: a folder cannot be listed.
    """
    place, regular = (
        StorePath.local(folder),
        (path for path, kind in StorePath.local(folder).below() if not kind),
    )
    return {f"{folder.name}/{path}": (place / path).measured()[0] for path in sorted(regular)}
