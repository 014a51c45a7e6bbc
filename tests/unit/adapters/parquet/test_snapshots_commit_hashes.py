"""Hashes of live commits in files: whole, never overwritten, and found out when they are altered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groupshift.adapters.parquet.snapshots import CommitHashFiles
from groupshift.errors import Broken, Rejected
from groupshift.log.commit_hashes import LiveCommit

COMMIT = LiveCommit(group="größe", topic="t", partition=1, log_partition=2, log_offset=3, sha256="ab")


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    """As plain JSON with nothing left beside it."""
    files, path = CommitHashFiles(), tmp_path / "run" / "A-1.commits.json"
    digest = files.write(path, [COMMIT])
    assert files.read(path, digest) == (COMMIT,)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert json.loads(path.read_text(encoding="utf-8"))["commits"][0]["group"] == "größe"
    with pytest.raises(Rejected, match="never overwritten"):
        files.write(path, [])


def test_an_altered_or_missing_file_is_found_out(tmp_path: Path) -> None:
    """By the hash that the journal keeps."""
    files, path = CommitHashFiles(), tmp_path / "A-1.commits.json"
    digest = files.write(path, [COMMIT])
    path.write_text(path.read_text(encoding="utf-8").replace('"ab"', '"ac"'), encoding="utf-8")
    with pytest.raises(Broken, match="altered"):
        files.read(path, digest)
    path.unlink()
    with pytest.raises(Broken, match="is gone"):
        files.read(path, digest)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A file stands where its folder would be."""
    (tmp_path / "run").write_text("", encoding="utf-8")
    with pytest.raises(Rejected, match="cannot be written"):
        CommitHashFiles().write(tmp_path / "run" / "A-1.commits.json", [COMMIT])
