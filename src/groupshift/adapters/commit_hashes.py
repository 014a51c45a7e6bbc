"""Hashes of live commits as JSON files: `groupshift.ports.log.CommitHashes`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from groupshift.adapters.parquet.writing import unwritable
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import made_anew, read
from groupshift.log.commit_hashes import LiveCommit

_FORM = 1


class CommitHashFiles:
    """One file a snapshot: ``{"version": 1, "commits": [{"group": …, "sha256": …}, …]}``."""

    def write(self, path: Path, commits: Sequence[LiveCommit]) -> str:
        """See the port; the file is written beside its place, then moved to it."""
        if path.exists():
            raise Rejected(f"{path} is there already: the hashes of a snapshot are never overwritten")
        document = {"version": _FORM, "commits": [asdict(each) for each in commits]}
        data = (json.dumps(document, indent=0, ensure_ascii=False) + "\n").encode()
        draft = path.with_name(f".{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            made_anew(draft)
            draft.write_bytes(data)
            draft.rename(path)
        except OSError as failed:
            with suppress(OSError):
                draft.unlink()
            raise unwritable(str(path), failed) from failed
        return hashlib.sha256(data).hexdigest()

    def read(self, path: Path, sha256: str) -> tuple[LiveCommit, ...]:
        """See the port."""
        try:
            data = read(path, FILE_BYTES, below=path.parent)
        except (OSError, ValueError) as failed:
            raise Broken(
                f"{path} cannot be read ({getattr(failed, 'strerror', failed)}): "
                "the evidence of the run is not whole"
            ) from failed
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Broken(f"{path} is not what the journal says was written: the evidence was altered")
        return tuple(
            LiveCommit(**each) for each in load_object(data, str(path), at_most=FILE_BYTES)["commits"]
        )
