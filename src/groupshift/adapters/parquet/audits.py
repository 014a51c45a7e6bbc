"""Audits as folders of evidence, a folder each, named by its path or URI."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyarrow import fs

from groupshift.adapters.parquet.store import (
    StorePath,
    decoded,
    draft_of,
    encoded,
    entry_of,
    manifest_bytes,
    unwritable,
)
from groupshift.audit.offsets import DIFFERENCES, Audit, audit_of, summary
from groupshift.domain.evidence import MANIFEST
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.domain.foreign_text_quoting import without_login
from groupshift.errors import Broken, Rejected, Transient

_FILE, _REPORT = "differences.parquet", "report.html"


class ParquetAudits:
    """Local folders, or any URI that Arrow's file systems open. A local one is put in place whole: written
    beside its place under another name, then renamed. Elsewhere an audit is its manifest, written last."""

    def write(self, folder: str, audit: Audit, report: str) -> None:
        """Write every difference (Parquet), its ``report`` (HTML) and a summary; the folder appears whole or
        not at all.

        Raises:
            Rejected: as `refuse`, and where nobody may write.
            Transient: the disk is full."""
        self.refuse(folder)
        rows, names = audit.looked.mismatches, [each.name for each in DIFFERENCES.columns]
        data = encoded(DIFFERENCES, {name: [getattr(row, name) for row in rows] for name in names})
        manifest = manifest_bytes(summary(audit), [entry_of(DIFFERENCES.name, _FILE, len(rows), data)])
        files = {_FILE: data, _REPORT: report.encode(), MANIFEST: manifest}
        place = opened(folder)
        if not place.is_local:
            place.put(files)
            return
        try:
            with draft_of(Path(place.path)) as draft:
                for name, content in files.items():
                    (draft / name).write_bytes(content)
        except OSError as failed:
            raise unwritable(f"audit {folder}", failed) from failed

    def refuse(self, folder: str) -> None:
        """Raise `Rejected` when ``folder`` cannot become an audit: it is there and not empty."""
        place = opened(folder)
        (there,) = place.system.get_file_info([place.path])
        inside = fs.FileSelector(place.path, allow_not_found=True)
        if there.type is fs.FileType.File or place.system.get_file_info(inside):
            raise Rejected(f"{folder} is not an empty folder: an audit is never overwritten; name another")

    def read(self, folder: str) -> Audit:
        """The audit that is kept there, as it was given to `write`.

        Raises:
            Rejected: there is none.
            Broken: it is not what was written."""
        summary = self.summary(folder)
        try:
            (entry,) = summary["files"]
            data = (opened(folder) / _FILE).verified(entry["sha256"])
            return audit_of(summary, decoded(f"{folder}/{_FILE}", data))
        except (KeyError, ValueError, TypeError, AttributeError, Broken, Rejected) as wrong:
            raise Broken(f"the audit in {folder} is no longer what was written ({wrong})") from wrong

    def names(self, root: str) -> tuple[str, ...]:
        """The folders of audits right below ``root``, by name; none where it is not there.

        Raises `Transient` when it cannot be listed, and as `StorePath.below`."""
        try:
            kept = [path.split("/") for path, _ in opened(root).below()]
        except OSError as failed:
            why = failed.strerror or failed
            raise Transient(f"the audits in {root} cannot be listed ({why}): try again") from failed
        return tuple(sorted(folder for folder, *below in kept if below == [MANIFEST]))

    def summary(self, folder: str) -> Mapping[str, Any]:
        """What `groupshift.audit.offsets.summary` said of the audit that is kept there.

        Raises:
            Rejected: there is none.
            Broken: it cannot be read."""
        try:
            text = (opened(folder) / MANIFEST).read(FILE_BYTES)
            if text is not None:
                return load_object(text, "it", at_most=FILE_BYTES)
        except (Broken, Rejected) as wrong:
            raise Broken(f"{folder}/{MANIFEST} is no longer what was written ({wrong})") from wrong
        raise Rejected(f"there is no audit in {folder}: name the folder of one, or audit again")


def opened(folder: str) -> StorePath:
    """Return the place of an audit; of a local one no link below the folder that it lies in is followed.

    Raises:
        Rejected: the URI cannot be opened.
    """
    where = folder if "://" in folder else str(Path(folder).absolute())
    place = StorePath.of(where, repr(without_login(folder)), "name")
    return replace(place, root=posixpath.dirname(place.path)) if place.is_local else place
