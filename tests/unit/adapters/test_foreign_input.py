"""Keys, settings, ledgers and pages from other machines; and readers that meet only their own errors."""

from __future__ import annotations

import json
import os
import random
import resource
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from groupshift.adapters.ledger import LedgerFiles
from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.signing import Ed25519Signer, Ed25519Verifier
from groupshift.domain.evidence import Moment
from groupshift.domain.run import SparkJob
from groupshift.domain.seal import Pack, StoredFile, pack_from_json
from groupshift.domain.verdict import Verdict
from groupshift.engine.evidence_check import verify_folder
from groupshift.errors import Broken, GroupshiftError, Rejected, Transient
from groupshift.settings import SparkSettings, load
from groupshift.spark.output import write_parquet
from support.named_pipe import named_pipe
from support.runs_suite import run_record
from support.sealed_runs import sealed

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
    from groupshift.bootstrap.member_and_broker_drivers import nodes_file

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
    assert (told.deliveries, len(ledger.intervals("g", 0, 10))) == (1, 1)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", ["settings", "nodes", "key"])
def test_s13_nobody_waits_for_a_pipe(reader: str, tmp_path: Path) -> None:
    """It is named, before anything is done."""
    from groupshift.bootstrap.member_and_broker_drivers import nodes_file

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
        _ = ledger.last_delivered("g"), ledger.intervals("g", 0, 10)


@pytest.mark.parametrize("what", ["link to nothing", "loop", "folder that is a file", "zero byte", "long"])
def test_s13_ledgers_that_cannot_be_listed_or_followed_are_broken(what: str, tmp_path: Path) -> None:
    """In every way that ledgers are read: no ledger is no proof that nothing was delivered."""
    folder = tmp_path / "ledgers"
    if what == "folder that is a file":
        folder.write_text("")
    elif what in {"zero byte", "long"}:
        folder = tmp_path / ("a\0b" if what == "zero byte" else "a" * 5_000)
    else:
        folder.mkdir()
        (folder / "g_1.jsonl").symlink_to("/nowhere" if "nothing" in what else folder / "g_1.jsonl")
    ledger = LedgerFiles(folder)
    reads: list[Callable[[], object]] = [
        lambda: ledger.last_delivered("g"),
        lambda: ledger.delivered_below("g", {}),
        lambda: ledger.delivered("g", 0, 9),
        lambda: ledger.intervals("g", 0, 9),
    ]
    for read in reads:
        with pytest.raises(Broken, match=r"ledger .* cannot be read"):
            read()


@pytest.mark.parametrize("value", ["inf", "nan", "9" * 400, "1e300"])
def test_s13_a_patience_without_end_is_one_sentence(value: str, tmp_path: Path) -> None:
    """Of a program that replaces nodes; whoever waits would fail at it."""
    from groupshift.bootstrap.member_and_broker_drivers import nodes_file, replacement

    path = tmp_path / "nodes.toml"
    path.write_text(f'driver = "command"\n[command]\nstart = ["a"]\nobserve = ["b"]\ntimeout_s = {value}\n')
    with pytest.raises(Rejected, match=r"command\.timeout_s .* no number of seconds"):
        replacement(nodes_file(path))


@pytest.mark.parametrize("url", ["sqlite:///a\0b", "sqlite:////tmp/a%00b/journal.db"])
def test_s13_a_journal_at_a_path_that_is_none_is_one_sentence(url: str, tmp_path: Path) -> None:
    """A zero byte, also an encoded one."""
    from groupshift.adapters.sqlalchemy.runs import SqlRuns

    with pytest.raises(Rejected, match=r"journal\.url"):
        SqlRuns(url if "%" not in url else url.replace("%00", "\0"))


