"""Keys, settings, ledgers and pages from other machines; and readers that meet only their own errors."""

from __future__ import annotations

import json
import os
import random
import resource
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from groupshift.adapters.ed25519 import Ed25519Signer, Ed25519Verifier
from groupshift.adapters.ledger.files import LedgerFiles
from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.application.pack import verify_folder
from groupshift.domain.evidence import Moment
from groupshift.domain.judgement import ProofRequest
from groupshift.domain.pack import Pack, StoredFile, pack_from_json
from groupshift.domain.verdict import Verdict
from groupshift.errors import Broken, GroupshiftError, Rejected, Transient
from groupshift.settings import SparkSettings, load
from groupshift.spark.output import write_parquet
from named_pipe import named_pipe
from tampering import sealed, unsealed

KEY = Ed25519PrivateKey.generate()
PRIVATE = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
SLOWEST_S, MOST_KIB = 1.0, 256 * 1024
SETTINGS = """[kafka]
bootstrap_servers = "b:9092"
[journal]
url = "sqlite://"
[evidence]
root = "/e"
[fleet]
driver = "manual"
"""
SHAPES: dict[str, Callable[[str], str]] = {
    "carriage returns as text": lambda pem: pem.replace("\n", "\\r\\n"),
    "escaped twice": lambda pem: pem.replace("\n", "\\\\n"),
    "carriage returns as text and real line ends": lambda pem: pem.replace("\n", "\\r\n"),
    "byte order mark and one line": lambda pem: "\ufeff" + pem.replace("\n", "\\n"),
    "in quotes, with carriage returns": lambda pem: '"' + pem.replace("\n", "\\r\\n") + '"',
}


@pytest.mark.parametrize("shape", SHAPES)
def test_f11_a_key_with_line_ends_of_any_kind_signs_and_checks(shape: str, tmp_path: Path) -> None:
    """As the text itself and in a file."""
    private, public = (SHAPES[shape](pem) for pem in (PRIVATE, PUBLIC))
    (tmp_path / "private").write_bytes(private.encode())
    (tmp_path / "public").write_bytes(public.encode())
    assert Ed25519Verifier(str(tmp_path / "public")).holds(
        b"x", Ed25519Signer(str(tmp_path / "private")).sign(b"x")
    )
    assert Ed25519Verifier(public).holds(b"x", Ed25519Signer(private).sign(b"x"))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_f11_settings_with_a_byte_order_mark_are_read(encoding: str, ends: str, tmp_path: Path) -> None:
    """As Windows' editors and shells write them."""
    path = tmp_path / "settings.toml"
    path.write_bytes(SETTINGS.replace("\n", ends).encode(encoding))
    assert load(path).kafka.bootstrap_servers == "b:9092"


def test_f11_a_file_of_nodes_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """The other file that people write."""
    from groupshift.bootstrap.replacement import nodes_file

    path = tmp_path / "nodes.toml"
    path.write_bytes(b'\xef\xbb\xbfdriver = "manual"\r\n')
    assert nodes_file(path).driver == "manual"


APPLE_DOUBLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X  \x00\n"


def test_f11_what_a_desktop_leaves_beside_a_ledger_is_no_ledger(tmp_path: Path) -> None:
    """A share or an archive of another machine puts one beside each file."""
    line = b'{"member": "g_1", "topic": "t", "partition": 0, "offset": 4, "at_ms": 9}\n'
    (tmp_path / "g_1.jsonl").write_bytes(line)
    (tmp_path / "._g_1.jsonl").write_bytes(APPLE_DOUBLE)
    ledger = LedgerFiles(tmp_path)
    assert list(ledger.last_delivered("g").values()) == [4]
    assert list(ledger.delivered_below("g", dict.fromkeys(ledger.last_delivered("g"), 9)).values()) == [4]
    told = ledger.delivered("g", 0, 10)
    assert told is not None
    assert (told.deliveries, len(ledger.tenures("g", 0, 10))) == (1, 1)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", ["settings", "nodes", "key"])
