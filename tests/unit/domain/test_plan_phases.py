"""Phases and their one table of transitions."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from groupshift.domain.plan import OPEN, TRANSITIONS, Phase, check_transition
from groupshift.errors import Conflict


def sql(name: str) -> str:
    """One file of sql/journal."""
    return files("groupshift").joinpath("sql", "journal", *f"{name}.sql".split("/")).read_text()


def test_every_phase_has_its_row() -> None:
    """No phase is forgotten, and none leads to an unknown one."""
    assert set(TRANSITIONS) == set(Phase)


def test_the_database_knows_the_same_phases() -> None:
    """The CHECK constraint and the table are one vocabulary."""
    checked = re.search(r"phase IN \((.*?)\)", sql("versions/0001/01_migration"), re.DOTALL)
    assert checked is not None
    assert set(re.findall(r"'(\w+)'", checked.group(1))) == {phase.value for phase in Phase}


@pytest.mark.parametrize("name", ["versions/0001/02_one_open_migration", "find_open"])
def test_the_database_locks_the_same_phases(name: str) -> None:
    """One open migration a group means the same in SQL and in Python."""
    listed = re.search(r"phase IN \((.*?)\)", sql(name), re.DOTALL)
    assert listed is not None
    assert set(re.findall(r"'(\w+)'", listed.group(1))) == {phase.value for phase in OPEN}


def test_a_phase_may_stay_but_not_jump() -> None:
    """A repeated call is fine; a forbidden one names both phases."""
    check_transition("m", Phase.MOVED, Phase.MOVED)
    check_transition("m", Phase.MOVED, Phase.ROLLING_BACK)
    with pytest.raises(Conflict, match="finalised, which cannot become rolling_back"):
        check_transition("m", Phase.FINALISED, Phase.ROLLING_BACK)
