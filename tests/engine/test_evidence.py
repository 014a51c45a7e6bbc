"""The evidence of toy runs: sealed at the end, killed at the sealing, taken over, signed, sealed again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sealed_world import FORMS, PAGE, PUBLIC, DyingRuns, DyingStore, SealedWorld, keys, said
from toy_move.move import ToyRequest
from toy_world import Killed, KillOnce, no, yes

from groupshift.adapters.signing import Ed25519Signer, Ed25519Verifier
from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.domain.run import Json, RunState, StepState
from groupshift.domain.seal import JOURNAL, PACK, SIGNATURE, Pack, State, Verification, pack_from_json
from groupshift.engine.begin import begin
from groupshift.engine.evidence import Sealer, known_of
from groupshift.engine.evidence_check import verify, verify_folder
from groupshift.engine.move import attempt_stem
from groupshift.engine.questions_and_approvers import Question
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import drive
from groupshift.errors import Broken, Conflict, Fenced, Rejected
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind, Runs
from groupshift.report.kept_evidence import kept_of
from support.memory_runs import MemoryRuns

SOUND = (State.SOUND, State.UNCHECKED)


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SealedWorld]:
    """A world with a journal in memory, and with one in a file."""
    runs: Runs = MemoryRuns() if request.param == "memory" else SqlRuns(f"sqlite:///{tmp_path / 'runs.db'}")
    yield SealedWorld(folder=tmp_path, runs=runs)
    runs.close()


@pytest.fixture
def quick(tmp_path: Path) -> SealedWorld:
    """A world with a journal in memory."""
    return SealedWorld(folder=tmp_path)


def not_burned(question: Question) -> Any:
    """Approve all but the burning: the run ends moved, and may be taken back."""
    return no(question) if "burn" in question.gate else yes(question)


def moved(world: SealedWorld, **more: Any) -> str:
    """A run that ended moved, with its rollback open."""
    run = world.begin().run
    world.drive(run, decide=not_burned, **more)
    assert world.state(run) is RunState.MOVED
    return run


def pack_of(world: SealedWorld, run: str) -> Pack:
    """The manifest as it lies there."""
    return pack_from_json(world.evidence.read_text(run, PACK) or "")


def assert_sound(world: SealedWorld, run: str) -> None:
    """Nothing is said against the run in any form."""
    for form in FORMS:
        assert said(world.verified(run, form)) == {}, form


def test_the_end_of_a_run_seals_everything_that_it_left(world: SealedWorld) -> None:
    """Every file is named, with plan, approvals, versions and brokers; journal and page say how it ended."""
    run = world.begin().run
    world.drive(run)
    assert_sound(world, run)
    assert world.verified(run).as_sealed
    assert not world.verified(run, "folder").proven
    pack, record = pack_of(world, run), world.runs.find(run)
    assert {each.path for each in pack.files} == set(world.evidence.files(run)) - {PACK, SIGNATURE}
    assert (pack.run, pack.target, pack.plan_hash) == (run, "group toy", record.plan_hash)
    assert (pack.state, pack.doubts, pack.signed) == ("finalised", {}, True)
    assert [(each.gate, each.choice, each.who) for each in pack.approvals] == [
        ("01 ask/approve plan", "approve", "bob"),
        ("15 go/approve burn", "approve", "bob"),
    ]
    assert pack.brokers == ("b1 4.3.1", "b2 4.3.1")
    assert {"groupshift", "spark"} <= pack.versions.keys()
    journal = json.loads(world.evidence.read_text(run, JOURNAL) or "")
    assert journal["closing"]["reason"] == "the toy is green"
    assert (journal["plan"], journal["state"]) == (record.plan, "finalised")
    assert journal["steps"].keys() == world.runs.steps(run).keys()
    assert "finalised: the toy is green" in (world.evidence.read_text(run, PAGE) or "")
    last = world.runs.events(run)[-3:]
    assert [each.kind for each in last] == [EventKind.SEALING, EventKind.SEALED, EventKind.CLOSED]
    assert last[0].body == last[1].body


def test_what_was_accepted_is_named_in_the_pack(world: SealedWorld) -> None:
    """With who accepted it, and its verdict; also where a person stopped the run by an answer."""
    run = world.begin().run
    world.target.write("scratch", "yes")
    world.drive(run)
    world.drive(run, accept="14 go/clean", who="dora")
    assert ("14 go/clean", "accepted (fail)", "dora") in [
        (each.gate, each.choice, each.who) for each in pack_of(world, run).approvals
    ]
    assert_sound(world, run)


def test_a_run_that_ends_rejected_is_sealed_with_the_answer(world: SealedWorld) -> None:
    """What was said at the end is in the sealed journal."""
    run = world.begin().run
    world.drive(run, decide=no)
    assert world.state(run) is RunState.REJECTED
    assert [each.choice for each in pack_of(world, run).approvals] == ["reject"]
    journal = json.loads(world.evidence.read_text(run, JOURNAL) or "")
    assert [each["body"]["outcome"] for each in journal["events"] if each["kind"] == "checked"] == [
        "declined"
    ]
    assert_sound(world, run)


def test_there_and_back_killed_at_each_point_and_taken_over_ends_sound(world: SealedWorld) -> None:
    """The whole story of the toy: what killed processes left is named and no fault, and the rollback is
    sealed over the way there."""
    run = world.begin().run
    world.drive_killed(run, KillOnce(), decide=not_burned, holder="first")
    assert world.state(run) is RunState.MOVED
    assert_sound(world, run)
    left = {each.partition("/")[0] for each in said(world.verified(run), State.LEFT_OVER)}
    assert left, "processes were killed that had left files"
    stems = [attempt_stem(key) for key in world.runs.steps(run) if "snapshot" in key or "compare" in key]
    assert all(each.startswith(tuple(stems)) for each in left), left
    world.target.write("lamp", "on")
    begin_roll_back(world.claim(run, holder="second"), "start")
    assert said(world.verified(run)) == {}, "a rollback under way is no doubt of what was sealed"
    world.drive_killed(run, KillOnce(), holder="third", take_over=True)
    assert world.state(run) is RunState.ROLLED_BACK
    assert_sound(world, run)
    assert pack_of(world, run).doubts == {}
    assert len([e for e in world.runs.events(run) if e.kind is EventKind.SEALED]) == 2


class StopAt:
    """Ends the process once."""

    def __init__(self, step: str, point: CrashPoint) -> None:
        self._at: tuple[str, CrashPoint] | None = (step, point)

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        if (step, point) == self._at:
            self._at = None
            raise Killed


def test_what_a_killed_process_left_is_told_from_what_somebody_added(quick: SealedWorld) -> None:
    """Only an attempt that was begun and did not return is left over; a name that looks like one is not."""
    run = quick.begin().run
    with pytest.raises(Killed):
        quick.drive(run, StopAt("03 prepare/snapshot before", CrashPoint.AFTER_ACT))
    quick.drive(run, decide=not_burned)
    stem = attempt_stem("03 prepare/snapshot before")
    left = said(quick.verified(run), State.LEFT_OVER)
    assert {each.partition("/")[0] for each in left} == {f"{stem}-1", f"{stem}-1.commits.json"}
    other = attempt_stem("04 prepare/set colour")
    forged = [
        f"{stem}-1.2/x.txt",
        f"{stem}-2/x.txt",
        f"{stem}-2.2/x.txt",
        f"{stem}-9/x.txt",
        f"{other}-2/x.txt",
        f"{other}-2.2/x.txt",
        f".{stem}-2.abcd1234/x.txt",
        "before-1/x.txt",
    ]
    for path in forged:
        quick.evidence.write_text(run, *path.split("/"), text="mine")
    assert said(quick.verified(run)) == dict.fromkeys(forged, State.UNLISTED)
    quick.seal_again(run)
    assert said(quick.verified(run)) == dict.fromkeys(forged, State.DOUBTED)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", [EventKind.SEALING, EventKind.SEALED])
@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_killed_at_each_journal_write_of_the_sealing(
    quick: SealedWorld, kind: EventKind, *, after: bool, again: bool
) -> None:
    """The next process seals; a kill is no forgery at any time, and leaves no doubt."""
    run = moved(quick) if again else quick.begin().run
    whole = quick.runs
    quick.runs = DyingRuns(whole, kind, after=after)  # type: ignore[assignment]
    with pytest.raises(Killed):
        quick.seal_again(run) if again else quick.drive(run)
    quick.runs = whole
    over = kind is EventKind.SEALED and after
    assert quick.state(run).is_open is (not over and not again)
    assert_no_forgery(quick, run, again=again or over)
    finish(quick, run, again=again)


@pytest.mark.parametrize("how", ["before", "half", "after"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_killed_at_each_file_of_the_sealing(
    quick: SealedWorld, number: int, how: str, *, again: bool
) -> None:
    """Journal, page, manifest, signature: as above."""
    run = moved(quick) if again else quick.begin().run
    dying = DyingStore(quick.evidence, number, after=how == "after", half=how == "half")
    quick.store = dying
    with pytest.raises(Killed):
        quick.seal_again(run) if again else quick.drive(run)
    assert dying.written == [JOURNAL, PAGE, PACK, SIGNATURE][:number]
    quick.store = None
    assert_no_forgery(quick, run, again=again)
    finish(quick, run, again=again)


def assert_no_forgery(world: SealedWorld, run: str, *, again: bool) -> None:
    """Before anybody sealed it, it says so; later nothing is called forged."""
    if again:
        assert said(world.verified(run)) == {}
        return
    with pytest.raises(Rejected, match=f"it is sealed when it ends.*groupshift continue {run}"):
        world.verified(run)


def finish(world: SealedWorld, run: str, *, again: bool) -> None:
    """The next process comes to the end, and all is sound."""
    world.seal_again(run) if again else world.drive(run)
    assert not world.state(run).is_open
    assert_sound(world, run)
    assert world.verified(run).as_sealed, said(world.verified(run), *set(State) - set(SOUND))
    assert pack_of(world, run).doubts == {}


def test_nobody_seals_what_another_process_drives(quick: SealedWorld) -> None:
    """A process that lost its run while it waited writes nothing; one that lost it while it sealed ends
    fenced, and what it wrote late is told from forgery."""
    run = quick.begin().run
    slow = quick.claim(run, holder="slow")

    class TakesOver(DyingStore):
        def write_text(self, name: str, *parts: str, text: str) -> str:
            if parts == (JOURNAL,):
                quick.store = None
                quick.clock.sleep(1)
                quick.drive(run, holder="quick", take_over=True)
                assert_sound(quick, run)
            return super().write_text(name, *parts, text=text)

    late = TakesOver(quick.evidence, 0)
    quick.store = late
    slow.tools = quick.tools()
    with pytest.raises(Fenced):
        drive(slow)
    assert late.written == [JOURNAL, PAGE, PACK, SIGNATURE]
    assert said(quick.verified(run)) == {}
    assert said(quick.verified(run), State.UNSEALED) == {PACK: State.UNSEALED}
    quick.seal_again(run)
    assert_sound(quick, run)
    assert quick.verified(run).as_sealed
    assert pack_of(quick, run).doubts == {}


def test_an_open_run_is_sealed_by_nobody_else(world: SealedWorld) -> None:
    """Not before its end, and not while it is taken back; a plan leaves nothing to seal."""
    run = world.begin().run
    with pytest.raises(Conflict, match="is planned: its evidence is sealed when it ends"):
        world.seal_again(run)
    with pytest.raises(Conflict):
        world.sealer().journal_audit(run)
    world.drive(run, decide=not_burned)
    begin_roll_back(world.claim(run), "start")
    with pytest.raises(Conflict, match="is rolling_back"):
        world.seal_again(run)
    assert not [each for each in world.runs.events(run)[-2:] if each.kind is EventKind.SEALING]
    with pytest.raises(Rejected, match="is not in the journal"):
        world.verified("toy-nobody-1")


def test_an_old_manifest_that_is_put_back_is_told_from_a_forged_one(quick: SealedWorld) -> None:
    """Sealed twice: the first sealing's manifest is not the evidence of today."""
    run = moved(quick)
    first = quick.evidence.read_text(run, PACK) or ""
    quick.seal_again(run)
    quick.evidence.write_text(run, PACK, text=first)
    found = quick.verified(run)
    assert said(found)[PACK] is State.SWAPPED
    assert "earlier sealing" in next(each.reason for each in found.troubles if each.path == PACK)
    data = json.loads(first)
    data["files"] = data["files"][1:]
    quick.evidence.write_text(run, PACK, text=json.dumps(data, indent=1, sort_keys=True) + "\n")
    assert "the journal knows it as" in next(e.reason for e in quick.verified(run).troubles if e.path == PACK)


