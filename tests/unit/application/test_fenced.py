"""A run whose migration another run took over does, journals and asks nothing more, wherever it stood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.adapters.sqlalchemy.journal import SqlJournal
from groupshift.application.run_engine import Ended
from groupshift.domain.judgement import GateBrief
from groupshift.domain.plan import Choice, Gate, Until, WayBack
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict
from groupshift.ports.journal import EventKind
from support.simulated_move import Bench, make_bench

SENTENCE = r"run other took this migration over at .* UTC: look there"


def lines_of(until: Until, back: WayBack | None = None) -> list[str]:
    """Everything that a run of this kind tells, in order and once each."""
    bench = make_bench()
    migration, _ = bench.move(until)
    if back is not None:
        bench.watcher.lines.clear()
        bench.roll_back(migration, back)
    return list(dict.fromkeys(bench.watcher.lines))


class Taken:
    """Takes the migration over once, and remembers what there was then."""

    def __init__(self, bench: Bench, migration: str) -> None:
        self._bench, self._migration = bench, migration
        self.was: dict[str, Any] | None = None

    def __call__(self) -> None:
        if self.was is None:
            self._bench.app().claim(self._migration, "other")
            self.was = self.now()

    def now(self) -> dict[str, Any]:
        """Journal, evidence, what was asked, and the group."""
        bench = self._bench
        return {
            "events": bench.journal.events(self._migration),
            "phase": bench.journal.find(self._migration).phase,
            "snapshots": dict(bench.evidence.snapshots),
            "texts": dict(bench.evidence.texts),
            "asked": len(bench.asked),
            "kinds": bench.kinds(),
            "mode": bench.world.mode.data,
        }


@pytest.mark.parametrize("line", lines_of(Until.TOGGLE))
def test_u01_a_forward_run_that_is_taken_over_ends_there(line: str) -> None:
    """Whatever it was about to do next: nothing of it reaches journal, evidence, group or a person."""
    bench = make_bench()
    migration = bench.plan()
    taken = Taken(bench, migration)
    bench.watcher.at[line] = taken
    runner = bench.runner(migration, "first")
    with pytest.raises(Conflict, match=SENTENCE):
        runner.forward()
    assert taken.was is not None
    assert taken.now() == taken.was


@pytest.mark.parametrize("line", lines_of(Until.RETIRE, WayBack.OLD_MEMBERS))
def test_u01_a_rollback_that_is_taken_over_ends_there(line: str) -> None:
    """The way back is a run like any other."""
    bench = make_bench()
    migration, _ = bench.move(Until.RETIRE)
    taken = Taken(bench, migration)
    runner = bench.runner(migration, "first-back")
    bench.watcher.at[line] = taken
    with pytest.raises(Conflict, match=SENTENCE):
        runner.back(WayBack.OLD_MEMBERS)
    assert taken.was is not None
    assert taken.now() == taken.was


@pytest.mark.parametrize("gate", [Gate.PLAN, Gate.TOGGLE, Gate.FINALISE])
def test_u01_an_answer_at_a_gate_of_a_run_that_was_taken_over_is_refused(gate: Gate) -> None:
    """The question was shown before; the answer comes after."""
    bench = make_bench()
    bench.last_choice = Choice.FINALISE
    migration = bench.plan(until=Until.RETIRE)
    taken, usual = Taken(bench, migration), bench.decide
    runner = bench.runner(migration, "first")

    def decide(brief: GateBrief) -> Choice:
        choice = usual(brief)
        if brief.gate is gate:
            taken()
        return choice

    runner.decide = decide
    with pytest.raises(Conflict, match=SENTENCE):
        runner.forward()
    assert taken.was is not None
    assert taken.now() == taken.was


def test_u01_a_doubt_is_shown_to_nobody_by_a_run_that_was_taken_over() -> None:
    """The canary's judgement failed to measure; the gate behind it would have asked."""
    bench = make_bench()
    migration = bench.plan()
    taken = Taken(bench, migration)
    bench.proof = SimpleNamespace(run=lambda _request: None)  # type: ignore[assignment] # no verdict
    runner = bench.runner(migration, "first")
    bench.watcher.at["judged canary before error"] = taken
    with pytest.raises(Conflict, match=SENTENCE):
        runner.forward()
    assert taken.was is not None
    assert (taken.now(), bench.asked[-1].gate) == (taken.was, Gate.PLAN)


CALLS: dict[str, Callable[[Any, str], Any]] = {
    "brief": lambda app, migration: app.brief(migration, "plan"),
    "status": lambda app, migration: app.status(migration),
    "snapshot": lambda app, migration: app.snapshot(migration, "canary", "before"),
    "proof": lambda app, migration: app.proof(migration, "canary", "before"),
    "judge": lambda app, migration: app.judge(migration, "canary", "before"),
    "rehearse": lambda app, migration: app.rehearse(migration),
    "watch": lambda app, migration: app.watch(migration, "canary"),
    "soak": lambda app, migration: app.soak(migration),
    "has_stage": lambda app, migration: app.has_stage(migration, "canary"),
    "approved": lambda app, migration: app.approved(migration, "plan"),
    "begin_roll_back": lambda app, migration: app.begin_roll_back(migration, "old_members", 1),
    "keep": lambda app, migration: app.keep(migration, 1),
    "finalise": lambda app, migration: app.finalise(migration, 1),
    "close": lambda app, migration: app.close(migration, 1),
    "claim": lambda app, migration: app.claim(migration, "first"),
}