def test_s13_nobody_waits_for_a_pipe(reader: str, tmp_path: Path) -> None:
    """It is named, before anything is done."""
    from groupshift.bootstrap.replacement import nodes_file

    pipe = tmp_path / "pipe"
    named_pipe(pipe)
    read = {
        "settings": lambda: load(pipe),
        "nodes": lambda: nodes_file(pipe),
        "key": lambda: Ed25519Signer(str(pipe)).sign(b""),
    }[reader]
    with pytest.raises(Rejected, match="named pipe"):
        read()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "line",
    [
        b'{"member": "g_1", "topic": "t", "partition": 0, "offset": 1e999, "at_ms": 1}',
        b'{"member": "g_1", "topic": "t", "partition": Infinity, "offset": 1, "at_ms": 1}',
        b'{"member": "g_1", "topic": "t", "partition": 0, "offset": 1, "at_ms": 1e999}',
        b"[" * 100_000,
    ],
)
def test_s13_a_ledger_with_numbers_without_end_is_broken(line: bytes, tmp_path: Path) -> None:
    """Its line is named, in every way that ledgers are read."""
    (tmp_path / "g_1.jsonl").write_bytes(line + b"\n")
    ledger = LedgerFiles(tmp_path)
    with pytest.raises(Broken, match="line 1 of ledger"):
        _ = ledger.last_delivered("g"), ledger.tenures("g", 0, 10)


@pytest.mark.timeout(20)
def test_s13_a_ledger_that_is_a_pipe_is_broken(tmp_path: Path) -> None:
    """Not waited for."""
    named_pipe(tmp_path / "g_1.jsonl")
    with pytest.raises(Broken, match="named pipe"):
        LedgerFiles(tmp_path).last_delivered("g")


