"""A real pack on disk, built once, and everything that somebody may do to one of its files."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.signing import Ed25519Signer, Ed25519Verifier
from groupshift.application.pack import verify_folder
from groupshift.bootstrap import App
from groupshift.cli.evidence import written
from groupshift.domain.plan import Until
from groupshift.domain.seal import Verification
from groupshift.ports.spark_jobs import ProofRequest
from groupshift.spark.output import write_parquet, write_text
from support.disk_evidence import DiskEvidence, DiskProof, disk_bench
from support.named_pipe import named_pipe
from support.simulated_move import Bench

_KEY = Ed25519PrivateKey.generate()
PRIVATE = _KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PUBLIC = _KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
FORMS = ("journal and key", "folder and key", "folder")


class FullProof(DiskProof):
    """A comparison that leaves every kind of file that the Spark jobs leave."""

    def run(self, request: ProofRequest) -> None:
        """See the port."""
        output = Path(request.output)
        output.mkdir(parents=True, exist_ok=True)
        if output.name == "consumption":
            write_text(output / "audit.json", '{"verdict": "pass"}')
        else:
            super().run(request)
            write_parquet(output / "differences.parquet", [{"allowed": True}], {"allowed": "bool"})
            (output / "data_docs").mkdir(exist_ok=True)
            write_text(output / "data_docs" / "index.html", "<html></html>")
        write_text(output / "report.html", "<!doctype html><title>report</title>")


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


Deed = Callable[[Path], None]


def flip(path: Path) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def halve(path: Path) -> None:
    """Truncate it."""
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    """Leave nothing in it."""
    path.write_bytes(b"")


def lengthen(path: Path) -> None:
    """Add a blank."""
    path.write_bytes(path.read_bytes() + b" ")


def remove(path: Path) -> None:
    """Delete it."""
    path.unlink()


def link(path: Path) -> None:
    """The same bytes, but they lie elsewhere."""
    root = next(each for each in path.parents if each.name == "evidence")
    outside = root.parent / f"outside-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    path.rename(outside)
    path.symlink_to(outside)


def pipe(path: Path) -> None:
    """Put a named pipe in its place."""
    path.unlink()
    named_pipe(path)


def folder(path: Path) -> None:
    """Put a folder in its place."""
    path.unlink()
    path.mkdir()


def capital(path: Path) -> None:
    """Write its name in capitals."""
    path.rename(path.with_name(path.name.upper()))


def exchange(path: Path) -> None:
    """With the file of the same name of another phase."""
    others = [
        each for each in path.parents[2].glob(f"*/*/{path.name}") if each.read_bytes() != path.read_bytes()
    ]
    path.write_bytes(others[0].read_bytes() if others else b"another")


DEEDS: dict[str, Deed] = {
    each.__name__: each
    for each in (flip, halve, empty, lengthen, remove, link, pipe, folder, capital, exchange)
}


def manifest(change: Callable[[dict[str, Any]], object]) -> Deed:
    """Rewrite a manifest with this change."""

    def deed(path: Path) -> None:
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document, indent=2) + "\n")

    return deed


def refit(path: Path) -> None:
    """Alter a table, and its manifest so that both fit."""
    table = path.with_name("offsets.parquet")
    table.write_bytes(path.with_name("log_ends.parquet").read_bytes())
    document = json.loads(path.read_text())
    for entry in document["files"]:
        if entry["table"] == "offsets":
            entry["sha256"] = hashlib.sha256(table.read_bytes()).hexdigest()
            entry["bytes"] = table.stat().st_size
    path.write_text(json.dumps(document, indent=2) + "\n")


MANIFESTS: dict[str, Deed] = {
    "rows": manifest(lambda data: data["files"][0].update(rows=10**6)),
    "hash": manifest(lambda data: data["files"][0].update(sha256="0" * 64)),
    "a file less": manifest(lambda data: data["files"].pop()),
    "a file outside": manifest(lambda data: data["files"][0].update(file="../../x")),
    "an absolute file": manifest(lambda data: data["files"][0].update(file="/etc/passwd")),
    "another moment": manifest(lambda data: data.update(moment="before")),
    "another time": manifest(lambda data: data.update(taken_at_ms=1)),
    "deep": lambda path: path.write_text("[" * 100_000),
    "refit": refit,
}


def add(name: str) -> Deed:
    """Put a file beside, or below."""

    def deed(path: Path) -> None:
        where = path.parent / name
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text("mine")

    return deed


def away(path: Path) -> None:
    """Delete its folder."""
    shutil.rmtree(path.parent)


def linked_folder(path: Path) -> None:
    """The whole folder lies elsewhere."""
    outside = path.parents[3] / "elsewhere"
    path.parent.rename(outside)
    path.parent.symlink_to(outside, target_is_directory=True)


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
        ("differences.parquet", "data_docs/index.html", "rules.json"), ("lengthen", "remove", "link")
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
