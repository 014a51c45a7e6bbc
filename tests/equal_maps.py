"""Two mappings that must be equal, with a failure that names what differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def assert_equal(ours: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> None:
    """Fail with the keys whose values differ, or that one side lacks, and with both values."""
    assert ours, "nothing is compared"
    differing = [
        f"{key}: we have {ours.get(key)}, they have {theirs.get(key)}"
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    ]
    assert not differing, "\n".join(differing[:20])
