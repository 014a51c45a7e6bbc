"""The order of files for several workers: what takes longest begins first, so that no worker is left with it
alone at the end (with ``--no-loadscope-reorder``, which would begin with the most tests)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from support.parts import FILE_SECONDS, ROOT


def longest_first(items: list[pytest.Item]) -> None:
    """Sort by the seconds that each file took in the last landing; a file that is new there begins first."""
    seconds = json.loads(FILE_SECONDS.read_text())
    places = {file: place for place, file in enumerate(in_order((item.path for item in items), seconds))}
    items.sort(key=lambda item: places[item.path])


def in_order(files: Iterable[Path], seconds: Mapping[str, float]) -> list[Path]:
    """The files as they begin, each once; ``seconds`` are by path below the repository."""
    new = float("inf")
    return sorted(dict.fromkeys(files), key=lambda file: -seconds.get(str(file.relative_to(ROOT)), new))
