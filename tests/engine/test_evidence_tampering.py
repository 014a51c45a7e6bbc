"""Show 7 for runs of the engine: what somebody does to evidence, before it is sealed first and after, is
named in every form, and no sealing makes it sound."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sealed_world import FORMS, PAGE, SealedWorld, opened, said
from toy_world import no, yes

from groupshift.domain.run import RunState
from groupshift.domain.seal import JOURNAL, PACK, SIGNATURE, State
from groupshift.engine.move import Sealing, attempt_stem
from groupshift.errors import GroupshiftError
from groupshift.ports.runs import EventKind
from support.deeds import DEEDS, MANIFESTS, Deed, add, away

pytestmark = pytest.mark.timeout(60)
SNAPSHOT = f"{attempt_stem('03 prepare/snapshot before')}-1"
COMPARED = f"{attempt_stem('10 prove/compare')}-1"
OWN = (SIGNATURE, JOURNAL, PAGE, PACK)
SOME = ("flip", "remove", "link", "pipe")


def exchange(path: Path) -> None:
    """With the file of the same name of another snapshot."""
    other = next(each for each in path.parents[1].glob(f"*/{path.name}") if each.parent != path.parent)
    text = other.read_bytes()
    path.write_bytes(text if text != path.read_bytes() else b"another")


def linked_folder(path: Path) -> None:
    """The whole folder lies elsewhere."""
    outside = path.parents[3] / "elsewhere"
    path.parent.rename(outside)
    path.parent.symlink_to(outside, target_is_directory=True)


def refit(path: Path) -> None:
    """Alter a table, and its manifest so that both fit."""
    document = json.loads(path.read_text())
    entry = document["files"][0]
    table = path.with_name(entry["file"])
    table.write_bytes(table.read_bytes() + b" ")
    entry |= {"sha256": hashlib.sha256(table.read_bytes()).hexdigest(), "bytes": table.stat().st_size}
    path.write_text(json.dumps(document, indent=2) + "\n")


THEIRS: dict[str, Deed] = {**DEEDS, "exchange": exchange}
TABLE = "offsets-00000.parquet"
FILES: dict[str, tuple[str, ...]] = {
    f"{SNAPSHOT}/{TABLE}": tuple(THEIRS),
    f"{SNAPSHOT}/manifest.json": tuple(THEIRS),
    f"{SNAPSHOT}/groups-00000.parquet": SOME,
    f"{SNAPSHOT}/values.json": ("lengthen", *SOME),
    f"{SNAPSHOT}.commits.json": ("lengthen", *SOME),
    f"{COMPARED}/verdict.json": ("flip", "halve", "empty", "lengthen", "remove", "link", "pipe", "folder"),
    "consumption/audit.json": ("lengthen", "remove", "link", "pipe", "folder", "capital"),
}
ADDED: dict[str, Deed] = {
    "a note": add("note.txt"),
    "a table": add("extra.parquet"),
    "a hidden file": add(".cache"),
    "a file of a killed writer": add(f"{TABLE}.part"),
    "a folder": add("more/deep/file.txt"),
    "a snapshot": add(f"../{SNAPSHOT}.2/manifest.json"),
    "an attempt of a later claim": add(f"../{SNAPSHOT.removesuffix('-1')}-2/manifest.json"),
    "an attempt of a step that was never begun": add("../19 more-0badc0de-1/x.json"),
    "beside the snapshots": add("../README"),
    "beside the audit": add("../consumption/verdict.json"),
    "no utf-8": lambda path: Path(os.fsdecode(os.fsencode(path.parent) + b"/\xff\xfe.txt")).write_text("x"),
    "a name with a backslash": add("a\\b"),
    "the folder gone": away,
    "the folder a link": linked_folder,
}


def kinds() -> dict[str, tuple[str, Deed]]:
    """Every kind by its name: the path below the run's folder, and what is done there."""
    found = {f"{deed} {path}": (path, THEIRS[deed]) for path, deeds in FILES.items() for deed in deeds}
    where = f"{SNAPSHOT}/manifest.json"
    manifests = {**MANIFESTS, "refit": refit}
    found |= {f"manifest with {what}": (where, deed) for what, deed in manifests.items()}
    return found | {f"added {what}": (where, deed) for what, deed in ADDED.items()}


KINDS = kinds()


def made(folder: Path, *, seals: bool) -> tuple[SealedWorld, str]:
    """A run that was moved and audited; its evidence was sealed at its end, or by nobody yet."""
    folder.mkdir()
    world = SealedWorld(folder=folder)
    run = world.begin().run
    nothing = {} if seals else {"seal": lambda _name, _said: Sealing(body={}, write=lambda: None)}
    world.drive(run, decide=lambda q: no(q) if "burn" in q.gate else yes(q), **nothing)
    assert world.state(run) is RunState.MOVED
    world.evidence.write_text(run, "consumption", "audit.json", text='{"verdict": "pass"}')
    world.sealer().journal_audit(run)
    if seals:
        world.seal_again(run)
        return world, run
    kinds = (EventKind.SEALING.value, EventKind.SEALED.value)
    opened(world.runs).execute("DELETE FROM run_event WHERE kind IN (?, ?)", kinds)
    return world, run


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[SealedWorld, str]:
    """A real pack, sealed and signed with its page."""
    return made(tmp_path_factory.mktemp("sealed") / "world", seals=True)


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> tuple[SealedWorld, str]:
    """A real one that nobody has sealed."""
    return made(tmp_path_factory.mktemp("loose") / "world", seals=False)