def test_a_failed_comparison_is_evidence_of_the_rollback_that_it_began(quick: SealedWorld) -> None:
    """What it left is held against what was journaled of it, although the rollback never reads it again."""
    quick.move.handlers = {**quick.move.handlers}
    run = quick.begin().run

    class Meddles:
        def reached(self, step: str, point: CrashPoint) -> None:
            if step == "08 people/ask_person" and point is CrashPoint.AFTER_READ_BACK:
                quick.target.write("finish", "early")

    quick.drive(run, Meddles())
    assert quick.state(run) is RunState.ROLLED_BACK
    assert_sound(quick, run)
    (verdict,) = [each for each in quick.evidence.files(run) if each.endswith("/verdict.json")]
    assert "finish" in (quick.evidence.read_text(run, *verdict.split("/")) or "")
    assert said(quick.verified(run), State.LEFT_OVER) == {}
    quick.evidence.write_text(run, *verdict.split("/"), text="{}")
    assert said(quick.verified(run)) == {verdict: State.ALTERED}


def test_what_was_done_again_stays_evidence(quick: SealedWorld) -> None:
    """A snapshot that another process took once more, and the former one: both are held."""
    run = quick.begin().run
    quick.drive(run, decide=lambda q: None if "burn" in q.gate else yes(q))
    record = quick.record_of(run, "prove/snapshot after")
    claimed = quick.claim(run)
    again = claimed.put(claimed.plan.steps[8], StepState.REOPENED, record, result={})
    claimed.write(steps=(again,))
    quick.drive(run)
    stem = attempt_stem("09 prove/snapshot after")
    taken = {each.partition("/")[0] for each in quick.evidence.files(run) if each.startswith(f"{stem}-")}
    assert {f"{stem}-1", f"{stem}-3"} <= taken
    assert_sound(quick, run)
    assert quick.verified(run).as_sealed
    quick.evidence.write_text(run, f"{stem}-1", "values.json", text="{}")
    assert said(quick.verified(run)) == {f"{stem}-1/values.json": State.ALTERED}


