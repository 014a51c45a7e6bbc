"""``groupshift verify-evidence`` on runs that are over: exit codes, and data for programs.

Signatures and keys: tests/engine/test_evidence_cli.py. Tampering: tests/engine/test_evidence_tampering.py,
and test_field_evidence.py beside this file.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from groupshift.cli import evidence
from groupshift.cli.main import main
from groupshift.domain.seal import PACK, SIGNATURE
from support.toy_bench import ToyBench, document, toy_bench, words

BROKEN, REJECTED = 5, 2
VERB = evidence.verify_evidence.__name__.replace("_", "-")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyBench:
    """The command line over a toy whose run went to its end, sealed and signed."""
    made = toy_bench(monkeypatch, tmp_path)
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)
    made.write_settings(f'signing_key = "{tmp_path / "key.pem"}"\n')
    assert made.call("toy", "run", *made.request(), "--execute", "--yes") == 0
    return made


@pytest.fixture
def pack(bench: ToyBench) -> Path:
    """The folder of its evidence."""
    return bench.folder / "evidence" / bench.run


def test_altered_evidence_ends_with_five_and_its_name(
    bench: ToyBench, pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a table for people, and as data for programs."""
    verdict = next(pack.rglob("verdict.json"))
    verdict.write_text("{}")
    capsys.readouterr()
    assert bench.call(VERB, bench.run) == BROKEN
    said = words(capsys.readouterr().out)
    assert "altered" in said
    assert "take no decision on this evidence" in said
    assert bench.call(VERB, bench.run, "--json") == BROKEN
    found = document(capsys.readouterr().out)
    assert found["sound"] is False
    bad = [each["path"] for each in found["checks"] if each["state"] == "altered"]
    assert bad == [verdict.relative_to(pack).as_posix()]


def test_a_folder_needs_neither_journal_nor_settings(
    pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied to another machine, also in part; a folder that is no pack is refused, and so is none."""
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    copied = tmp_path / "elsewhere" / pack.name
    shutil.copytree(pack, copied)
    capsys.readouterr()
    assert main([VERB, f"{copied}/"]) == 0
    assert "not proven" in capsys.readouterr().out
    next(copied.rglob("verdict.json")).unlink()
    assert main([VERB, f"{copied}/"]) == BROKEN
    assert "missing" in capsys.readouterr().out
    assert main([VERB, f"{tmp_path}/nowhere/"]) == REJECTED
    assert "is not there" in capsys.readouterr().err
    assert main([VERB, str(tmp_path)]) == REJECTED
    assert f"holds no {PACK}" in capsys.readouterr().err


def test_a_key_that_cannot_be_read_is_refused(
    bench: ToyBench, pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The setting is named; without a key it is said that the signature was not checked."""
    assert (pack / SIGNATURE).is_file()
    capsys.readouterr()
    assert bench.call(VERB, bench.run) == 0
    assert "signature not checked" in words(capsys.readouterr().out)
    assert bench.call(VERB, bench.run, "--public-key", "/nowhere/key.pub") == REJECTED
    assert "evidence.public_key" in capsys.readouterr().err
