"""Compiled code is kept in a folder of the user's own, or nowhere."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groupshift.spark.batches import compiled as module
from groupshift.spark.batches.compiled import compiled
from groupshift.spark.batches.headers import read_headers


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary folder of the machine, for this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    module._folder.cache_clear()
    yield tmp_path
    module._folder.cache_clear()


def _twice(number: int) -> Any:
    return number * 2


def test_code_is_kept_below_the_temporary_folder_and_not_in_the_repository(temporary: Path) -> None:
    """One folder a user and source, closed to everybody else."""
    made: Any = compiled(_twice)
    assert made(4) == 8
    kept = [path for path in temporary.rglob("*") if path.suffix in {".nbi", ".nbc"}]
    assert len(kept) == 2
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    read_headers(np.zeros(100, dtype=np.uint8))
    source = Path(str(module.__file__)).parent
    assert [path for path in source.rglob("*") if path.suffix in {".nbi", ".nbc"}] == []


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_folder_that_others_could_have_filled_is_not_used(temporary: Path, trap: str) -> None:
    """What lies there is executed: a folder that others may write to, or that leads elsewhere, is left alone,
    and the functions work all the same."""
    assert module._folder() is not None
    (folder,) = temporary.iterdir()
    module._folder.cache_clear()
    if trap == "open":
        folder.chmod(0o777)
    else:
        folder.rename(temporary / "elsewhere")
        folder.symlink_to(temporary / "elsewhere") if trap == "link" else folder.touch()
    assert module._folder() is None
    made: Any = compiled(_twice)
    assert made(21) == 42
    assert list(temporary.rglob("*.nb?")) == []