def test_signed_forged_and_missing_signatures_are_told(quick: SealedWorld) -> None:
    """By the key of whoever checks, never by the one that the signature names; the key is in no file."""
    run = moved(quick)
    assert (quick.verified(run).signed, quick.verified(run).signature_checked) == (True, True)
    assert said(quick.verified(run, "folder"), State.UNCHECKED) == {SIGNATURE: State.UNCHECKED}
    private, other = keys()
    assert said(verify(quick.evidence, quick.runs, run, Ed25519Verifier(other))) == {SIGNATURE: State.FORGED}
    text = quick.evidence.read_text(run, PACK) or ""
    mine = Ed25519Signer(private).sign(text.encode())
    genuine = quick.evidence.read_text(run, SIGNATURE) or ""
    quick.evidence.write_text(run, SIGNATURE, text=mine)
    for form in FORMS[:2]:
        assert said(quick.verified(run, form)) == {SIGNATURE: State.FORGED}, form
    quick.evidence.write_text(run, SIGNATURE, text="")
    for form in FORMS:
        assert said(quick.verified(run, form)) == {SIGNATURE: State.UNSIGNED}, form
    quick.evidence.write_text(run, SIGNATURE, text=genuine)
    assert_sound(quick, run)
    secret = "".join(private.splitlines()[1:-1])
    texts = [each.read_bytes() for each in (quick.root / run).rglob("*") if each.is_file()]
    assert not any(secret.encode() in each for each in texts)


