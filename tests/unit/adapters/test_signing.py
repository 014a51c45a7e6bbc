"""Signatures of evidence packs: made with one key, checked with its public half."""

from __future__ import annotations

import builtins
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from groupshift.application.pack import verify_folder

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.signing import Ed25519Signer, Ed25519Verifier
from groupshift.bootstrap import App
from groupshift.domain.plan import Until
from groupshift.domain.seal import PACK, SIGNATURE, State, Verification
from groupshift.errors import Rejected
from support.simulated_move import Bench, make_bench


def private_pem(key: Any) -> str:
    """PKCS #8 without a password."""
    return key.private_bytes(
        pem.Encoding.PEM, pem.PrivateFormat.PKCS8, encryption_algorithm=pem.NoEncryption()
    ).decode()


def public_pem(key: Any) -> str:
    """The public half."""
    return key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo).decode()


KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
PRIVATE, PUBLIC = private_pem(KEY), public_pem(KEY)


def test_only_the_same_bytes_and_the_same_key_hold() -> None:
    """A changed byte, another key, another algorithm and garbage do not."""
    text = Ed25519Signer(PRIVATE).sign(b"pack")
    mine = Ed25519Verifier(PUBLIC)
    assert mine.holds(b"pack", text)
    assert not mine.holds(b"pacK", text)
    assert not Ed25519Verifier(public_pem(OTHER)).holds(b"pack", text)
    named = json.loads(Ed25519Signer(private_pem(OTHER)).sign(b"pack"))
    assert not mine.holds(b"pack", json.dumps(named)), "the key it names does not count"
    assert not mine.holds(b"pack", json.dumps({**json.loads(text), "algorithm": "none"}))
    assert not mine.holds(b"pack", "garbage")


@pytest.mark.parametrize("shape", ["path", "one line", "escaped"])
def test_a_key_is_taken_from_a_file_or_a_form_with_one_line(shape: str, tmp_path: Path) -> None:
    """A settings file names a path; Airflow's password field knows no line ends."""
    path = tmp_path / "key.pem"
    path.write_text(PRIVATE)
    given = {
        "path": str(path),
        "one line": PRIVATE.replace("\n", " "),
        "escaped": PRIVATE.replace("\n", "\\n"),
    }
    assert Ed25519Verifier(PUBLIC).holds(b"x", Ed25519Signer(given[shape]).sign(b"x"))


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("/nowhere/key.pem", "cannot be read"),
        (PRIVATE.replace("M", "!"), "no private Ed25519 key"),
        (private_pem(generate_private_key(SECP256R1())), "no private Ed25519 key"),
        (PUBLIC, "no private Ed25519 key"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_without_being_shown(key: str, says: str) -> None:
    """One sentence with the setting and the remedy; never the key."""
    with pytest.raises(Rejected, match=says) as refused:
        Ed25519Signer(key).sign(b"x")
    assert "evidence.signing_key" in str(refused.value)
    assert key[30:60] not in str(refused.value) or key.startswith("/")
    assert "PRIVATE" not in repr(Ed25519Signer(key))


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signing is optional, and so is what it needs."""
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("cryptography"):
            raise ModuleNotFoundError(f"No module named {name!r}", name="cryptography")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Rejected, match=r"pip install .kafka-groupshift\[sign\]"):
        Ed25519Signer(PRIVATE).sign(b"x")


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Bench, str, ParquetEvidence]:
    """A finished and signed move whose evidence lies on disk."""
    bench = make_bench()
    migration, _ = bench.move(Until.CANARY)
    store = ParquetEvidence(tmp_path / "evidence")
    for path, text in bench.evidence.texts.items():
        store.write_text(migration, *path.split("/")[2:], text=text)
    for (name, stage, moment), (manifest, tables) in bench.evidence.snapshots.items():
        store.write((name, stage, moment), manifest.taken_at_ms, tables)
    (store_path := Path(store.path(migration)) / PACK).unlink()
    assert not store_path.exists()
    signing = replace(bench.app()._env, evidence=store, signer=Ed25519Signer(PRIVATE))
    App(signing).seal(migration)
    return bench, migration, store


def states(found: Verification) -> dict[str, State]:
    """What was found to be not just sound, by path."""
    return {check.path: check.state for check in found.checks if check.state is not State.SOUND}


def test_a_signed_pack_is_proven_by_its_public_key_alone(signed: tuple[Bench, str, ParquetEvidence]) -> None:
    """Without a journal: the right key, the wrong one, none, and a byte more in the manifest."""
    _, migration, store = signed
    assert states(verify_folder(store, migration))[SIGNATURE] is State.UNCHECKED
    assert SIGNATURE not in states(verify_folder(store, migration, Ed25519Verifier(PUBLIC)))
    other = Ed25519Verifier(public_pem(OTHER))
    assert states(verify_folder(store, migration, other))[SIGNATURE] is State.FORGED
    manifest = Path(store.path(migration, PACK))
    manifest.write_text(manifest.read_text().replace('"moved"', '"final"'))
    assert states(verify_folder(store, migration, Ed25519Verifier(PUBLIC)))[SIGNATURE] is State.FORGED
    Path(store.path(migration, SIGNATURE)).unlink()
    assert states(verify_folder(store, migration, Ed25519Verifier(PUBLIC)))[SIGNATURE] is State.UNSIGNED


def test_a_changed_byte_and_a_removed_file_on_disk_are_named(
    signed: tuple[Bench, str, ParquetEvidence],
) -> None:
    """Real files, any byte."""
    _, migration, store = signed
    folder = Path(store.path(migration))
    parquet = folder / "canary" / "after" / "offsets.parquet"
    data = bytearray(parquet.read_bytes())
    data[len(data) // 3] ^= 1
    parquet.write_bytes(bytes(data))
    (folder / "canary" / "before" / "owners.parquet").unlink()
    (folder / "canary" / "left.part").write_bytes(b"x")
    found = states(verify_folder(store, migration, Ed25519Verifier(PUBLIC)))
    assert found["canary/after/offsets.parquet"] is State.ALTERED
    assert found["canary/before/owners.parquet"] is State.MISSING
    assert found["canary/left.part"] is State.UNLISTED


def test_a_bad_key_is_found_before_anything_begins() -> None:
    """Planning refuses it; a run would only find out at its end."""
    bench = make_bench()
    app = bench.app()
    app._env = replace(app._env, signer=Ed25519Signer("/nowhere/key.pem"))
    with pytest.raises(Rejected, match=r"evidence\.signing_key"):
        app.plan(bench.request())
    assert bench.journal.recent(9) == ()
