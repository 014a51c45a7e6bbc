"""Folders of this user: one below the temporary one that nobody else writes to, the cache, and a lock."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    """``GROUPSHIFT_CACHE``, by default ``groupshift`` below the user's cache folder: jars, Ivy, Java shim."""
    named = os.environ.get("GROUPSHIFT_CACHE")
    if named:
        return Path(named).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve() / "groupshift"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``<path>.lock``; the kernel frees it when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def own_folder(name: str) -> Path | None:
    """The folder ``name-<user>``, made when it is missing; None where it cannot be had: somebody else's, one
    that others may write to, a link, or no place to write at all."""
    owner = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"{name}-{owner}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    if found.st_uid != owner or found.st_mode & 0o022 or folder.is_symlink():
        return None
    return folder