def test_a_run_without_a_key_is_sealed_and_a_signature_that_is_added_is_told(quick: SealedWorld) -> None:
    """It proves what the journal proves."""
    quick.signs = False
    run = moved(quick)
    assert said(verify(quick.evidence, quick.runs, run)) == {}
    assert said(verify_folder(quick.evidence, run)) == {}
    assert said(verify(quick.evidence, quick.runs, run, Ed25519Verifier(PUBLIC))) == {
        SIGNATURE: State.UNSIGNED
    }
    private, _ = keys()
    text = quick.evidence.read_text(run, PACK) or ""
    quick.evidence.write_text(run, SIGNATURE, text=Ed25519Signer(private).sign(text.encode()))
    assert said(verify(quick.evidence, quick.runs, run)) == {SIGNATURE: State.UNLISTED}


def test_a_key_that_cannot_sign_is_refused_before_a_run_begins(quick: SealedWorld) -> None:
    """Not when it ends: nothing is journaled."""
    sealer = Sealer(
        evidence=quick.evidence, runs=quick.runs, clock=quick.clock, signer=Ed25519Signer("/nowhere/key.pem")
    )
    tools = quick.tools(may_seal=sealer.may_seal)
    with pytest.raises(Rejected, match=r"evidence\.signing_key"):
        begin(quick.move, tools, quick.target, ToyRequest(), quick.options(), execute=True)
    assert quick.runs.recent(1) == ()