@pytest.mark.parametrize("verb", ["status", "report", "verify-evidence"])
def test_s13_an_id_that_is_no_utf8_is_in_no_journal(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a real database, which takes no such text; one character is enough."""
    from groupshift.cli.main import main

    settings = tmp_path / "settings.toml"
    settings.write_text(SETTINGS.replace("sqlite://", f"sqlite:///{tmp_path}/journal.db"))
    assert main([verb, "\udcff", "--settings", str(settings)]) == 2
    told = capsys.readouterr().err
    assert ("Traceback" in told, told.startswith("rejected: "), told.count("\n")) == (False, True, 1), told


def test_s13_a_text_that_is_no_utf8_is_kept_in_no_journal(tmp_path: Path) -> None:
    """A reason, a group, a name: whatever a person hands over."""
    from groupshift.adapters.sqlalchemy.runs import SqlRuns

    with pytest.raises(Rejected, match="no UTF-8"):
        SqlRuns(f"sqlite:///{tmp_path}/journal.db").find("\udcff")


def test_s13_an_event_of_a_newer_release_is_named_by_its_number(tmp_path: Path) -> None:
    """What is wrong with it, and who can read it: a history has thousands."""
    from groupshift.adapters.sqlalchemy.runs import SqlRuns

    runs = SqlRuns(f"sqlite:///{tmp_path}/journal.db")
    runs.create(run_record())
    with closing(sqlite3.connect(tmp_path / "journal.db")) as database, database:
        database.execute("UPDATE run_event SET kind = 'dreamt'")
    with pytest.raises(Rejected, match=r"event 1 of run r .*'dreamt'.*; use the release that wrote it"):
        runs.events("r")


@pytest.mark.timeout(20)
def test_s13_nobody_waits_for_a_pipe_among_the_files_of_a_dump(tmp_path: Path) -> None:
    """Before Spark is asked for anything."""
    from groupshift.jobs import read_coordinator_log

    named_pipe(tmp_path / "part-0.parquet")
    with pytest.raises(Broken, match="named pipe"):
        read_coordinator_log._whole(str(tmp_path))


@pytest.mark.parametrize(
    ("root", "secret"),
    [
        ("mock://KEY:hunter2@bucket/x", "hunter2"),
        ("mock://bucket/x?sig=hunter2", "hunter2"),
        ("mock://account/x?sp=r&sig=hunter2&se=3", "hunter2"),
    ],
)
def test_s14_no_sentence_repeats_the_key_of_the_store_that_keeps_evidence(root: str, secret: str) -> None:
    """Before the host and behind the path (as SAS tokens are)."""
    from groupshift.domain.foreign_text_quoting import without_login

    assert secret not in without_login(f"report: {root}/m/report.html")
    with pytest.raises(Rejected, match="there is no snapshot") as refused:
        ParquetEvidence(root).read("m", "canary", Moment.AFTER)
    assert secret not in str(refused.value)


def test_s14_settings_that_are_printed_hold_no_key_of_a_store() -> None:
    """A library prints what it was given, where something goes wrong."""
    from groupshift.settings import parse

    made = parse(
        {
            "kafka": {"bootstrap_servers": "b:9092"},
            "journal": {"url": "postgresql://u:hunter2@h/d"},
            "evidence": {"root": "s3://key:hunter2@bucket/x", "signing_key": "hunter2"},
            "fleet": {"driver": "manual", "kubernetes": {"token": "hunter2"}},
            "spark": {"properties": {"spark.hadoop.fs.s3a.secret.key": "hunter2"}},
        }
    )
    assert "hunter2" not in repr(made)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["offsets.parquet", "manifest.json"])
def test_s13_a_file_with_holes_is_not_read_into_memory(name: str, tmp_path: Path) -> None:
    """Four TiB that need no room on any disk."""
    store = ParquetEvidence(tmp_path)
    store.write(("m", "canary", Moment.AFTER), 5, {})
    os.truncate(tmp_path / "m" / "canary" / "after" / name, 1 << 42)
    with pytest.raises(Broken, match=rf"{name} is longer than"):
        store.manifest("m", "canary", Moment.AFTER)


@pytest.mark.timeout(20)
def test_s09_a_login_is_struck_out_of_words_of_any_shape_in_little_time() -> None:
    """Another program's words may be as long as it likes."""
    from groupshift.domain.foreign_text_quoting import without_login

    assert len(without_login("//" * 200_000)) == 400_000
    assert without_login("at http://u:p@h/x and //a b@c") == "at http://***@h/x and //a b@c"


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
    from groupshift.adapters.spark_submit.submit import SparkSubmit

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f"groupshift-{os.getpid()}-spark.log").symlink_to(victim)
    request = SparkJob(job="job.py", arguments=(), output="s3://bucket/evidence")
    with pytest.raises(Transient, match=r"failed with exit code"):
        SparkSubmit(SparkSettings(submit="/bin/false")).run(request)
    assert victim.read_text() == "mine"
    (log,) = tmp_path.glob("groupshift-spark-*/spark.log")
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def _page(place: Path) -> None:
    from groupshift.cli.output_and_next_command import write_page

    write_page(place, "mine")


def _result(place: Path) -> None:
    from groupshift.spark.output import write_text

    write_text(place, "mine")


def _evidence(place: Path) -> None:
    ParquetEvidence(place.parent.parent).write_text(place.parent.name, place.name, text="mine")


def _hashes(place: Path) -> None:
    from groupshift.adapters.parquet.snapshots import CommitHashFiles

    CommitHashFiles().write(place, [])


def _state(place: Path) -> None:
    from groupshift.cli import consume

    run = consume._Run(member="g_1", source=None)  # type: ignore[arg-type]
    consume._Exporter(run, place).export("closed", now=True)


def _log_of_a_job(place: Path) -> None:
    from groupshift.adapters.spark_submit.submit import SparkSubmit

    request = SparkJob(job="job.py", arguments=(), output=str(place.parent))
    elsewhere = SparkSettings(submit="/bin/false", master="yarn")  # of a local one a draft of classes is left
    with pytest.raises(Transient, match="failed with exit code"):
        SparkSubmit(elsewhere).run(request)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("planted", ["link", "link to nothing", "pipe"])
