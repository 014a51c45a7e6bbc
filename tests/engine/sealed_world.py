"""The toy's world whose runs are sealed: real files, a key, and processes that die while they seal."""

from __future__ import annotations

import copy
import hashlib
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from toy_move.target import Target
from toy_world import Killed, World

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.parquet.snapshots import CommitHashFiles, ParquetClusterSnapshots
from groupshift.adapters.signing import Ed25519Signer, Ed25519Verifier
from groupshift.domain.rows import ClusterState
from groupshift.domain.run import Json
from groupshift.domain.seal import Check, State, Verification
from groupshift.engine.evidence import Pages, Sealer
from groupshift.engine.evidence_check import verify, verify_folder
from groupshift.engine.move import Tools
from groupshift.ports.clock import StepCrashPoints
from groupshift.ports.runs import Entry, EventKind, Runs
from support.memory_runs import MemoryRuns

FORMS = ("journal and key", "folder and key", "folder")
PAGE = "report.html"


def keys() -> tuple[str, str]:
    """Return a private and a public key as PEM."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return private, public


PRIVATE, PUBLIC = keys()


def page(run: str, closing: Json) -> Mapping[str, str]:
    """A report that says how the run ended."""
    return {PAGE: f"<!doctype html><title>{run}</title>{closing['state']}: {closing['reason']}"}


class TableTarget(Target):
    """The toy whose snapshots are what those of a cluster are: Parquet tables below a manifest, the hashes of
    commits beside them, and one more file whose hash is journaled."""

    def take(self, name: str) -> dict[str, Any]:
        """See `Target`."""
        folder = self.folder / name
        state = ClusterState(cluster_id="c", taken_at_ms=len(self.acts()) + 1)
        made = ParquetClusterSnapshots().write(folder, state)
        commits = Path(f"{folder}.commits.json")
        hashes = CommitHashFiles().write(commits, ())
        manifest = (folder / "manifest.json").read_bytes()
        super().take(name)
        (folder / "manifest.json").write_bytes(manifest)
        values = hashlib.sha256((folder / "values.json").read_bytes()).hexdigest()
        return {
            "folder": str(folder),
            "manifest_sha256": made.digest,
            "commits": str(commits),
            "commits_sha256": hashes,
            "outcome": {f"{folder.name}/values.json": values},
            "brokers": ["b1 4.3.1", "b2 4.3.1"],
        }


@dataclass
class SealedWorld(World):
    """A world whose runs are sealed and signed."""

    pages: Pages = page
    signs: bool = True
    store: Any = None
    """What evidence is written with; None: the real one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.target = TableTarget(file=self.target.file, folder=self.target.folder)

    @property
    def root(self) -> Path:
        """The folder of the evidence."""
        return self.target.folder

    @property
    def evidence(self) -> ParquetEvidence:
        """The evidence as it lies there."""
        return ParquetEvidence(self.root)

    def sealer(self) -> Sealer:
        """What seals."""
        return Sealer(
            evidence=self.store or self.evidence,
            runs=self.runs,
            clock=self.clock,
            signer=Ed25519Signer(PRIVATE) if self.signs else None,
            pages=self.pages,
        )

    def tools(self, crash: StepCrashPoints | None = None, **more: Any) -> Tools:
        """The tools of a process."""
        sealer = self.sealer()
        return super().tools(crash, **{"seal": sealer.prepare, "may_seal": sealer.may_seal, **more})

    def seal_again(self, run: str) -> Json:
        """Seal a run that is over, one second later."""
        self.clock.sleep(1)
        return self.sealer().seal_again(run)

    def verified(self, run: str, form: str = FORMS[0]) -> Verification:
        """What is said of a run in one of `FORMS`."""
        key = None if form == "folder" else Ed25519Verifier(PUBLIC)
        if form.startswith("journal"):
            return verify(self.evidence, self.runs, run, key)
        return verify_folder(self.evidence, run, key)

    def copied(self, folder: Path) -> SealedWorld:
        """The same evidence with its journal elsewhere; the target stays where it is."""
        shutil.copytree(self.root, folder / "evidence", symlinks=True)
        found = copy.copy(self)
        found.runs, found.clock = MemoryRuns(), copy.deepcopy(self.clock)
        opened(self.runs).backup(opened(found.runs))
        found.target = TableTarget(file=self.target.file, folder=folder / "evidence")
        return found


def opened(runs: Runs) -> sqlite3.Connection:
    """The database of a journal in memory."""
    connection: sqlite3.Connection = runs._database._engine.raw_connection().driver_connection  # type: ignore[attr-defined]
    return connection


def said(found: Verification, *states: State) -> dict[str, State]:
    """What is said of each path; of these states only, or of all that are not sound."""
    checks: tuple[Check, ...] = found.troubles
    if states:
        checks = tuple(each for each in found.checks if each.state in states)
    return {each.path: each.state for each in checks}


@dataclass
class DyingStore:
    """Evidence whose writer dies before or after its n-th write; ``half``: with a draft beside the file."""

    evidence: ParquetEvidence
    at: int
    after: bool = False
    half: bool = False
    written: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.evidence, name)

    def write_text(self, run: str, *parts: str, text: str) -> str:
        """Write, and die at one write."""
        self.written.append("/".join(parts))
        dies = len(self.written) == self.at
        if dies and self.half:
            draft = Path(self.evidence.path(run, *parts) + ".part")
            draft.write_text(text[: len(text) // 2])
        if dies and not self.after:
            raise Killed
        path = self.evidence.write_text(run, *parts, text=text)
        if dies:
            raise Killed
        return path


class DyingRuns:
    """A journal whose writer dies before or after the first write of a kind of event."""

    def __init__(self, runs: Runs, kind: EventKind, *, after: bool) -> None:
        self._runs, self._kind, self._after = runs, kind, after

    def __getattr__(self, name: str) -> object:
        return getattr(self._runs, name)

    def append(self, entry: Entry) -> None:
        """Write, and die at one write."""
        dies = any(each.kind is self._kind for each in entry.events)
        if dies and not self._after:
            raise Killed
        self._runs.append(entry)
        if dies:
            raise Killed