def test_a_folder_is_checked_without_its_journal(quick: SealedWorld, tmp_path: Path) -> None:
    """Carried away under its own name; under another one it is the pack of another run."""
    run = moved(quick)
    away = tmp_path / "away"
    shutil.copytree(quick.root / run, away / run)
    carried = quick.copied(tmp_path / "there")
    carried.target.folder = away
    assert said(carried.verified(run, "folder and key")) == {}
    shutil.copytree(quick.root / run, away / "toy-other-1")
    found = carried.verified("toy-other-1", "folder and key")
    assert said(found) == {PACK: State.SWAPPED}
    assert run in found.troubles[0].reason
    data = json.loads((away / run / JOURNAL).read_text())
    data["plan"] = data["plan"].replace("colour", "color")
    (away / run / JOURNAL).write_text(json.dumps(data))
    assert {each.state for each in carried.verified(run, "folder").troubles} == {State.ALTERED, State.SWAPPED}
    with pytest.raises(Rejected, match="holds no pack"):
        carried.verified("elsewhere", "folder")


def test_a_pack_without_its_manifest_is_broken(quick: SealedWorld) -> None:
    """It was sealed, so its absence is no innocent one; an unreadable one is no better."""
    run = moved(quick)
    quick.evidence.write_text(run, PACK, text="{")
    with pytest.raises(Broken, match="cannot be understood"):
        quick.verified(run)
    (quick.root / run / PACK).unlink()
    with pytest.raises(Broken, match="is gone although it was sealed"):
        quick.verified(run)


def audited(world: SealedWorld, run: str, text: str) -> None:
    """An audit of consumption that leaves this verdict, and is journaled."""
    world.evidence.write_text(run, "consumption", "audit.json", text=text)
    world.sealer().journal_audit(run)


