"""What people and machines do around evidence: folders, keys, files of desktops, files that are none."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from pathlib import Path

import pytest

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.cli import options
from groupshift.cli.main import main
from groupshift.errors import Rejected
from support.named_pipe import named_pipe
from support.sealed_runs import COMPARE, COMPARED, PUBLIC, SNAPSHOT, TAKEN, KeptRun, sealed, unsealed

pytestmark = pytest.mark.timeout(60)
OTHER = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
"""
BROKEN, REJECTED = 5, 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> KeptRun:
    """A run whose evidence is sealed and signed."""
    return sealed(tmp_path_factory.mktemp("made") / "home")


@pytest.fixture
def pack(made: KeptRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptRun:
    """A copy, in whose root the verbs run; the settings name the key."""
    found = made.copied(tmp_path / "home")
    at_home(monkeypatch, found)
    monkeypatch.chdir(found.root)
    return found


def at_home(monkeypatch: pytest.MonkeyPatch, found: KeptRun) -> None:
    """The settings that nobody has to name are those of this run, and no line of a table is cut."""
    monkeypatch.delenv(options.SETTINGS_VARIABLE, raising=False)
    monkeypatch.setenv(options.HOME_VARIABLE, str(found.home))
    monkeypatch.setenv("COLUMNS", "400")


def verify(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code, and everything that was said, without line breaks."""
    capsys.readouterr()
    code = main(["verify-evidence", *arguments])
    told = capsys.readouterr()
    return code, " ".join((told.out + told.err).split())


def test_s02_an_id_is_no_folder_wherever_the_verb_runs(
    pack: KeptRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the evidence root the journal and the settings' key count all the same."""
    code, said = verify(capsys, pack.run)
    assert (code, "every file is the one that was sealed (signed)" in said) == (0, True), said
    pack.settle(OTHER)
    for what in (pack.run, f"./{pack.run}", f"{pack.run}/", str(pack.folder)):
        code, said = verify(capsys, what)
        assert (code, "forged" in said, "not the one of this key" in said) == (BROKEN, True, True), said


def test_s02_a_folder_without_a_slash_is_an_unknown_id_with_a_hint(
    pack: KeptRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence says how to name the folder."""
    (pack.root / "copy").mkdir()
    code, said = verify(capsys, "copy")
    assert (code, "write it with a slash: copy/" in said) == (REJECTED, True), said


def test_s02_what_was_not_checked_is_not_called_signed(
    pack: KeptRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any key; a key that is given counts more than the settings'."""
    monkeypatch.setenv(options.HOME_VARIABLE, "/nowhere")
    code, said = verify(capsys, f"./{pack.run}")
    assert code == 0
    assert "signed, signature not checked" in said
    assert "was sealed (signed)" not in said
    code, said = verify(capsys, f"./{pack.run}", "--public-key", OTHER)
    assert (code, "forged" in said) == (BROKEN, True)


def test_s02_a_pack_in_a_folder_of_another_name_is_named(
    pack: KeptRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose pack it is stands first; a copied one is told from the one that belongs there."""
    code, said = verify(capsys, f"./{pack.run}")
    assert (code, f"pack of {pack.run} sealed" in said) == (0, True), said
    pack.folder.rename(pack.root / "orders-of-another-day")
    code, said = verify(capsys, "./orders-of-another-day")
    assert (code, "it is the pack of" in said, "copied here" in said) == (BROKEN, True, True), said


@pytest.mark.parametrize(
    "name",
    [
        ".DS_Store",
        f"{TAKEN}/.DS_Store",
        "@eaDir/pack.json@SynoEAStream",
        "#recycle/pack.json",
        ".@__thumb/x",
        "Icon\r",
        ".nfs000000000123abcd00000001",
        ".Trash-1000/files/x",
        ".com.apple.timemachine.donotpresent",
        "Network Trash Folder/x",
        f"{SNAPSHOT}/._offsets.parquet",
        "Thumbs.db",
        "DESKTOP.INI",
        "__MACOSX/x",
    ],
)
def test_f11_what_a_desktop_leaves_is_beside_the_evidence(
    pack: KeptRun, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Named, no fault, not signed by the next sealing, and nobody says that all is as it was sealed."""
    (pack.folder / name).parent.mkdir(parents=True, exist_ok=True)
    (pack.folder / name).write_text("x")
    for what in (pack.run, f"./{pack.run}"):
        code, said = verify(capsys, what)
        assert (code, "beside the evidence" in said) == (0, True), said
        assert "every file is the one that was sealed" not in said
    pack.seal()
    assert name not in (pack.folder / "pack.json").read_text()
    code, said = verify(capsys, pack.run)
    assert (code, "beside the evidence" in said) == (0, True), said


def test_s07_an_audit_that_nobody_ran_is_no_evidence(
    pack: KeptRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file below consumption/ is unlisted; once sealed it is doubted, also when it is altered again."""
    (pack.folder / "consumption" / "planted.json").write_text("{}")
    code, said = verify(capsys, pack.run)
    assert (code, "unlisted" in said) == (BROKEN, True), said
    for text in ("{}", '{"other": 1}', "{}"):
        (pack.folder / "consumption" / "planted.json").write_text(text)
        pack.seal()
        code, said = verify(capsys, pack.run)
        assert (code, "doubted" in said) == (BROKEN, True), said


ODD = ("pipe", "deep", "folder", "no utf-8", "number", "list")
NEW = [(name, what) for name in ("pack.json", "journal.json") for what in ODD[:3]]
NEW += [("pack.sig", what) for what in ODD]
KNOWN = [(name, what) for name in ("pack.json", "journal.json") for what in ODD[3:]]
KNOWN += [(f"{SNAPSHOT}/manifest.json", what) for what in ODD]


@pytest.mark.parametrize(("name", "what"), NEW)
def test_s13_a_file_that_cannot_be_read_is_a_sentence(
    pack: KeptRun, name: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 5, no stack trace, and nobody waits for a pipe."""
    unreadable(pack, name, what, capsys)


@pytest.mark.parametrize(("name", "what"), KNOWN)
def test_a_file_of_other_bytes_is_a_sentence(
    pack: KeptRun, name: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Likewise what was told before."""
    unreadable(pack, name, what, capsys)


def unreadable(pack: KeptRun, name: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Put something in a file's place that is none, and verify."""
    path = pack.folder / name
    path.unlink()
    if what == "pipe":
        named_pipe(path)
    elif what == "folder":
        path.mkdir()
    else:
        texts = {"deep": b"[" * 200_000, "no utf-8": b"\xff\xfe{", "number": b"1e999", "list": b"[]"}
        path.write_bytes(texts[what])
    for form in (pack.run, f"./{pack.run}"):
        code, said = verify(capsys, form)
        assert (code, "Traceback" in said, name in said) == (BROKEN, False, True), said


def test_s13_a_name_that_is_no_utf8_is_a_line_and_no_trace(
    pack: KeptRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is shown with its bytes; the pack can still be sealed, as doubted."""
    name = os.fsdecode(os.fsencode(pack.folder) + b"/caf\xe9\x1b[31m.txt")
    Path(name).write_text("x")
    for _ in range(2):
        code, said = verify(capsys, pack.run)
        assert (code, "Traceback" in said) == (BROKEN, False), said
        assert "\x1b" not in said
        pack.seal()


def test_s13_settings_and_ledgers_that_cannot_be_read_are_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe, a folder, deep nesting, numbers without end: exit code 2 for what a person named."""
    pipe = tmp_path / "pipe"
    named_pipe(pipe)
    for path, text in ((pipe, None), (tmp_path, None), (tmp_path / "deep", "x = " + "[" * 100_000)):
        if text:
            path.write_text(text)
        assert main(["status", "--settings", str(path)]) == REJECTED
        told = capsys.readouterr().err
        assert (told.startswith("rejected: settings file"), told.count("\n")) == (True, 1), told


def test_s01_the_report_ends_with_five_where_it_signs_a_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the files, shows nothing of an altered verdict, and what it signs stays doubted."""
    found = unsealed(tmp_path / "home")
    at_home(monkeypatch, found)
    verdict = found.folder / COMPARED / "verdict.json"
    data = json.loads(verdict.read_text())
    data["counts"] = {"lost": 4711}
    verdict.write_text(json.dumps(data))
    page = tmp_path / "page.html"
    assert main(["report", found.run, "--output", str(page)]) == BROKEN
    assert f"{COMPARED}/verdict.json" in capsys.readouterr().err
    assert "4711" not in page.read_text()
    for _ in range(2):
        code, said = verify(capsys, found.run)
        assert (code, "doubted" in said, "was sealed (" in said) == (BROKEN, True, False), said
        found.seal()


def test_s02_only_the_folder_proves_nothing_of_itself(
    pack: KeptRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without journal and key everything can be altered and hashed again, so nothing is called as sealed."""
    monkeypatch.setenv(options.HOME_VARIABLE, "/nowhere")
    document = json.loads((pack.folder / "pack.json").read_text())
    altered = pack.folder / COMPARED / "verdict.json"
    former = hashlib.sha256(altered.read_bytes()).hexdigest()
    altered.write_text("mine")
    document["signed"] = False
    (pack.folder / "pack.sig").unlink()
    journal = json.loads((pack.folder / "journal.json").read_text())
    bodies = [each["body"] for each in journal["events"] if each["step"] == COMPARE]
    for body in (*bodies, journal["steps"][COMPARE]["result"]):
        files = body.get("outcome")
        if isinstance(files, dict) and former in files.values():
            files["verdict.json"] = hashlib.sha256(b"mine").hexdigest()
    (pack.folder / "journal.json").write_text(json.dumps(journal, indent=1, sort_keys=True) + "\n")
    for entry in document["files"]:
        data = (pack.folder / entry["path"]).read_bytes()
        entry.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    (pack.folder / "pack.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    code, said = verify(capsys, f"./{pack.run}")
    assert (code, "not proven: " in said) == (0, True), said
    assert "sound: every file" not in said
    code, said = verify(capsys, f"./{pack.run}", "--json")
    assert json.loads(said)["proven"] is False
    monkeypatch.setenv(options.HOME_VARIABLE, str(pack.home))
    for what in (pack.run, f"./{pack.run}"):
        code, said = verify(capsys, what, "--public-key", PUBLIC)
        assert code == BROKEN, said


def test_s02_a_signature_that_was_replaced_is_named_without_a_key_too(
    pack: KeptRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal has its SHA-256."""
    pack.settle("")
    place = pack.folder / "pack.sig"
    place.write_text(json.dumps({**json.loads(place.read_text()), "signature": "AAAA"}, indent=1) + "\n")
    code, said = verify(capsys, pack.run)
    assert (code, "forged" in said) == (BROKEN, True), said


def test_s07_an_earlier_report_that_was_put_back_is_doubted_by_the_next_sealing(
    pack: KeptRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was sealed once, and is not what was sealed last."""
    page = pack.folder / "report.html"
    former = page.read_bytes()
    pack.audit('{"verdict": "fail"}')
    assert main(["report", pack.run]) == 0
    assert former != page.read_bytes()
    page.write_bytes(former)
    for _ in range(2):
        code, said = verify(capsys, pack.run)
        assert (code, "report.html" in said) == (BROKEN, True), said
        pack.seal()


@pytest.mark.parametrize("name", ["x; touch pwned", "$(touch pwned)", "a b", "it's"])
def test_f05_the_command_after_a_folder_is_one_word_for_each_name(
    pack: KeptRun, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever made the folder chose its name, and people paste what comes next."""
    folder = pack.root / name
    pack.folder.rename(folder)
    document = json.loads((folder / "pack.json").read_text())
    (folder / "pack.json").write_text(json.dumps({**document, "run": name}, indent=1, sort_keys=True) + "\n")
    _, said = verify(capsys, f"./{name}")
    assert said.rpartition("next: ")[2] == f"groupshift status {shlex.quote(name)}"


@pytest.mark.parametrize("what", ["a" * 300, "a" * 5000, "\udcff" * 300])
def test_s13_an_id_that_cannot_be_a_name_is_a_sentence(
    pack: KeptRun, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Longer than any file's name: exit code 2, no stack trace."""
    code, said = verify(capsys, what)
    assert (code, "Traceback" in said, said.startswith("rejected: run")) == (REJECTED, False, True)


def test_s01_a_manifest_that_is_replaced_between_hash_and_read_is_not_believed(
    pack: KeptRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever changes files meanwhile cannot make their own list of hashes count."""
    kept = ParquetEvidence.read_text
    named = (*SNAPSHOT.split("/"), "manifest.json")

    def racing(store: ParquetEvidence, run: str, *parts: str) -> str | None:
        return '{"files": []}' if parts == named else kept(store, run, *parts)

    monkeypatch.setattr(ParquetEvidence, "read_text", racing)
    code, said = verify(capsys, f"./{pack.run}")
    assert (code, "replaced while it was checked" in said) == (BROKEN, True), said


@pytest.mark.parametrize(
    "root", ["s3://key:hush@bucket/x", "file://u:hush@h/x", "hdfs://u:hush@127.0.0.1:1/x"]
)
def test_s14_the_key_of_a_store_in_the_evidence_root_is_not_repeated(root: str) -> None:
    """Neither in the sentence nor in what a traceback shows above it."""
    from groupshift.adapters.parquet.audits import opened
    from groupshift.adapters.parquet.evidence import ParquetEvidence
    from groupshift.spark.batches.segment_files import filesystem

    for work in (lambda: ParquetEvidence(root).files("m"), lambda: opened(root), lambda: filesystem(root)):
        with pytest.raises(Rejected, match="cannot be opened") as caught:
            work()
        assert "hush" not in str(caught.value)
        assert caught.value.__cause__ is None
