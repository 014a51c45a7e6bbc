"""Two mappings that must be equal, and what differs where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST = 20


def differences(ours: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> list[str]:
    """The keys whose values differ, or that one side lacks, with both values; the first twenty of them."""
    differing = [
        f"{key}: we have {_value(ours, key)}, they have {_value(theirs, key)}"
        for key in sorted({*ours, *theirs})
        if key not in ours or key not in theirs or ours[key] != theirs[key]
    ]
    return differing[:_MOST]


def _value(values: Mapping[Any, Any], key: Any) -> str:
    return repr(values[key]) if key in values else "nothing"
