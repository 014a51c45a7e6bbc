"""The journal port's contract, as tests that every journal has to pass: a module imports them all and gives
a fixture ``journal``, an empty one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.plan import OPEN, Phase, StageName
from groupshift.errors import Conflict, Rejected
from groupshift.ports.journal import Entry, EventKind, Journal, MigrationRecord, StepRecord, StepState


def record(name: str = "m-1", group: str = "g", phase: Phase = Phase.PLANNED, at: int = 1) -> MigrationRecord:
    """A migration to store."""
    return MigrationRecord(
        migration=name,
        group=group,
        run=f"run-of-{name}",
        phase=phase,
        plan_hash="0" * 64,
        plan="{}",
        request="{}",
        created_at_ms=at,
        updated_at_ms=at,
    )


def entry(phase: Phase | None = None, token: int | None = None, name: str = "m-1") -> Entry:
    """Something that happened."""
    return Entry(
        migration=name, at_ms=5, kind=EventKind.ACTED, phase=phase, token=token, body={"a": [1, None]}
    )


def test_a_group_has_one_open_migration(journal: Journal) -> None:
    """A second one is a conflict until the first is closed; other groups are free."""
    journal.create(record())
    with pytest.raises(Conflict):
        journal.create(record("m-2"))
    journal.create(record("m-3", group="other"))
    journal.append(entry(Phase.REJECTED))
    journal.create(record("m-2", at=2))
    assert journal.open_of("g") == record("m-2", at=2)
    assert [found.migration for found in journal.of_group("g")] == ["m-2", "m-1"]


def test_a_preview_locks_nothing(journal: Journal) -> None:
    """Planning without execute never stands in anybody's way."""
    journal.create(record(phase=Phase.PREVIEW))
    journal.create(record("m-2"))
    assert journal.open_of("g") is not None


def test_reopening_is_a_conflict_while_another_is_open(journal: Journal) -> None:
    """A moved migration cannot be taken back under a running one; nothing of the entry is written."""
    journal.create(record())
    for phase in (Phase.APPROVED, Phase.RUNNING, Phase.MOVED):
        journal.append(entry(phase))
    journal.create(record("m-2"))
    with pytest.raises(Conflict):
        journal.append(entry(Phase.ROLLING_BACK))
    assert journal.find("m-1").phase is Phase.MOVED
    assert len(journal.events("m-1")) == 3


def test_a_forbidden_phase_writes_nothing(journal: Journal) -> None:
    """Event, step and phase are one transaction."""
    journal.create(record())
    with pytest.raises(Conflict, match="cannot become"):
        journal.append(entry(Phase.FINALISED))
    assert journal.events("m-1") == ()


def test_tokens_rise_and_fence_the_former_run(journal: Journal) -> None:
    """The holder gets its token again; a stale one writes nothing."""
    journal.create(record())
    assert [journal.claim("m-1", run, 3) for run in ("a", "a", "b", "a")] == [1, 1, 2, 3]
    with pytest.raises(Conflict, match="void"):
        journal.append(entry(token=2))
    journal.append(entry(token=3))
    journal.append(entry())
    kinds = [(event.kind, event.token) for event in journal.events("m-1")]
    assert kinds == [(EventKind.CLAIMED, n) for n in (1, 2, 3)] + [(EventKind.ACTED, 3), (EventKind.ACTED, 0)]
    assert journal.claims("m-1") == {1: "a", 2: "b", 3: "a"}


def test_steps_and_events_come_back_as_written(journal: Journal) -> None:
    """The last state of a step wins; events keep their order and their values."""
    journal.create(record())
    step = StepRecord(stage=StageName.CANARY, state=StepState.INTENDED, intent={"n": {"version": -1}})
    done = StepRecord(stage=StageName.CANARY, state=StepState.DONE, intent=step.intent, result={"x": None})
    for each in (step, done):
        journal.append(
            Entry(
                migration="m-1",
                at_ms=9,
                kind=EventKind.INTENDED,
                stage=StageName.CANARY,
                body={"v": 1},
                step=each,
            )
        )
    assert journal.steps("m-1") == {StageName.CANARY: done}
    first, second = journal.events("m-1")
    assert (first.seq, second.seq, second.stage, second.body) == (1, 2, StageName.CANARY, {"v": 1})


def test_what_is_not_there_is_said(journal: Journal) -> None:
    """Unknown ids are rejected with a way to find the right one."""
    for call in (
        lambda: journal.find("m-9"),
        lambda: journal.append(entry(name="m-9")),
        lambda: journal.claim("m-9", "a", 1),
    ):
        with pytest.raises(Rejected, match="groupshift status"):
            call()
    assert journal.of_run("nobody") is None
    assert journal.of_run("") is None


def test_a_run_finds_its_migration_and_lists_are_newest_first(journal: Journal) -> None:
    """Planning is repeatable by run."""
    journal.create(record())
    journal.create(record("m-2", group="other", at=2))
    assert journal.of_run("run-of-m-1") == record()
    assert [found.migration for found in journal.recent(1)] == ["m-2"]


def test_every_open_phase_locks(journal: Journal) -> None:
    """The lock is the phase, nothing else."""
    for number, phase in enumerate(Phase):
        group = f"group-{number}"
        journal.create(record(f"a-{number}", group, phase))
        assert (journal.open_of(group) is not None) == (phase in OPEN)


def test_any_text_comes_back_as_it_was(journal: Journal) -> None:
    """Long names, quotes and other alphabets; what a group is called is not for the journal to judge."""
    name = 'Zähler\'s "größte" группа %s :x ' + "g" * 300
    journal.create(record(group=name))
    journal.append(Entry(migration="m-1", at_ms=2**40, kind=EventKind.OBSERVED, body={name: "\x00\n"}))
    assert journal.open_of(name) == replace(record(group=name), updated_at_ms=2**40)
    assert journal.events("m-1")[0].body == {name: "\x00\n"}


def test_migrations_of_one_moment_are_ordered_by_their_ids(journal: Journal) -> None:
    """By code points, whatever language a database speaks."""
    names = ["B", "_", "a", "ä", "-"]
    for number, name in enumerate(names):
        journal.create(record(name, group=f"g{number}"))
    assert [found.migration for found in journal.recent(9)] == sorted(names, reverse=True)
