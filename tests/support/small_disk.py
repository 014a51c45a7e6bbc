"""A disk that is really full: a small tmpfs where this user can mount one, else a limit on file sizes."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = 4096


@contextmanager
def small_disk(place: Path, pages: int) -> Iterator[str]:
    """``place`` (made here) has room for so many pages of 4 KiB. Yields ``tmpfs``, or ``limit`` where
    mounting is refused: then no file that this process writes, wherever, may have more bytes than that."""
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={pages * PAGE}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            yield "tmpfs"
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (pages * PAGE, before[1]))
    try:
        yield "limit"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def listing(folder: Path) -> list[str]:
    """Everything below a folder, by relative path."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def needs_mount(kind: str) -> None:
    """Skip a test whose writer is Spark's JVM, which a limit of this process does not reach."""
    if kind != "tmpfs":
        pytest.skip("this user may not mount a small disk, and nothing else fills one up for Spark")
