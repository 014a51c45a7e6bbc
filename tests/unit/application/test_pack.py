"""Sealing evidence, and finding what was done to it afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.application.pack import verify_folder
from groupshift.bootstrap import App
from groupshift.domain.evidence import MANIFEST, Moment
from groupshift.domain.plan import StageName, Until
from groupshift.domain.seal import JOURNAL, PACK, SIGNATURE, State, Verification, pack_from_json
from groupshift.errors import Broken, Rejected
from groupshift.ports.spark_jobs import ProofRequest
from groupshift_testing.evidence import MemoryEvidence
from support.simulated_move import Bench, make_bench

VERDICT = "canary/validation-after/verdict.json"


@pytest.fixture
def moved() -> tuple[Bench, str]:
    """A finished move until canary; its pack was sealed when the run ended."""
    bench = make_bench()
    migration, _ = bench.move(Until.CANARY)
    return bench, migration


def troubles(found: Verification) -> dict[str, State]:
    """What is not sound, by path."""
    return {check.path: check.state for check in found.troubles}


def change(evidence: MemoryEvidence, migration: str, path: str, text: str | None) -> None:
    """Rewrite a text of the pack, or remove it."""
    where = evidence.path(migration, *path.split("/"))
    evidence.texts.pop(where)
    if text is not None:
        evidence.texts[where] = text


def audited(bench: Bench, migration: str, text: str) -> None:
    """An audit of consumption that leaves this verdict, run as the product runs one."""
    output = bench.evidence.path(migration, "consumption")

    class Job:
        def run(self, _request: ProofRequest) -> None:
            bench.evidence.write_text(migration, "consumption", "audit.json", text=text)

    App(replace(bench.environment(), proof=Job())).prove(
        ProofRequest(job="audit_consumption.py", arguments=(), output=output)
    )


def test_the_end_of_a_run_seals_everything_it_left(moved: tuple[Bench, str]) -> None:
    """Every file is named, with the plan hash, the approvals and the programs met; and all of it is sound."""
    bench, migration = moved
    found = bench.app().verify_evidence(migration)
    assert found.troubles == ()
    pack = pack_from_json(bench.evidence.read_text(migration, PACK) or "")
    assert {file.path for file in pack.files} == set(bench.evidence.files(migration)) - {PACK}
    assert VERDICT in pack.sha256_of
    assert pack.plan_hash == bench.app().planned(migration).plan_hash
    assert [(each.gate, each.choice, each.who) for each in pack.approvals] == [("plan", "approve", "ann")]
    assert (pack.state, pack.doubts) == ("moved", ())


def test_a_changed_a_missing_and_a_new_file_are_named(moved: tuple[Bench, str]) -> None:
    """Each by its path, and nothing else is."""
    bench, migration = moved
    change(bench.evidence, migration, VERDICT, "{}")
    change(bench.evidence, migration, JOURNAL, None)
    bench.evidence.write_text(migration, "canary", "note.txt", text="hello")
    assert troubles(bench.app().verify_evidence(migration)) == {
        VERDICT: State.ALTERED,
        JOURNAL: State.MISSING,
        "canary/note.txt": State.UNLISTED,
    }


def test_a_snapshot_that_was_altered_with_its_manifest_is_found(moved: tuple[Bench, str]) -> None:
    """Its table and its manifest are both not the sealed ones."""
    bench, migration = moved
    key = (migration, "canary", Moment.AFTER)
    rows = [{**row, "offset": 1} for row in bench.evidence.read(*key)["offsets"]]
    bench.evidence.alter(key, "offsets", rows, rehash=True)
    found = troubles(bench.app().verify_evidence(migration))
    assert found["canary/after/offsets"] is State.ALTERED
    assert found[f"canary/after/{MANIFEST}"] is State.ALTERED


def test_a_manifest_that_covers_its_traces_is_swapped(moved: tuple[Bench, str]) -> None:
    """A file changed and the pack's manifest made to fit: the journal knows another one."""
    bench, migration = moved
    change(bench.evidence, migration, VERDICT, "{}")
    data = json.loads(bench.evidence.read_text(migration, PACK) or "")
    for entry in data["files"]:
        if entry["path"] == VERDICT:
            found = bench.evidence.measured(migration, VERDICT)
            assert found is not None
            entry |= {"bytes": found.bytes, "sha256": found.sha256}
    change(bench.evidence, migration, PACK, json.dumps(data, indent=1, sort_keys=True) + "\n")
    found_now = bench.app().verify_evidence(migration)
    assert troubles(found_now) == {PACK: State.SWAPPED, VERDICT: State.ALTERED}
    assert "the journal knows it as" in found_now.troubles[0].reason


def test_an_old_manifest_put_back_is_told_from_a_forged_one(moved: tuple[Bench, str]) -> None:
    """Sealed twice: the first sealing's manifest is not the evidence of today."""
    bench, migration = moved
    first = bench.evidence.read_text(migration, PACK) or ""
    bench.clock.sleep(1)
    bench.app().seal(migration)
    change(bench.evidence, migration, PACK, first)
    found = bench.app().verify_evidence(migration)
    assert troubles(found)[PACK] is State.SWAPPED
    assert "earlier sealing" in next(c.reason for c in found.troubles if c.path == PACK)


