"""The order in which files of tests begin on several workers."""

from __future__ import annotations

import json

from support.longest_first import in_order
from support.parts import FILE_SECONDS, ROOT


def test_a_new_file_begins_first_and_then_the_longest() -> None:
    """Nobody knows yet how long the new one takes; those that take alike stay as they were collected."""
    seconds = {"tests/live/short.py": 2.0, "tests/live/long.py": 60.0, "tests/live/also_short.py": 2.0}
    names = ["short", "also_short", "long", "new", "long"]
    found = in_order((ROOT / "tests" / "live" / f"{name}.py" for name in names), seconds)
    assert [file.stem for file in found] == ["new", "long", "short", "also_short"]


def test_the_table_names_files_that_are_here() -> None:
    """A file that was moved or removed since the last landing would begin first, or is dead weight."""
    gone = [file for file in json.loads(FILE_SECONDS.read_text()) if not (ROOT / file).exists()]
    assert gone == []
