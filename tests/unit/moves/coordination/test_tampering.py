"""What somebody does to the snapshots and comparisons of a group, before they are sealed first and after, is
named in every form. What holds for evidence of any move is in tests/engine/test_evidence_tampering.py."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.signing import Ed25519Verifier
from groupshift.bootstrap.moves import verified
from groupshift.domain.plan import Until
from groupshift.domain.run import RunState
from groupshift.domain.seal import Verification
from groupshift.engine.evidence_check import verify_folder
from groupshift.errors import GroupshiftError
from groupshift.moves.coordination.move import CoordinationMove
from groupshift.settings import load
from support.deeds import DEEDS, MANIFESTS, Deed
from support.kept_runs import kept_processes
from support.sealed_runs import COMPARED, PUBLIC, SNAPSHOT, KeptRun, sealed, unsealed
from support.simulated_runs import At

pytestmark = pytest.mark.timeout(60)
FORMS = ("journal and key", "folder and key", "folder")
SOME = ("flip", "remove", "exchange")
FILES: dict[str, tuple[str, ...]] = {
    f"{SNAPSHOT}/offsets.parquet": ("flip", "halve", "link", "folder", "exchange"),
    f"{SNAPSHOT}/manifest.json": tuple(DEEDS),
    f"{SNAPSHOT}/members.parquet": SOME,
    f"{COMPARED}/verdict.json": ("flip", "empty", "pipe", "exchange"),
    f"{COMPARED}/report.html": ("lengthen", "remove", "link", "pipe"),
    f"{COMPARED}/differences.parquet": ("lengthen", "remove"),
    f"{COMPARED}/failing_rows.parquet": ("lengthen", "link"),
    f"{COMPARED}/rules.json": ("lengthen", "remove"),
}
KINDS: dict[str, tuple[str, Deed]] = {
    f"{deed} {path}": (path, DEEDS[deed]) for path, deeds in FILES.items() for deed in deeds
} | {f"manifest with {what}": (f"{SNAPSHOT}/manifest.json", deed) for what, deed in MANIFESTS.items()}


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> KeptRun:
    """A run whose evidence nobody has sealed."""
    return unsealed(tmp_path_factory.mktemp("loose") / "home")


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> KeptRun:
    """One that is sealed and signed with its report."""
    return sealed(tmp_path_factory.mktemp("sealed") / "home")


def asked(found: KeptRun, form: str) -> Verification:
    """What is said of it in this form."""
    if form.startswith("journal"):
        said = verified(load(found.home / "settings.toml"), found.run)
        assert said is not None
        return said
    key = None if form == "folder" else Ed25519Verifier(PUBLIC)
    return verify_folder(ParquetEvidence(found.root), found.run, key)


def unsound(found: KeptRun, form: str) -> str:
    """What is said against it in this form; fails where nothing is."""
    try:
        said = asked(found, form)
    except GroupshiftError as refused:
        return str(refused)
    assert said.troubles, f"{form}: sound"
    return "\n".join(f"{check.path} {check.state} {check.reason}" for check in said.troubles)


def seal_again(found: KeptRun) -> None:
    """Where it can be sealed at all."""
    with suppress(GroupshiftError):
        found.seal()


def test_an_untouched_pack_is_sound_in_every_form(loose: KeptRun, pack: KeptRun, tmp_path: Path) -> None:
    """Nothing is said of what nobody touched, also when it is sealed again."""
    late = loose.copied(tmp_path / "home")
    late.seal()
    late.seal()
    for found in (pack, late):
        assert [asked(found, form).troubles for form in FORMS] == [(), (), ()]
        assert len(asked(found, "folder").checks) > 25
    assert {path for path, _ in KINDS.values()} <= set(ParquetEvidence(pack.root).files(pack.run))


@pytest.mark.parametrize("kind", KINDS)
def test_tampering_after_the_sealing_is_named_in_every_form(pack: KeptRun, kind: str, tmp_path: Path) -> None:
    """By its path, and not only once: sealing again does not make it sound."""
    named_for_ever(pack.copied(tmp_path / "home"), kind, first=False)


@pytest.mark.parametrize("kind", KINDS)
def test_s01_tampering_before_the_first_sealing_is_doubted_for_ever_after(
    loose: KeptRun, kind: str, tmp_path: Path
) -> None:
    """What is found at sealing is signed as doubt; another sealing changes nothing of that."""
    named_for_ever(loose.copied(tmp_path / "home"), kind, first=True)


def named_for_ever(found: KeptRun, kind: str, *, first: bool) -> None:
    """Do it, with a sealing after it where ``first``; it is named then, and after one more."""
    path, deed = KINDS[kind]
    deed(found.folder / path)
    if first:
        seal_again(found)
    for form in FORMS:
        assert path.rpartition("/")[2].lower() in unsound(found, form).lower()
    seal_again(found)
    unsound(found, FORMS[0])


def test_a_rollback_ends_without_a_word_from_a_snapshot_that_was_altered(tmp_path: Path) -> None:
    """A table and its manifest that fit each other, replaced after everything was judged."""
    processes = kept_processes(tmp_path / "home")
    try:
        run = processes.begin(until=Until.CANARY, soak=1)
        processes.drive(run)
        folders = [each.result.get("folder") for each in processes.runs.steps(run).values()]
        manifest = Path(next(filter(None, folders))) / "manifest.json"
        crash = At({"undo_members/judge after after_read_back": lambda: MANIFESTS["refit"](manifest)})
        processes.roll_back(run, crash, to=CoordinationMove().back_to[0])
        assert (processes.state(run), crash.points) == (RunState.ROLLED_BACK, {})
        ended = processes.runs.events(run)[-1].body["reason"]
        assert ended == "rolled back to old members, proven equal"
    finally:
        processes.runs.close()
