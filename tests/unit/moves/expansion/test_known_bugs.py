"""What the hazard book says of an expansion."""

from __future__ import annotations

import pytest

from groupshift.moves.expansion.rules import bugs
from support.placement_clusters import at, facts, view


@pytest.mark.parametrize(("release", "numbers"), [("4.1.0", {"H08"}), ("4.3.1", set()), ("3.9.2", set())])
def test_names_bugs_that_the_run_does_not_keep_off(release: str, numbers: set[str]) -> None:
    """A broker that fails to unload; that counts are read at the start is why there is a run at all."""
    found = bugs(facts(view(5, release=release), at(["a"], 5), to=8))
    assert {each.rule for each in found} == numbers
    assert all(each.hint for each in found)
