"""A real pack on disk, built once, and everything that somebody may do to one of its files."""

from __future__ import annotations

import copy
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from groupshift.application.pack import verify_folder

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.signing import Ed25519Signer, Ed25519Verifier
from groupshift.bootstrap import App
from groupshift.cli.evidence import written
from groupshift.domain.plan import Until
from groupshift.domain.seal import Verification
from groupshift.ports.spark_jobs import ProofRequest
from support.deeds import DEEDS, MANIFESTS, Deed, add, away, linked_folder
from support.disk_evidence import DiskEvidence, FullProof, disk_bench
from support.simulated_move import Bench

_KEY = Ed25519PrivateKey.generate()
PRIVATE = _KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PUBLIC = _KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
FORMS = ("journal and key", "folder and key", "folder")


@dataclass(frozen=True)
class Sealable:
    """One copy of the evidence with the journal that belongs to it."""

    bench: Bench
    migration: str
    root: Path

    @property
    def folder(self) -> Path:
        """Of the migration."""
        return self.root / self.migration

    def app(self) -> App:
        """The use cases, which sign."""
        return App(replace(self.bench.environment(), signer=Ed25519Signer(PRIVATE)))

    def copied(self, root: Path) -> Sealable:
        """As it is now, elsewhere."""
        shutil.copytree(self.root, root, symlinks=True)
        bench = replace(
            self.bench, journal=copy.deepcopy(self.bench.journal), evidence=DiskEvidence(root), proof=None
        )
        return Sealable(bench=bench, migration=self.migration, root=root)

    def seal(self) -> None:
        """As the end of a run, or the verb report, does."""
        self.bench.clock.sleep(1)
        self.app().seal(self.migration)

    def verified(self, form: str) -> Verification:
        """What is said of it in one of `FORMS`."""
        key = None if form == "folder" else Ed25519Verifier(PUBLIC)
        if form.startswith("journal"):
            return self.app().verify_evidence(self.migration, key)
        return verify_folder(ParquetEvidence(self.root), self.migration, key)


def unsealed(root: Path) -> Sealable:
    """A finished and audited move whose evidence nobody has sealed yet."""
    bench = disk_bench(root)
    bench.proof = FullProof(bench.evidence)
    migration, _ = bench.move(Until.CANARY)
    folder = root / migration
    request = ProofRequest(job="audit_consumption.py", arguments=(), output=str(folder / "consumption"))
    bench.app().prove(request)
    events = bench.journal._events[migration]
    events[:] = [event for event in events if event.kind.value not in {"sealing", "sealed"}]
    for name in ("pack.json", "pack.sig", "journal.json", "report.html"):
        (folder / name).unlink(missing_ok=True)
    return Sealable(bench=bench, migration=migration, root=root)


def sealed(root: Path, of: Sealable) -> Sealable:
    """The same with its report, sealed and signed."""
    found = of.copied(root)
    written(found.app(), found.migration)
    return found


FOLDERS: dict[str, Deed] = {
    "a note": add("note.txt"),
    "a table": add("extra.parquet"),
    "a hidden file": add(".cache"),
    "a file of a killed writer": add("offsets.parquet.part"),
    "a folder": add("more/deep/file.txt"),
    "a phase": add("../../roll/after/manifest.json"),
    "beside the phases": add("../../README"),
    "beside the audit": add("../../consumption/verdict.json"),
    "no utf-8": lambda path: Path(os.fsdecode(os.fsencode(path.parent) + b"/\xff\xfe.txt")).write_text("x"),
    "a name with a backslash": add("a\\b"),
    "the folder gone": away,
    "the folder a link": linked_folder,
}

SOME = ("flip", "remove", "exchange")
SNAPSHOT = {"offsets.parquet": tuple(DEEDS), "manifest.json": tuple(DEEDS), "members.parquet": SOME}
DERIVED = {
    "verdict.json": tuple(DEEDS),
    "report.html": ("lengthen", "remove", "link", "pipe"),
    **dict.fromkeys(
        ("differences.parquet", "failing_rows.parquet", "rules.json"), ("lengthen", "remove", "link")
    ),
}
AUDIT = {"audit.json": ("lengthen", "remove", "link", "pipe", "folder"), "report.html": ("empty", "capital")}


def kinds() -> dict[str, tuple[str, Deed]]:
    """Every kind by its name: the path below the migration's folder, and what is done there."""
    found: dict[str, tuple[str, Deed]] = {}
    for where, files in (
        ("canary/after", SNAPSHOT),
        ("canary/validation-after", DERIVED),
        ("consumption", AUDIT),
    ):
        for name, deeds in files.items():
            found |= {f"{deed} {where}/{name}": (f"{where}/{name}", DEEDS[deed]) for deed in deeds}
    found |= {
        f"manifest with {what}": ("canary/after/manifest.json", deed) for what, deed in MANIFESTS.items()
    }
    found |= {f"added {what}": ("canary/after/manifest.json", deed) for what, deed in FOLDERS.items()}
    return found


KINDS = kinds()


def done(pack: Sealable, kind: str) -> str:
    """Do it; the path below the pack."""
    path, deed = KINDS[kind]
    deed(pack.folder / path)
    return path