def test_sealing_again_does_not_bless_what_was_altered(moved: tuple[Bench, str]) -> None:
    """What nobody proved again stays doubted, also after a second sealing; nothing else is."""
    bench, migration = moved
    change(bench.evidence, migration, VERDICT, "{}")
    bench.app().seal(migration)
    bench.app().seal(migration)
    found = bench.app().verify_evidence(migration)
    assert troubles(found) == {VERDICT: State.DOUBTED}
    assert "after it was sealed" in found.troubles[0].reason


def test_a_snapshot_replaced_before_sealing_is_swapped(moved: tuple[Bench, str]) -> None:
    """The journal knows its manifest from the moment it was taken."""
    bench, migration = moved
    key = (migration, "canary", Moment.BEFORE)
    bench.evidence.alter(key, "members", [], rehash=True)
    bench.app().seal(migration)
    assert troubles(bench.app().verify_evidence(migration))[f"canary/before/{MANIFEST}"] in {
        State.SWAPPED,
        State.DOUBTED,
    }
    reasons = [c.reason for c in bench.app().verify_evidence(migration).troubles if c.state is State.SWAPPED]
    assert any("it was replaced" in reason for reason in reasons)


def test_a_stage_proven_again_is_no_doubt(moved: tuple[Bench, str]) -> None:
    """Validating again rewrites the verdict on purpose; a new run's stages are new files."""
    bench, migration = moved
    app = bench.app()
    bench.clock.sleep(1)
    request = app.proof(migration, StageName.CANARY, Moment.AFTER)
    app.prove(request)
    app.judge(migration, StageName.CANARY, Moment.AFTER)
    app.seal(migration)
    bench.roll_back(migration)
    found = bench.app().verify_evidence(migration)
    assert found.troubles == ()
    assert any(check.path.startswith("undo_members/") for check in found.checks)


def test_what_is_written_on_purpose_since_is_unsealed_not_altered(moved: tuple[Bench, str]) -> None:
    """A stage proven again, a way back under way, an audit: no false alarm before the next sealing."""
    bench, migration = moved
    app = bench.app()
    app.prove(app.proof(migration, StageName.CANARY, Moment.AFTER))
    token = app.claim(migration, "back")
    app.begin_roll_back(migration, "old_members", token)
    app.snapshot(migration, "undo_members", "before")
    audited(bench, migration, "{}")
    found = app.verify_evidence(migration)
    assert found.troubles == ()
    unsealed = {check.path for check in found.checks if check.state is State.UNSEALED}
    assert {"consumption/audit.json", f"undo_members/before/{MANIFEST}"} <= unsealed
    bench.evidence.alter((migration, "undo_members", Moment.BEFORE), "members", [], rehash=True)
    assert troubles(app.verify_evidence(migration)) == {f"undo_members/before/{MANIFEST}": State.SWAPPED}


def test_a_pack_without_its_manifest_is_broken(moved: tuple[Bench, str]) -> None:
    """It was sealed, so its absence is no innocent one; an unreadable one is no better."""
    bench, migration = moved
    change(bench.evidence, migration, PACK, "{")
    with pytest.raises(Broken, match="cannot be understood"):
        bench.app().verify_evidence(migration)
    change(bench.evidence, migration, PACK, None)
    with pytest.raises(Broken, match="is gone although it was sealed"):
        bench.app().verify_evidence(migration)


def test_what_was_never_sealed_says_how(moved: tuple[Bench, str]) -> None:
    """A plan has no evidence yet."""
    bench, _ = moved
    planned = bench.plan(until=Until.ROLL, run="another")
    with pytest.raises(Rejected, match="seal it now with: groupshift report"):
        bench.app().verify_evidence(planned)


def test_a_folder_is_checked_by_its_own_journal(moved: tuple[Bench, str]) -> None:
    """Away from the database: a plan that is not the approved one is found in ``journal.json``."""
    bench, migration = moved
    assert verify_folder(bench.evidence, migration).troubles == ()
    data = json.loads(bench.evidence.read_text(migration, JOURNAL) or "")
    data["plan"] = data["plan"].replace("canary", "toggle")
    change(bench.evidence, migration, JOURNAL, json.dumps(data))
    found = verify_folder(bench.evidence, migration)
    assert [check.state for check in found.troubles] == [State.ALTERED, State.SWAPPED]
    with pytest.raises(Rejected, match="holds no pack"):
        verify_folder(bench.evidence, "elsewhere")
    assert SIGNATURE not in {check.path for check in found.checks}


def test_the_pack_says_nothing_that_is_secret(moved: tuple[Bench, str], tmp_path: Path) -> None:
    """The journal's export holds the plan and the events, no setting."""
    bench, migration = moved
    exported = json.loads(bench.evidence.read_text(migration, JOURNAL) or "")
    assert {"migration", "plan", "events", "steps", "plan_hash"} <= set(exported)
    assert not {key for key in exported if "password" in key or "key" in key}
