"""The order of files for several workers: a file that may take longest begins first, so that no worker is
left with it alone at the end (with ``--no-loadscope-reorder``, which would begin with the most tests)."""

from __future__ import annotations

from pathlib import Path

import pytest


def longest_first(items: list[pytest.Item]) -> None:
    """Sort by the longest ``timeout`` mark of a file (seconds; none is 0), else as collected."""
    allowed: dict[Path, float] = {}
    for item in items:
        mark = item.get_closest_marker("timeout")
        seconds = float(mark.args[0]) if mark is not None and mark.args else 0.0
        allowed[item.path] = max(allowed.get(item.path, 0.0), seconds)
    items.sort(key=lambda item: -allowed[item.path])
