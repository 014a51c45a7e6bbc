"""Files put in place whole, and what to say where they cannot be written."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import suppress

from pyarrow import fs

from groupshift.domain.evidence import MANIFEST
from groupshift.errors import GroupshiftError, Rejected, Transient
from groupshift.foreign_files import made_anew

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def unwritable(what: str, failed: OSError) -> GroupshiftError:
    """The error to raise: `Transient` where the disk is full, else `Rejected`."""
    if failed.errno in _FULL:
        return Transient(
            f"{what} cannot be written ({failed.strerror or failed}), nothing of it was left: "
            "make room, then run the same command again"
        )
    return Rejected(f"{what} cannot be written ({failed.strerror or failed}): name a place that can be")


def put_together(store: fs.FileSystem, folder: str, files: Mapping[str, bytes]) -> None:
    """Put the files there whole: all are written beside their places, then moved onto them in their order; a
    manifest goes last, and its predecessor first, so that no manifest is beside another's files.

    Raises `Transient` on a full disk, `Rejected` where nobody may write; then everything is as it was."""
    parts = [f"{folder}/{name}.part" for name in files]
    try:
        store.create_dir(folder, recursive=True)
        for part, data in zip(parts, files.values(), strict=True):
            if isinstance(store, fs.LocalFileSystem):
                made_anew(part)
            with store.open_output_stream(part, compression=None) as out:
                out.write(data)
    except OSError as failed:
        for part in parts:
            with suppress(OSError):
                _remove(store, part)
        raise unwritable(f"evidence below {folder}", failed) from failed
    try:
        if MANIFEST in files:
            _remove(store, f"{folder}/{MANIFEST}")
        for part in parts:
            store.move(part, part.removesuffix(".part"))
    except OSError as failed:
        raise unwritable(f"evidence below {folder}", failed) from failed


def _remove(store: fs.FileSystem, path: str) -> None:
    if store.get_file_info(path).type != fs.FileType.NotFound:
        store.delete_file(path)
