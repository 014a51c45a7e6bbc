"""Each row of ``fits.md`` names tests that are there: a behaviour whose test is gone is not held."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", (TESTS / "engine" / "fits.md").read_text())))


def test_most_rows_name_a_test() -> None:
    """The pattern still finds them."""
    assert len(NAMED) > 200


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_each_test_that_a_row_names_is_there(file: str, test: str) -> None:
    """Under its file and its name."""
    assert re.search(rf"^\s*(?:async )?def {test}\(", (TESTS / file).read_text(), re.MULTILINE)
