"""Signatures: made with one key, checked with its public half. Packs that are signed: tests/engine."""

from __future__ import annotations

import builtins
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from groupshift.adapters.signing import Ed25519Signer, Ed25519Verifier
from groupshift.errors import Rejected


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


def _written_otherwise(text: str) -> str:
    """A signature of the same bytes, whose last sign before ``==`` is another one."""
    made = json.loads(text)["signature"]
    signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = f"{made[:-3]}{signs[signs.index(made[-3]) ^ 1]}=="
    assert b64decode(other) == b64decode(made)
    return text.replace(made, other)


def test_only_the_same_bytes_and_the_same_key_hold() -> None:
    """A changed byte, another key, another algorithm and garbage do not."""
    text = Ed25519Signer(PRIVATE).sign(b"pack")
    mine = Ed25519Verifier(PUBLIC)
    assert mine.holds(b"pack", text)
    assert not mine.holds(b"pacK", text)
    spaced, same_bytes = text.replace('_key": "', '_key": " '), _written_otherwise(text)
    assert not mine.holds(b"pack", spaced), "the key that it names is part of the text"
    assert not mine.holds(b"pack", same_bytes), "the last sign of Base64 has bits that nobody reads"
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