def test_s16_the_log_of_a_job_is_nowhere_that_somebody_could_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link at the old place is not followed; what is written is for this user alone."""
    from groupshift.adapters.spark_submit.runner import SparkSubmit

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f"groupshift-{os.getpid()}-spark.log").symlink_to(victim)
    request = ProofRequest(job="job.py", arguments=(), output="s3://bucket/evidence")
    with pytest.raises(Transient, match=r"failed with exit code"):
        SparkSubmit(SparkSettings(submit="/bin/false")).run(request)
    assert victim.read_text() == "mine"
    (log,) = tmp_path.glob("groupshift-spark-*/spark.log")
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def test_s18_every_page_of_its_own_says_what_it_may_do() -> None:
    """Reports and Data Docs: nothing but their own style, also when they are opened from a file."""
    from groupshift.spark.html import page
    from groupshift.spark.offline_docs import without_network

    docs = without_network(
        "<!DOCTYPE html><html><head><title>x</title><meta charset='utf-8'>"
        "<meta http-equiv='refresh' content='0;url=http://evil.example'></head><body>a</body></html>",
        "p { color: red }",
    )
    for text in (page("t", Verdict.PASS, "lead", ()), docs):
        head = text.partition("<head>")[2].partition("</head>")[0]
        assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';' in head
        assert head.index("Content-Security-Policy") < head.index("<style")
        assert "script-src" not in text
    assert "evil.example" not in docs


def _mutated(random_: random.Random, text: bytes) -> bytes:
    """One to four small changes of a text: bytes, pieces twice or gone, values that are none."""
    data = bytearray(text)
    for _ in range(random_.randint(1, 4)):
        at, what = random_.randrange(len(data) + 1), random_.randrange(7)
        if what == 0 and at < len(data):
            data[at] = random_.randrange(256)
        elif what == 1:
            del data[at : at + random_.randint(1, 30)]
        elif what == 2:
            data[at:at] = data[at : at + random_.randint(1, 40)]
        else:
            odd = [
                b"1e999",
                b"null",
                b"-1",
                b"[[[[",
                b"{}",
                b"\\ud800",
                b"\xff",
                b"NaN",
                b'"',
                b"9" * 30,
                b"true",
            ]
            data[at:at] = random_.choice(odd)
    return bytes(data)


def _readers(folder: Path) -> dict[str, tuple[bytes, Callable[[bytes], object]]]:
    """Name, a text that is right, and what reads one."""
    files = (StoredFile(path="canary/after/offsets.parquet", bytes=7, sha256="0" * 64),)
    pack = Pack(migration="m", group="g", plan_hash="h", phase="moved", sealed_at_ms=5, files=files)
    store = ParquetEvidence(folder / "e")
    store.write(("m", "canary", Moment.AFTER), 5, {})
    manifest = folder / "e" / "m" / "canary" / "after" / "manifest.json"
    line = {"member": "g_1", "topic": "t", "partition": 0, "offset": 4, "at_ms": 9}
    settings, key = folder / "settings.toml", folder / "key.pem"
    table = folder / "e" / "m" / "canary" / "differences.parquet"
    write_parquet(table, [{"allowed": True, "row": 7}], {"allowed": "bool", "row": "long"})
    whole = sealed(folder / "sealed", unsealed(folder / "loose"))
    export = whole.folder / "journal.json"

    def of_manifest(data: bytes) -> object:
        manifest.write_bytes(data)
        return store.manifest("m", "canary", Moment.AFTER)

    def of_ledger(data: bytes) -> object:
        (folder / "l").mkdir(exist_ok=True)
        (folder / "l" / "g_1.jsonl").write_bytes(data + b"\n")
        ledger = LedgerFiles(folder / "l")
        return ledger.last_delivered("g"), ledger.tenures("g", 0, 10)

    def of_settings(data: bytes) -> object:
        settings.write_bytes(data)
        return load(settings)

    def of_table(data: bytes) -> object:
        table.write_bytes(data)
        return store.rows("m", "canary", "differences.parquet"), store.row_count(
            "m", "canary/differences.parquet"
        )

    def of_export(data: bytes) -> object:
        export.write_bytes(data)
        return verify_folder(ParquetEvidence(whole.folder.parent), whole.folder.name).troubles

    def of_key(data: bytes) -> object:
        key.write_bytes(data)
        return Ed25519Signer(str(key)).sign(b"x")

    signature = Ed25519Signer(PRIVATE).sign(b"x").encode()
    return {
        "pack": (
            pack.to_json().encode(),
            lambda data: pack_from_json(data.decode(errors="replace")).to_json(),
        ),
        "manifest": (manifest.read_bytes(), of_manifest),
        "table": (table.read_bytes(), of_table),
        "export": (export.read_bytes(), of_export),
        "ledger": (json.dumps(line).encode(), of_ledger),
        "settings": (SETTINGS.encode(), of_settings),
        "key": (PRIVATE.encode(), of_key),
        "signature": (
            signature,
            lambda data: Ed25519Verifier(PUBLIC).holds(b"x", data.decode(errors="replace")),
        ),
    }


def test_mutated_input_meets_only_errors_of_our_own(tmp_path: Path) -> None:
    """10,000 texts with a fixed seed; ``GROUPSHIFT_FUZZ`` says how many others. Each within a second, all
    within 256 MiB."""
    readers = _readers(tmp_path)
    random_, number = random.Random(7), int(os.environ.get("GROUPSHIFT_FUZZ", "10000"))
    names, refused = list(readers), 0
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for count in range(number):
        name = names[count % len(names)]
        text, read = readers[name]
        data = _mutated(random_, text)
        began = time.process_time()
        try:
            read(data)
        except GroupshiftError:
            refused += 1
        except Exception as wrong:
            raise AssertionError(f"{name}: {data!r}") from wrong
        assert time.process_time() - began < SLOWEST_S, f"{name}: {data!r}"
    assert refused > number // 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < MOST_KIB
