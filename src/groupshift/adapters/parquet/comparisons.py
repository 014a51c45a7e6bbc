"""What a comparison of two cluster snapshots left: `groupshift.ports.spark_jobs.ComparisonOutcomes`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from groupshift.domain.evidence import MANIFEST
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import opened, read
from groupshift.ports.spark_jobs import Compared

VERDICT = "verdict.json"
_BAD = frozenset({Verdict.FAIL, Verdict.ERROR})


class ComparisonFolders:
    """Folders that the job ``compare`` left on a local file system."""

    def read(self, output: Path) -> Compared | None:
        """See the port."""
        if not (output / MANIFEST).is_file():
            return None
        try:
            manifest, verdict = _document(output / MANIFEST), _document(output / VERDICT)
            findings = (*_incomplete(verdict), *map(_finding, verdict["findings"]))
            bad = [each for each in findings if each.verdict in _BAD]
            return Compared(
                verdict=Verdict(verdict["verdict"]),
                reasons=tuple(f"{each.rule}: {each.reason}" for each in bad),
                files=files_of(output),
                findings=findings,
                inputs=(str(manifest["inputs"]["before"]), str(manifest["inputs"]["after"])),
            )
        except (OSError, KeyError, TypeError, ValueError, Rejected) as wrong:
            raise Broken(
                f"the outcome of a comparison in {output} cannot be read ({wrong}): it was altered, a person "
                "must look"
            ) from wrong


def files_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by path with the folder's own name."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with opened(path, below=folder) as file:
                named = path.relative_to(folder.parent).as_posix()
                found[named] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _document(path: Path) -> dict[str, Any]:
    return dict(load_object(read(path, below=path.parent), str(path), at_most=FILE_BYTES))


def _finding(data: dict[str, Any]) -> Finding:
    return Finding(
        rule=str(data["rule"]),
        verdict=Verdict(data["verdict"]),
        reason=str(data["reason"]),
        hint=str(data["hint"]),
    )


def _incomplete(verdict: dict[str, Any]) -> tuple[Finding, ...]:
    """What the snapshots themselves lack."""
    return tuple(
        Finding(rule="E00", verdict=Verdict.ERROR, reason=str(each)) for each in verdict["incomplete"]
    )