def test_s07_only_a_journaled_audit_is_evidence(world: SealedWorld) -> None:
    """Unsealed until the next sealing; what nobody journaled, or altered, is a doubt that stays."""
    run = moved(world)
    audited(world, run, "{}")
    assert said(world.verified(run)) == {}
    assert said(world.verified(run), State.UNSEALED) == {"consumption/audit.json": State.UNSEALED}
    audited(world, run, '{"again": true}')
    world.seal_again(run)
    assert_sound(world, run)
    world.evidence.write_text(run, "consumption", "verdict.json", text="{}")
    assert said(world.verified(run)) == {"consumption/verdict.json": State.UNLISTED}
    world.evidence.write_text(run, "consumption", "audit.json", text="{}")
    assert said(world.verified(run))["consumption/audit.json"] is State.ALTERED
    world.seal_again(run)
    world.seal_again(run)
    assert said(world.verified(run)) == {
        "consumption/audit.json": State.DOUBTED,
        "consumption/verdict.json": State.DOUBTED,
    }


def test_s08_what_is_shown_is_held_against_the_journal(quick: SealedWorld) -> None:
    """One file alone, with the reason why it must not be relied on."""
    run = moved(quick)
    (verdict,) = [each for each in quick.evidence.files(run) if each.endswith("/verdict.json")]
    assert [unreliable(quick, run, each) for each in (verdict, PAGE)] == ["", ""]
    for path in (verdict, PAGE):
        quick.evidence.write_text(run, *path.split("/"), text="<p>all is well")
        assert "was altered" in unreliable(quick, run, path)
    quick.seal_again(run)
    assert "was altered" in unreliable(quick, run, verdict)
    quick.evidence.write_text(run, "mine.html", text="<p>mine")
    assert "nothing is known of it" in unreliable(quick, run, "mine.html")
    Path(quick.evidence.path(run, *verdict.split("/"))).unlink()
    assert "is gone" in unreliable(quick, run, verdict)


