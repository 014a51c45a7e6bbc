"""What `make size` counts is what the design says."""

from __future__ import annotations

from support.size import Budget, Size, lonely, size_of

_TEXT = '''"""A module.

Of three lines."""

import os
from pathlib import (
    Path,
)

# why
ONE = 1  # one
"""Below a name."""


def two(
    a: int,
) -> str:
    """What it does."""
    text = """first
second"""
    return text
'''


def test_code_is_what_is_no_prose_no_import_and_not_blank() -> None:
    """A text that is a value is code; a comment behind code is both."""
    assert size_of(_TEXT) == Size(files=1, lines=21, code=7, prose=7)


def test_a_small_module_with_one_importer_is_lonely() -> None:
    """Neither a verb nor one with two importers, whatever the form of the import."""
    texts = {
        "groupshift.a": "from groupshift.b import x\nfrom groupshift import c\n",
        "groupshift.b": "x = 1\n",
        "groupshift.c": "y = 1\n" * 80,
        "groupshift.d": "from groupshift.e import z\n",
        "groupshift.e": "z = 1\n",
        "groupshift.f": "from groupshift.e import z\n",
        "groupshift.cli.g": "from groupshift.cli.h import z\n",
        "groupshift.cli.h": "z = 1\n",
    }
    assert lonely(texts) == ["groupshift.b"]


def test_a_budget_is_a_limit_from_above_or_below() -> None:
    """Equal holds."""
    assert Budget("x", 5, 5).holds
    assert not Budget("x", 6, 5).holds
    assert Budget("x", 5, 5, at_least=True).holds
    assert not Budget("x", 4, 5, at_least=True).holds
