"""Tables that ship with groupshift as TOML: reads them and refuses what a table may not hold.

Every fault is one sentence that names the file, the entry, the field, the value and what is allowed.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import TypeVar

from groupshift.domain.plain import from_plain
from groupshift.errors import Rejected

_T = TypeVar("_T")


def shipped(path: str) -> str:
    """The text of a file of the package, such as ``domain/hazards.toml``."""
    return files("groupshift").joinpath(*path.split("/")).read_text(encoding="utf-8")


def table_of(kind: type[_T], file: str, text: str = "") -> _T:
    """Return the table that ships as ``file`` (or ``text``, TOML of such a one), read by the types of a
    dataclass.

    Raises:
        Rejected: it is no TOML, a field is unknown or missing, or a word is outside its vocabulary.
    """
    try:
        return from_plain(kind, tomllib.loads(text or shipped(file)))
    except (Rejected, TypeError, ValueError) as fault:
        raise Rejected(f"{file}: {fault}") from fault