def test_s08_a_file_that_cannot_be_read_hides_no_report_of_another_folder(
    quick: SealedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all that is kept only the folder of the report is read."""
    run = moved(quick)
    (verdict, *_) = [each for each in quick.evidence.files(run) if each.endswith("/verdict.json")]
    below, read, measured = f"{verdict.rpartition('/')[0]}/", list[str](), quick.evidence.measured

    def broken(name: str, path: str) -> object:
        read.append(path)
        if not path.startswith(below):
            raise Broken(f"{path} was replaced while it was read")
        return measured(name, path)

    monkeypatch.setattr(type(quick.evidence), "measured", lambda _, name, path: broken(name, path))
    kept = kept_of(quick.evidence, quick.runs, run, below=below)
    assert kept.relied_on(verdict)
    assert all(each.startswith(below) for each in read)


def unreliable(world: SealedWorld, run: str, path: str) -> str:
    """Why a file must not be relied on; empty where it is the one that was journaled."""
    kept = kept_of(world.evidence, world.runs, run)
    assert kept.relied_on(path) is not bool(kept.troubles)
    return "; ".join(kept.troubles)


Change = Callable[[dict[str, Any]], object]
ODD: dict[str, Change] = {
    "no events": lambda data: data.pop("events"),
    "events of texts": lambda data: data.update(events=["x"]),
    "an event without a body": lambda data: data["events"][3].pop("body"),
    "a body of another kind": lambda data: data["events"][-1].update(kind="sealed", body=[]),
    "a number that is none": lambda data: data["events"][3].update(seq="x"),
    "steps of texts": lambda data: data.update(steps={"a": "b"}),
    "a result that is a list": lambda data: data["steps"].update(a={"result": []}),
    "an outcome that is a text": lambda data: data["steps"].update(
        a={"state": "done", "result": {"outcome": "pass"}}
    ),
    "a folder of another run": lambda data: data.update(run="../other"),
}


@pytest.mark.parametrize("odd", ODD)
def test_s13_a_journal_that_makes_no_sense_is_a_trouble_and_no_traceback(
    quick: SealedWorld, odd: str
) -> None:
    """Whoever altered it."""
    run = moved(quick)
    data = json.loads(quick.evidence.read_text(run, JOURNAL) or "")
    ODD[odd](data)
    quick.evidence.write_text(run, JOURNAL, text=json.dumps(data))
    found: Verification = quick.verified(run, "folder")
    assert said(found)[JOURNAL] in {State.ALTERED, State.SWAPPED}


def test_a_journal_that_makes_no_sense_is_named_although_its_manifest_lists_it(quick: SealedWorld) -> None:
    """Whoever altered it made its line of the manifest fit: the files belong together, and prove nothing."""
    run = moved(quick)
    data = json.loads(quick.evidence.read_text(run, JOURNAL) or "")
    ODD["steps of texts"](data)
    altered = json.dumps(data)
    quick.evidence.write_text(run, JOURNAL, text=altered)
    pack = pack_from_json(quick.evidence.read_text(run, PACK) or "")
    now = {"sha256": hashlib.sha256(altered.encode()).hexdigest(), "bytes": len(altered.encode())}
    files = tuple(replace(each, **now) if each.path == JOURNAL else each for each in pack.files)
    quick.evidence.write_text(run, PACK, text=replace(pack, files=files).to_json())
    found: Verification = quick.verified(run, "folder")
    assert said(found) == {JOURNAL: State.ALTERED}
    assert "cannot be understood" in found.troubles[0].reason


def test_paths_of_an_outcome_are_below_the_run_or_below_the_job(quick: SealedWorld) -> None:
    """Both ways of naming them hold the same files; what a job of a killed process left is left over,
    whatever the comparison is called."""
    step, job = "07 roll/compare after", {"output": "/elsewhere/r-1/a-1-protocol-back"}
    outcomes = ({"verdict.json": "a" * 64}, {"a-1-protocol-back/verdict.json": "a" * 64})
    for outcome in outcomes:
        data = _journal(step, {"spark_job": job, "outcome": outcome})
        found = known_of(quick.evidence, "r-1", {}, data)
        assert {path: each.sha256 for path, each in found.demands.items()} == {
            "a-1-protocol-back/verdict.json": "a" * 64
        }
        stem = attempt_stem(step)
        assert found.left_over(f"{stem}-4-protocol-back/part.json")
        assert found.left_over(f".{stem}-4.commits.json.part")
        assert not found.left_over(f"{stem}-5-protocol-back/part.json")
        assert not found.left_over("a-1-protocol-back/more.json")


def _journal(step: str, result: Json) -> Json:
    """A journal of one step that claim 4 began and did not end."""
    record = {"state": "intended", "token": 4, "at_ms": 0, "intent": {}, "result": result}
    begun = {"seq": 1, "at_ms": 0, "token": 4, "kind": "intended", "step": step, "body": {}}
    return {"run": "r-1", "plan": "", "plan_hash": "", "steps": {step: record}, "events": [begun]}


def test_what_was_doubted_survives_the_loss_of_the_manifest(quick: SealedWorld) -> None:
    """The journal keeps it, and the next manifest says it again, to whoever has the folder alone."""
    run = moved(quick)
    (verdict,) = [each for each in quick.evidence.files(run) if each.endswith("/verdict.json")]
    genuine = quick.evidence.read_text(run, *verdict.split("/")) or ""
    quick.evidence.write_text(run, *verdict.split("/"), text="{}")
    quick.seal_again(run)
    quick.evidence.write_text(run, *verdict.split("/"), text=genuine)
    (quick.root / run / PACK).unlink()
    quick.seal_again(run)
    for form in FORMS:
        assert set(said(quick.verified(run, form))) == {verdict, PACK}, form


def test_an_approval_that_lost_a_field_is_not_read(quick: SealedWorld) -> None:
    """A pack says of each answer all that was written of it."""
    run = moved(quick)
    data = json.loads(quick.evidence.read_text(run, PACK) or "")
    del data["approvals"][0]["who"]
    with pytest.raises(Broken, match="altered"):
        pack_from_json(json.dumps(data))
