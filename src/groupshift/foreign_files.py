"""Files that somebody else wrote: regular ones only, at most so long, in an encoding that is known.

Whatever is refused is an `OSError` or a `ValueError` whose text can end a sentence: a named pipe would be
waited for without end, a device never ends, and a link leads out of the folder that a person looks at.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

TEXT_LIMIT = 64 << 20
"""The longest text that is read (bytes)."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_WIDE = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_LINKS = frozenset({errno.ELOOP, errno.EMLINK})


def kind_of(mode: int) -> str:
    """What a file mode stands for, in words; empty for a regular file."""
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no regular file")


def opened(path: str | Path, below: str | Path | None = None) -> BufferedReader:
    """Open a regular file to read bytes. With ``below``, a folder that ``path`` lies in, no part of the path
    behind that folder may be a link; without it links are followed.

    Raises:
        OSError: there is no such file, it cannot be opened, or it is no regular file.
        ValueError: the path holds a zero byte, or does not lie below the folder.
    """
    if below is None:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    else:
        handle = _handle_below(Path(path), Path(below))
    kind = kind_of(os.fstat(handle).st_mode)
    if kind:
        os.close(handle)
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file")
    return os.fdopen(handle, "rb")


def _handle_below(path: Path, below: Path) -> int:
    """Opened one part after the other, so that none is exchanged for a link meanwhile."""
    parts = path.relative_to(below).parts
    if ".." in parts or not parts:
        raise ValueError("the path leads out of its folder")
    shut = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(below, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            inner = os.open(part, shut, dir_fd=handle)
            os.close(handle)
            handle = inner
    except BaseException as failed:
        os.close(handle)
        if isinstance(failed, OSError) and failed.errno in _LINKS:
            raise OSError(errno.EINVAL, "a symbolic link is in its place, and none is followed") from failed
        raise
    return handle


def read(path: str | Path, limit: int = TEXT_LIMIT, below: str | Path | None = None) -> bytes:
    """All bytes of a regular file. Raises as `opened`, and `OSError` for one longer than ``limit`` bytes."""
    with opened(path, below) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EINVAL, f"it is longer than {limit} bytes")
    return data


def made_anew(path: str | Path) -> None:
    """Make an empty file of our own, whatever was at ``path``: to write through a link would change a file of
    somebody else, to open a pipe would wait for a reader. Raises `OSError`, `ValueError` for a zero byte."""
    Path(path).unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))


@contextmanager
def put_whole(path: Path) -> Iterator[Path]:
    """Where to write first: renamed onto ``path`` when it is whole, gone when it is not. Raises as
    `made_anew`, and `OSError` where it cannot be renamed; what was at ``path`` is then as it was."""
    part = path.with_name(f"{path.name}.part")
    try:
        made_anew(part)
        yield part
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def text_of(data: bytes) -> str:
    """UTF-8 with or without a byte order mark; UTF-16 with one. Raises `UnicodeDecodeError`."""
    wide = _WIDE.get(data[:2])
    return data.decode(wide or "utf-8-sig")


def toml(path: str | Path) -> dict[str, Any]:
    """A TOML file. Raises `OSError` as `read`, `ValueError` for anything that is not TOML."""
    text = text_of(read(path))
    try:
        return tomllib.loads(text)
    except RecursionError as deep:
        raise ValueError("its values are nested too deeply") from deep
