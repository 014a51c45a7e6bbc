"""A folder below the temporary one that belongs to this user alone, for what is read back and executed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


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
