"""Functions compiled by numba, their machine code kept where it disturbs nobody (ADR 10).

Numba keeps compiled code beside the source by default: in the repository, or nowhere on a read-only
install. Here it is kept in one folder below the temporary one, which belongs to this user alone (what is
read from there is executed) and is named after the source of this package: numba itself does not see that
a function called from another file has changed. Where no such folder can be had, nothing is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import UserProvidedCacheLocator

from groupshift.adapters.system import own_folder

F = TypeVar("F", bound=Callable[..., Any])

_LOCATOR = f"{__name__}.TemporaryFolder"


@cache
def _digest() -> str:
    """Of every source file of this package, found in a folder or in a zip alike."""
    sources = sorted(
        (entry.name, entry.read_bytes())
        for entry in resources.files(__package__ or "").iterdir()
        if entry.name.endswith(".py")
    )
    return hashlib.sha256(repr(sources).encode()).hexdigest()[:16]


@cache
def _folder() -> Path | None:
    """This user's own folder, made when it is missing; None where it cannot be had."""
    folder = own_folder("groupshift-compiled")
    if folder is None:
        return None
    try:
        within = folder / _digest()
        within.mkdir(exist_ok=True)
        within.touch()
    except OSError:
        return None
    return within


class TemporaryFolder(UserProvidedCacheLocator):
    """Tells numba the folder, and when what lies there is out of date: when the package has changed."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        folder = _folder()
        assert folder is not None  # noqa: S101 - `from_function` has looked
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        self._cache_path = str(folder)

    def get_source_stamp(self) -> str:
        """The digest of the package instead of a file's time, which a zip does not have."""
        return _digest()

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> TemporaryFolder | None:
        """None where nothing can be kept."""
        return cls(py_func, py_file) if _folder() is not None else None


def compiled(function: F) -> F:
    """``function`` compiled at its first call, without the interpreter's lock."""
    made: Any = numba.njit(nogil=True)(function)
    config: Any = numba.config
    before = config.CACHE_LOCATOR_CLASSES
    config.CACHE_LOCATOR_CLASSES = _LOCATOR
    try:
        made.enable_caching()
    except RuntimeError:
        pass  # numba found no place: compiled anew in each process
    finally:
        config.CACHE_LOCATOR_CLASSES = before
    return made  # type: ignore[no-any-return]