@pytest.mark.parametrize(
    ("draft", "write"),
    [
        ("page.html.part", _page),
        ("verdict.json.part", _result),
        ("journal.json.part", _evidence),
        ("A-1.commits.json.part", _hashes),
        (".state.json.PID", _state),
        ("spark.log", _log_of_a_job),
    ],
)
def test_s16_nothing_is_written_through_what_somebody_left_at_a_guessable_place(
    draft: str, write: Callable[[Path], None], planted: str, tmp_path: Path
) -> None:
    """A link there is replaced, what it leads to stays as it is; a pipe is not waited for."""
    folder, victim = tmp_path / "m", tmp_path / "victim"
    folder.mkdir()
    draft = draft.replace("PID", str(os.getpid()))
    if planted == "link":
        victim.write_text("theirs")
    if planted == "pipe":
        named_pipe(folder / draft)
    else:
        (folder / draft).symlink_to(victim)
    place = folder / draft.removesuffix(".part").removesuffix(f".{os.getpid()}")
    place = place if "log" in draft or "html" in draft else place.with_name(place.name.lstrip("."))
    write(place)
    assert (victim.read_text() if victim.exists() else None) == ("theirs" if planted == "link" else None)
    assert stat.S_ISREG(place.lstat().st_mode)


def test_s16_a_page_follows_no_link(tmp_path: Path) -> None:
    """``--output`` replaces a link, also one that leads nowhere yet."""
    from groupshift.cli.output_and_next_command import write_page

    (tmp_path / "page.html").symlink_to(tmp_path / "victim")
    write_page(tmp_path / "page.html", "mine")
    assert not (tmp_path / "victim").exists()
    assert ((tmp_path / "page.html").read_text(), (tmp_path / "page.html").is_symlink()) == ("mine", False)


@pytest.mark.parametrize("place", ["/", "a\0b", "folder"])
def test_s13_a_page_that_cannot_be_written_is_one_sentence(place: str, tmp_path: Path) -> None:
    """No name, a name that no file has, a folder where it is written first."""
    from groupshift.cli.output_and_next_command import write_page

    (tmp_path / "folder.part").mkdir()
    with pytest.raises(Rejected, match=r"--output .* cannot be written"):
        write_page(tmp_path / place, "mine")


@pytest.mark.parametrize("place", ["nowhere/ledger", "", "a\0b"])
def test_s13_a_ledger_that_cannot_be_written_is_one_sentence(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the member joins."""
    from groupshift.cli.main import main

    wanted = ["--bootstrap", "b:9092", "--group", "g", "--topic", "t", "--consumer-id", "1"]
    assert main(["consume", *wanted, "--kind", "plain", "--ledger", str(tmp_path / place)]) == 2
    told = capsys.readouterr().err
    assert ("--ledger" in told, "Traceback" in told) == (True, False), told


def test_s18_every_page_of_its_own_says_what_it_may_do() -> None:
    """Nothing but its own style, also when it is opened from a file."""
    from groupshift.report.page import Headline, Page, render

    text = render(Page(title="t", top=Headline(verdict=Verdict.PASS), lead="lead", sections=()))
    head = text.partition("<head>")[2].partition("</head>")[0]
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';' in head
    assert head.index("Content-Security-Policy") < head.index("<style")
    assert "script-src" not in text


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
    pack = Pack(
        run="m",
        target="g",
        plan_hash="h",
        state="moved",
        sealed_at_ms=5,
        files=files,
        approvals=(),
        versions={},
        brokers=(),
        doubts={},
        signed=False,
    )
    store = ParquetEvidence(folder / "e")
    store.write(("m", "canary", Moment.AFTER), 5, {})
    manifest = folder / "e" / "m" / "canary" / "after" / "manifest.json"
    line = {"member": "g_1", "topic": "t", "partition": 0, "offset": 4, "at_ms": 9}
    settings, key = folder / "settings.toml", folder / "key.pem"
    table = folder / "e" / "m" / "canary" / "differences.parquet"
    write_parquet(table, [{"allowed": True, "row": 7}], "allowed boolean, row long")
    whole = sealed(folder / "home")
    export = whole.folder / "journal.json"

    def of_manifest(data: bytes) -> object:
        manifest.write_bytes(data)
        return store.manifest("m", "canary", Moment.AFTER)

    def of_ledger(data: bytes) -> object:
        (folder / "l").mkdir(exist_ok=True)
        (folder / "l" / "g_1.jsonl").write_bytes(data + b"\n")
        ledger = LedgerFiles(folder / "l")
        return ledger.last_delivered("g"), ledger.intervals("g", 0, 10)

    def of_settings(data: bytes) -> object:
        settings.write_bytes(data)
        return load(settings)

    def of_table(data: bytes) -> object:
        table.write_bytes(data)
        return store.rows("m", "canary", "differences.parquet")

    def of_export(data: bytes) -> object:
        export.write_bytes(data)
        return verify_folder(ParquetEvidence(whole.root), whole.run).troubles

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
