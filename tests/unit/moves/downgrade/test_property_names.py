"""What the table of property names may hold: each kind of fault is one sentence that names it."""

from __future__ import annotations

import re

import pytest

from groupshift.domain.tables import shipped
from groupshift.errors import Rejected
from groupshift.moves.downgrade.releases import FILE, FIRST_LINE, read_names

TABLE = shipped(FILE)
FAULTS = (
    ('"4.3" = [', '"4.3.0" = [', "property_names.toml: the field '4.3.0' is unknown; allowed: lines of rele"),
    ('"4.3" = [', '"4.3" = 5\n"9.9" = [', "property_names.toml, 4.3: 5 is refused; allowed: a list of names"),
    ('"4.3" = [', '"4.3" = []\n"9.9" = [', "property_names.toml, 4.3: a list of 0 values is refused; allowe"),
    ('"4.3" = [', '"4.2" = [', "property_names.toml: Cannot overwrite a value"),
    ('"compression.lz4.level"', '"Compression"', "property_names.toml, 3.8: 'Compression' is refused; allow"),
    ('"compression.lz4.level"', "7", "property_names.toml, 3.8: 7 is refused; allowed: "),
    ('"compression.lz4.level"', '"config.providers"', "names: 'config.providers' is there twice; allowed: e"),
)  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "said"), FAULTS, ids=[bad for _, bad, _ in FAULTS])
def test_a_fault_is_refused_with_file_line_value_and_what_is_allowed(good: str, bad: str, said: str) -> None:
    """The table as it is shipped, but for one place."""
    assert good in TABLE
    with pytest.raises(Rejected, match=re.escape(said)):
        read_names(TABLE.replace(good, bad, 1))


def test_the_table_as_it_is_shipped_is_whole() -> None:
    """What is read twice is the same, and an empty file is refused."""
    assert read_names(TABLE) == FIRST_LINE
    with pytest.raises(Rejected, match=re.escape("my.toml is empty; allowed: at least one line")):
        read_names("", "my.toml")
