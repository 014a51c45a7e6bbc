"""What somebody may do to one file of evidence, whatever wrote it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.named_pipe import named_pipe

Deed = Callable[[Path], None]


def flip(path: Path) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def halve(path: Path) -> None:
    """Truncate it."""
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    """Leave nothing in it."""
    path.write_bytes(b"")


def lengthen(path: Path) -> None:
    """Add a blank."""
    path.write_bytes(path.read_bytes() + b" ")


def remove(path: Path) -> None:
    """Delete it."""
    path.unlink()


def link(path: Path) -> None:
    """The same bytes, but they lie elsewhere."""
    root = next(each for each in path.parents if each.name == "evidence")
    outside = root.parent / f"outside-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    path.rename(outside)
    path.symlink_to(outside)


def pipe(path: Path) -> None:
    """Put a named pipe in its place."""
    path.unlink()
    named_pipe(path)


def folder(path: Path) -> None:
    """Put a folder in its place."""
    path.unlink()
    path.mkdir()


def capital(path: Path) -> None:
    """Write its name in capitals."""
    path.rename(path.with_name(path.name.upper()))


def exchange(path: Path) -> None:
    """With the file of the same name of another phase."""
    others = [
        each for each in path.parents[2].glob(f"*/*/{path.name}") if each.read_bytes() != path.read_bytes()
    ]
    path.write_bytes(others[0].read_bytes() if others else b"another")


DEEDS: dict[str, Deed] = {
    each.__name__: each
    for each in (flip, halve, empty, lengthen, remove, link, pipe, folder, capital, exchange)
}


def manifest(change: Callable[[dict[str, Any]], object]) -> Deed:
    """Rewrite a manifest with this change."""

    def deed(path: Path) -> None:
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document, indent=2) + "\n")

    return deed


def refit(path: Path) -> None:
    """Alter a table, and its manifest so that both fit."""
    table = path.with_name("offsets.parquet")
    table.write_bytes(path.with_name("log_ends.parquet").read_bytes())
    document = json.loads(path.read_text())
    for entry in document["files"]:
        if entry["table"] == "offsets":
            entry["sha256"] = hashlib.sha256(table.read_bytes()).hexdigest()
            entry["bytes"] = table.stat().st_size
    path.write_text(json.dumps(document, indent=2) + "\n")


MANIFESTS: dict[str, Deed] = {
    "rows": manifest(lambda data: data["files"][0].update(rows=10**6)),
    "hash": manifest(lambda data: data["files"][0].update(sha256="0" * 64)),
    "a file less": manifest(lambda data: data["files"].pop()),
    "a file outside": manifest(lambda data: data["files"][0].update(file="../../x")),
    "an absolute file": manifest(lambda data: data["files"][0].update(file="/etc/passwd")),
    "another moment": manifest(lambda data: data.update(moment="before")),
    "another time": manifest(lambda data: data.update(taken_at_ms=1)),
    "deep": lambda path: path.write_text("[" * 100_000),
    "refit": refit,
}


def add(name: str) -> Deed:
    """Put a file beside, or below."""

    def deed(path: Path) -> None:
        where = path.parent / name
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text("mine")

    return deed


def away(path: Path) -> None:
    """Delete its folder."""
    shutil.rmtree(path.parent)


def linked_folder(path: Path) -> None:
    """The whole folder lies elsewhere."""
    outside = path.parents[3] / "elsewhere"
    path.parent.rename(outside)
    path.parent.symlink_to(outside, target_is_directory=True)
