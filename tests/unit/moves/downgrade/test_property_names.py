"""What the tables of property names and of levels hold."""

from __future__ import annotations

import re
import tomllib

from groupshift.domain.tables import shipped
from groupshift.moves.downgrade.releases import CHANGES, FILE, FIRST_LINE, LEVELS, LEVELS_FILE

TABLE = tomllib.loads(shipped(FILE))


def test_each_name_is_there_once_below_a_line_of_releases() -> None:
    """Names of properties, by lines such as 4.3."""
    assert sum(map(len, TABLE.values())) == len(FIRST_LINE) > 50
    for line, names in TABLE.items():
        assert re.fullmatch(r"\d\.\d", line)
        for name in names:
            assert re.fullmatch(r"[a-z0-9]+(\.[a-z0-9]+)+", name), name


def test_each_level_has_the_name_of_one() -> None:
    """Of metadata.version, from 1 on; some changed the metadata log."""
    assert all(re.fullmatch(r"\d\.\d-IV\d", name) for name in LEVELS.values())
    assert list(LEVELS) == list(range(1, len(LEVELS) + 1))
    changes = tomllib.loads(shipped(LEVELS_FILE))["changes"]
    assert [LEVELS[level] for level in sorted(CHANGES)] == changes
