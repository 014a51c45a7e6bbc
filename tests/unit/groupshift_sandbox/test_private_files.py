"""What a sandbox writes is its owner's only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.errors import Rejected
from groupshift_sandbox import up as sandbox
from groupshift_sandbox.home import Home


@pytest.fixture(autouse=True)
def loose() -> object:
    """The mask that most machines have."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    """Its rights."""
    return stat.S_IMODE(path.stat().st_mode)


def test_s19_the_folders_of_a_sandbox_are_closed(tmp_path: Path) -> None:
    """Those that were there before, too."""
    (tmp_path / "home" / "evidence").mkdir(parents=True)
    home = Home(tmp_path / "home").create()
    for folder in (home.root, home.evidence, home.ledgers, home.logs, home.configuration, home.members):
        assert mode(folder) == 0o700, folder


def test_s19_a_journal_in_a_file_is_its_owners(tmp_path: Path) -> None:
    """With the files that SQLite keeps beside it; the folder that is made for it as well."""
    journal = SqlRuns(f"sqlite:///{tmp_path}/kept/journal.db")
    assert journal.recent(1) == ()
    assert mode(tmp_path / "kept") == 0o700
    found = {path.name: mode(path) for path in (tmp_path / "kept").iterdir()}
    assert set(found.values()) == {0o600}, found
    journal.close()


def test_s19_what_a_sandbox_starts_writes_files_for_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow writes evidence and journal: it inherits the mask, which is put back here."""

    def started(home: Home, *_: object) -> None:
        (tmp_path / "evidence.parquet").touch()
        raise Rejected("enough")

    monkeypatch.setattr(sandbox, "_start_all", started)
    monkeypatch.setattr(sandbox, "down", lambda _home: None)
    with pytest.raises(Rejected, match="enough"):
        sandbox.up(Home(tmp_path / "home"), sandbox.UpOptions(), lambda _line: None)
    (tmp_path / "after").touch()
    assert (mode(tmp_path / "evidence.parquet"), mode(tmp_path / "after")) == (0o600, 0o644)
