"""Which moves there are: whatever is installed under the entry point group `GROUP`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from groupshift.engine.move import Move
from groupshift.errors import Rejected

GROUP = "groupshift.moves"
_BROUGHT = ("name", "scope", "request", "ports", "handlers", "look", "assess", "plan", "target")


def _installed() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def moves(entries: Callable[[], Iterable[EntryPoint]] = _installed) -> dict[str, Move[Any]]:
    """Return the moves by name. An entry point names a move, or what returns one without arguments.

    Raises `Rejected` for one that cannot be loaded, that is no move, whose name is not that of its entry
    point, or that is there twice."""
    made: dict[str, Move[Any]] = {}
    for entry in entries():
        where = f"entry point {entry.name} of {GROUP} ({entry.value})"
        try:
            loaded = entry.load()
            move = loaded() if isinstance(loaded, type) or not hasattr(loaded, "handlers") else loaded
        except (ImportError, AttributeError, TypeError) as error:
            raise Rejected(f"{where} cannot be loaded: {error}") from error
        lacks = [each for each in _BROUGHT if not hasattr(move, each)]
        if lacks:
            raise Rejected(f"{where} lacks {', '.join(lacks)}")
        if move.name != entry.name:
            raise Rejected(f"{where} brings a move named {move.name}: name both alike")
        if move.name in made:
            raise Rejected(f"move {move.name} is installed twice ({entry.value}); remove one distribution")
        made[move.name] = move
    return made


def move_named(name: str, installed: Callable[[], Iterable[EntryPoint]] = _installed) -> Move[Any]:
    """Return a move; another one that cannot be loaded is no trouble. Raises `Rejected` where none of that
    name is installed, with those that are."""
    entries = list(installed())
    known = moves(lambda: [each for each in entries if each.name == name])
    if name not in known:
        names = ", ".join(sorted({each.name for each in entries}))
        raise Rejected(f"move {name!r} is not installed; there are: {names or 'none'}")
    return known[name]
