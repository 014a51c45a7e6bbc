"""A run of coordination with its evidence on a disk, as a deployment keeps it: settings, journal, keys."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from groupshift.bootstrap.moves import journal, sealer_of
from groupshift.domain.plan import Until
from groupshift.domain.run import RunState
from groupshift.engine.evidence import Sealer
from groupshift.engine.move import attempt_stem
from groupshift.settings import load
from support.kept_runs import kept_processes

_KEY = Ed25519PrivateKey.generate()
PRIVATE = _KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PUBLIC = _KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
TAKEN = f"{attempt_stem('06 canary/snapshot after canary')}-1"
"""Folder of the step that took a snapshot after the canary."""
SNAPSHOT = f"{TAKEN}/after"
COMPARE = "07 canary/compare after"
COMPARED = f"{attempt_stem(COMPARE)}-1"
"""Folder of what was compared with that snapshot."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run that moved its canary, below ``home``: ``settings.toml``, ``journal.db``, ``evidence``, keys."""

    home: Path
    run: str

    @property
    def root(self) -> Path:
        """The folder of all evidence."""
        return self.home / "evidence"

    @property
    def folder(self) -> Path:
        """That of the run."""
        return self.root / self.run

    def settle(self, key: str = PUBLIC) -> None:
        """Write the settings, with this public key (empty: none)."""
        (self.home / "key.pem").write_text(PRIVATE)
        (self.home / "key.pub").write_text(key)
        public = f'public_key = "{self.home / "key.pub"}"\n' if key else ""
        (self.home / "settings.toml").write_text(
            '[kafka]\nbootstrap_servers = "b:9092"\n[fleet]\ndriver = "manual"\n'
            f'[journal]\nurl = "sqlite:///{self.home / "journal.db"}"\n'
            f'[evidence]\nroot = "{self.root}"\nsigning_key = "{self.home / "key.pem"}"\n{public}'
        )

    @contextmanager
    def sealer(self) -> Iterator[Sealer]:
        """What seals it, by its settings."""
        settings = load(self.home / "settings.toml")
        with journal(settings) as runs:
            yield sealer_of(runs, settings)

    def seal(self) -> None:
        """As an audit that is taken up does."""
        with self.sealer() as sealer:
            sealer.seal_again(self.run)

    def audit(self, text: str) -> None:
        """An audit of consumption that says this, and is journaled."""
        with self.sealer() as sealer:
            sealer.evidence.write_text(self.run, "consumption", "audit.json", text=text)
            sealer.journal_audit(self.run)

    def copied(self, home: Path) -> KeptRun:
        """As it is now, elsewhere."""
        shutil.copytree(self.home, home, symlinks=True)
        found = KeptRun(home=home, run=self.run)
        found.settle()
        return found


def unsealed(home: Path) -> KeptRun:
    """A run that is over and audited, whose evidence nobody has sealed yet."""
    processes = kept_processes(home)
    try:
        run = processes.begin(until=Until.CANARY, soak=1)
        processes.drive(run)
        assert processes.state(run) is RunState.MOVED
    finally:
        processes.runs.close()
    found = KeptRun(home=home, run=run)
    found.settle()
    found.audit('{"verdict": "pass"}')
    return found


def sealed(home: Path) -> KeptRun:
    """The same with its report, sealed and signed."""
    found = unsealed(home)
    found.seal()
    return found