@pytest.mark.parametrize("name", CALLS)
def test_u01_every_use_case_of_a_lost_claim_is_refused_with_the_sentence(name: str) -> None:
    """Readers, too: whoever looks in order to go on looks in vain. A run takes no claim back."""
    bench = make_bench()
    migration = bench.plan()
    app = bench.app()
    ours = app.under(migration, app.claim(migration, "first"))
    bench.app().claim(migration, "other")
    before = bench.journal.events(migration)
    with pytest.raises(Conflict, match=SENTENCE):
        CALLS[name](ours, migration)
    assert bench.journal.events(migration) == before


def test_u01_what_a_run_measures_and_shows_bears_its_token() -> None:
    """Not token 0: whose verdict it was is in the journal."""
    bench = make_bench()
    migration, closing = bench.move()
    assert closing.verdict is Verdict.PASS
    mine = {EventKind.SNAPSHOT, EventKind.JUDGED, EventKind.GATE_SHOWN, EventKind.GATE_ANSWERED}
    tokens = {event.token for event in bench.journal.events(migration) if event.kind in mine}
    assert tokens == {1}


def test_u01_the_journal_itself_refuses_a_late_word_with_the_sentence(tmp_path: Path) -> None:
    """Between the look and the write another run may have claimed it: the database decides."""
    bench = make_bench()
    migration = bench.plan()
    journal = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    try:
        journal.create(bench.journal.find(migration))
        bench.journal = journal  # type: ignore[assignment]
        app = bench.app()
        token = app.claim(migration, "first")
        app.claim(migration, "other")
        with pytest.raises(Conflict, match=SENTENCE):
            app.close(migration, token)
    finally:
        journal.close()


def test_u01_a_process_that_waits_in_a_cluster_run_stops_when_it_is_taken_over() -> None:
    """Also while it only looks: the second process is named, nothing is journaled by the first."""
    from groupshift.application.downgrade import DowngradeRequest
    from groupshift.application.downgrade_run import begin, go_on, plan_run
    from groupshift.domain.versions import Version
    from groupshift.moves.downgrade.releases import target_of
    from support.simulated_downgrade import tools_of, two_of_43, yes

    tools = tools_of(two_of_43())
    asked = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    run = begin(tools, plan_run(tools, asked))
    steps: list[Any] = []

    def told(_step: Any, _detail: str) -> None:
        if not steps:
            tools.runs.claim(run.run, "other", 1)
            steps.append(dict(tools.runs.steps(run.run)))

    with pytest.raises(Conflict, match=r"run other took this run over at .* UTC: look there"):
        go_on(tools, yes(told=told, decide=lambda _q: pytest.fail("asked")), run)
    assert tools.runs.steps(run.run) == steps[0]


def test_u01_a_process_that_goes_on_with_a_claim_does_so_while_nobody_else_has_it() -> None:
    """Whoever stopped by himself, waiting for somebody, holds the run no longer."""
    from groupshift.application.downgrade import DowngradeRequest
    from groupshift.application.downgrade_run import begin, go_on, plan_run
    from groupshift.domain.versions import Version
    from groupshift.moves.downgrade.releases import target_of
    from support.simulated_downgrade import tools_of, two_of_43, yes

    tools = tools_of(two_of_43())
    asked = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    run = begin(tools, plan_run(tools, asked))
    tools.runs.claim(run.run, "dag/1", 1)
    tools.runs.claim(run.run, "other", 2)
    mine = {"holder": "dag/1", "taking": False}
    with pytest.raises(Conflict, match="run other took this run over at 1970-01-01 00:00:00 UTC"):
        go_on(tools, yes(**mine), run)
    assert go_on(tools, yes(decide=lambda _q: None, who="other"), run).ended is Ended.WAITING
    assert go_on(tools, yes(**mine), run).ended is Ended.DONE


def test_u01_a_cluster_run_that_is_taken_over_at_its_end_is_not_sealed_by_who_lost_it() -> None:
    """Its evidence would be another one than the new holder journals."""
    from groupshift.application.downgrade import DowngradeRequest
    from groupshift.application.downgrade_run import begin, go_on, plan_run
    from groupshift.domain.step import Stand
    from groupshift.domain.versions import Version
    from groupshift.moves.downgrade.releases import target_of
    from support.simulated_downgrade import tools_of, two_of_43, yes

    tools = replace(tools_of(two_of_43()), seal=lambda *_: pytest.fail("sealed"))
    asked = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    planned = plan_run(tools, asked)
    run, last = begin(tools, planned), planned.plan.steps[-1].key
    put = tools.runs.put

    def take(which: str, record: Any) -> None:
        put(which, record)
        if record.step == last and record.state == Stand.DONE.value:
            tools.runs.claim(run.run, "other", 1)

    tools.runs.put = take  # type: ignore[method-assign]
    with pytest.raises(Conflict, match=r"run other took this run over at .* UTC: look there"):
        go_on(tools, yes(), run)