Made = tuple[SealedWorld, str]


def unsound(found: SealedWorld, run: str, form: str) -> str:
    """What is said of it in this form; fails where nothing is."""
    try:
        verified = found.verified(run, form)
    except GroupshiftError as refused:
        return str(refused)
    assert verified.troubles, f"{form}: sound"
    return "\n".join(f"{check.path} {check.state} {check.reason}" for check in verified.troubles)


def seal_again(found: SealedWorld, run: str) -> None:
    """Where it can be sealed at all: nothing is written over a folder that lies in a file's place."""
    with suppress(GroupshiftError):
        found.seal_again(run)


def test_an_untouched_pack_is_sound_in_every_form(loose: Made, sealed: Made, tmp_path: Path) -> None:
    """Nothing is said of what nobody touched, also when it is sealed again."""
    late, run = loose[0].copied(tmp_path / "late"), loose[1]
    late.seal_again(run)
    late.seal_again(run)
    for world, name in (sealed, (late, run)):
        assert [said(world.verified(name, form)) for form in FORMS] == [{}, {}, {}]
        assert len(world.verified(name, "folder").checks) > 15
    assert len(KINDS) >= 60
    assert {path for path, _ in KINDS.values()} <= set(sealed[0].evidence.files(sealed[1]))


@pytest.mark.parametrize("kind", KINDS)
def test_tampering_after_the_sealing_is_named_in_every_form(sealed: Made, kind: str, tmp_path: Path) -> None:
    """By its path, or its folder's, and not only once: sealing again does not make it sound."""
    named_for_ever(sealed, kind, tmp_path, first=False)


@pytest.mark.parametrize("kind", KINDS)
def test_s01_tampering_before_the_first_sealing_is_doubted_for_ever_after(
    loose: Made, kind: str, tmp_path: Path
) -> None:
    """What is found at sealing is signed as doubt; another sealing changes nothing of that."""
    named_for_ever(loose, kind, tmp_path, first=True)


def named_for_ever(of: Made, kind: str, folder: Path, *, first: bool) -> None:
    """Do it, with a sealing after it where ``first``; it is named then, and after one more."""
    world, run = of[0].copied(folder), of[1]
    path, deed = KINDS[kind]
    deed(world.root / run / path)
    if first:
        seal_again(world, run)
    for form in FORMS:
        assert path.rpartition("/")[2].lower() in unsound(world, run, form).lower() or "added" in kind
    seal_again(world, run)
    unsound(world, run, FORMS[0])


@pytest.mark.parametrize("deed", [deed for deed in DEEDS if deed != "exchange"])
@pytest.mark.parametrize("name", OWN)
def test_s07_no_doubt_about_what_sealing_writes_disappears_by_sealing(
    sealed: Made, name: str, deed: str, tmp_path: Path
) -> None:
    """Signature, journal, page and manifest are written again, and what was done to them is still said."""
    world, run = sealed[0].copied(tmp_path / "copy"), sealed[1]
    DEEDS[deed](world.root / run / name)
    blind = name == SIGNATURE and deed == "flip"  # without a key nobody can tell one signature from another
    for form in FORMS[:2] if blind else FORMS:
        assert name in unsound(world, run, form).lower()
    seal_again(world, run)
    assert name in unsound(world, run, FORMS[0]).lower()


def test_an_interrupted_sealing_blesses_nothing(sealed: Made, tmp_path: Path) -> None:
    """What was altered stays a doubt although a process died that had found it; and what is altered while a
    sealing is not at its end is named."""
    world, run = sealed[0].copied(tmp_path / "copy"), sealed[1]
    table = world.root / run / SNAPSHOT / TABLE
    whole = table.read_bytes()
    table.write_bytes(b"x")
    world.seal_again(run)
    opened(world.runs).execute("DELETE FROM run_event WHERE seq = (SELECT max(seq) FROM run_event)")
    table.write_bytes(whole)
    assert said(world.verified(run))[f"{SNAPSHOT}/{TABLE}"] is State.DOUBTED
    world.evidence.write_text(run, PAGE, text="<p>mine")
    assert said(world.verified(run))[PAGE] is State.ALTERED
    world.seal_again(run)
    assert set(said(world.verified(run))) == {f"{SNAPSHOT}/{TABLE}", PAGE}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_any_file_is_named(
    sealed: Made, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Bytes changed, cut or added anywhere, in one file or several."""
    world, run = sealed[0].copied(tmp_path_factory.mktemp("any") / "copy"), sealed[1]
    names = sorted(each for each in world.evidence.files(run))
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)):
        file = world.root / run / name
        before = file.read_bytes()
        at = data.draw(st.integers(min_value=0, max_value=len(before)))
        piece = data.draw(st.binary(max_size=8))
        after = before[:at] + piece + before[at + data.draw(st.integers(min_value=0, max_value=8)) :]
        file.write_bytes(after if after != before else before + b"x")
    for form in FORMS[:2]:
        unsound(world, run, form)
