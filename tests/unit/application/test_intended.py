"""Acts that were intended, not made, and met a changed group: approved again, or not made."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from groupshift.domain.judgement import ActState, GateBrief
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Answer, Choice, Gate, Phase, StageName, Until, WayBack
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Void
from groupshift.ports.clock import CrashPoint
from groupshift.ports.journal import EventKind, StepState
from groupshift_testing.world import CrashOnce, Killed, Occupant
from support.simulated_move import Bench, make_bench

FORWARD = (StageName.CANARY, StageName.ROLL, StageName.RETIRE)


def killed(bench: Bench, stage: StageName, point: CrashPoint = CrashPoint.AFTER_JOURNAL) -> str:
    """A migration whose first run died at this point of this stage."""
    migration = bench.plan(until=Until.RETIRE)
    with pytest.raises(Killed):
        bench.runner(migration, "cli-1", CrashOnce(stage, point)).forward()
    bench.asked.clear()
    return migration


def joins(bench: Bench, kind: MemberKind, name: str = "m9") -> str:
    """One more member that nobody planned; its id."""
    bench.world.places[name] = Occupant(kind=kind)
    bench.world.tick()
    return bench.world.identity(name)


def kinds(bench: Bench, migration: str) -> list[EventKind]:
    """What was journaled, in order."""
    return [event.kind for event in bench.journal.events(migration)]


@pytest.mark.parametrize("stage", FORWARD)
def test_a_group_that_is_as_it_was_met_is_not_asked_about_again(stage: StageName) -> None:
    """The approval still holds: the act is made, once, by the next process."""
    bench = make_bench()
    migration = killed(bench, stage)
    assert bench.runner(migration, "cli-2").forward().verdict is Verdict.PASS
    assert Gate.PLAN not in {brief.gate for brief in bench.asked}
    assert EventKind.VOIDED not in kinds(bench, migration)


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        (StageName.CANARY, MemberKind.OLD),
        (StageName.ROLL, MemberKind.OLD),
        (StageName.RETIRE, MemberKind.AWARE),
    ],
)
def test_a_member_that_joined_since_the_intent_makes_the_approval_void(
    stage: StageName, kind: MemberKind
) -> None:
    """Nothing is acted on; the journal and the sentence name the member; a yes to it goes on."""
    bench = make_bench()
    migration = killed(bench, stage)
    before, stranger = bench.kinds(), joins(bench, kind)
    app = bench.app()
    with pytest.raises(Void, match=rf"approval void: .*members {stranger}: absent is now"):
        app.act(migration, stage, app.claim(migration, "cli-2"))
    assert bench.kinds() == [*before, kind]
    assert bench.journal.steps(migration)[stage].state is StepState.INTENDED
    (void,) = [e for e in bench.journal.events(migration) if e.kind is EventKind.VOIDED]
    assert (void.stage, void.body["gate"]) == (stage, "plan")
    assert any(stranger in clause for clause in void.body["changes"])
    brief = app.brief(migration, Gate.PLAN)
    assert stranger in brief.body
    assert f"before stage `{stage}` acted" in brief.body
    app.answer(migration, Gate.PLAN, Answer(choice=Choice.APPROVE, who="ann", fingerprint=brief.fingerprint))
    assert app.act(migration, stage, app.claim(migration, "cli-2")).state is ActState.DONE


def test_a_member_that_left_since_the_intent_is_named_too() -> None:
    """Its place is not restarted, so the rules cannot pass either; the approval speaks first."""
    bench = make_bench(members=4)
    migration = killed(bench, StageName.CANARY)
    gone = bench.world.identity("m4")
    del bench.world.places["m4"]
    app = bench.app()
    with pytest.raises(Void, match=rf"members {gone}: .* is now absent"):
        app.act(migration, StageName.CANARY, app.claim(migration, "cli-2"))


def test_the_runner_asks_in_place_and_goes_on() -> None:
    """The person at the terminal is asked once, for the stage that was intended."""
    bench = make_bench()
    migration = killed(bench, StageName.CANARY)
    bench.world.places["m3"].incarnation = 7
    closing = bench.runner(migration, "cli-2").forward()
    assert closing.verdict is Verdict.PASS
    assert [brief.gate for brief in bench.asked].count(Gate.PLAN) == 1
    assert f"{bench.world.group}_m3-7" in bench.asked[0].body


def test_a_no_leaves_the_group_as_it_is() -> None:
    """The run ends undecided, and says how to take it back; nothing was replaced."""
    bench = make_bench()
    migration = killed(bench, StageName.ROLL)
    before = bench.kinds()
    joins(bench, MemberKind.OLD)
    runner = bench.runner(migration, "cli-2")

    def no(brief: GateBrief) -> Choice:
        bench.asked.append(brief)
        return Choice.REJECT

    runner.decide = no
    closing = runner.forward()
    assert (closing.phase, closing.verdict) == (Phase.MOVED, Verdict.INCONCLUSIVE)
    assert "gate plan was rejected" in closing.reason
    assert bench.kinds() == [*before, MemberKind.OLD]
    del bench.world.places["m9"]
    assert bench.roll_back(migration).phase is Phase.ROLLED_BACK


def test_what_became_void_stays_void_although_the_stranger_left_again() -> None:
    """Only an answer ends it, also one to the very fingerprint that was approved before."""
    bench = make_bench()
    migration = killed(bench, StageName.CANARY)
    joins(bench, MemberKind.OLD)
    app = bench.app()
    token = app.claim(migration, "cli-2")
    with pytest.raises(Void):
        app.act(migration, StageName.CANARY, token)
    del bench.world.places["m9"]
    with pytest.raises(Void, match="m9"):
        app.act(migration, StageName.CANARY, token)
    assert kinds(bench, migration).count(EventKind.VOIDED) == 1
    brief = app.brief(migration, Gate.PLAN)
    app.answer(migration, Gate.PLAN, Answer(choice=Choice.APPROVE, who="ann", fingerprint=brief.fingerprint))
    assert app.act(migration, StageName.CANARY, token).state is ActState.DONE


@pytest.mark.parametrize("stage", FORWARD)
def test_an_act_that_was_taken_up_goes_on_whoever_joined(stage: StageName) -> None:
    """Killed after the driver had taken the change up: the group differs by that alone."""
    bench = make_bench()
    migration = killed(bench, stage, CrashPoint.AFTER_ACT)
    app = bench.app()
    assert app.act(migration, stage, app.claim(migration, "cli-2")).state is ActState.DONE
    assert EventKind.VOIDED not in kinds(bench, migration)


def test_places_that_run_the_wanted_kind_already_are_no_question() -> None:
    """The fleet forgot the change, its places run what was wanted: there is nothing left to approve."""
    bench = make_bench()
    migration = killed(bench, StageName.CANARY)
    bench.fleet.deploy(("m1",), MemberKind.AWARE)
    app = bench.app()
    assert app.act(migration, StageName.CANARY, app.claim(migration, "cli-2")).state is ActState.DONE


def test_what_a_person_deployed_early_is_no_question() -> None:
    """The driver manual takes nothing up: as many new members as were to come say that they are."""
    bench = make_bench()
    bench.fleet.pending = True
    migration = killed(bench, StageName.CANARY)
    bench.fleet.deploy(("m1",), MemberKind.AWARE)
    app = bench.app()
    outcome = app.act(migration, StageName.CANARY, app.claim(migration, "cli-2"))
    assert outcome.state is ActState.PENDING
    assert app.watch(migration, StageName.CANARY).settled


def test_a_person_is_not_sent_to_a_group_that_changed() -> None:
    """The instruction is not given out before somebody has said yes to the new members."""
    bench = make_bench()
    bench.fleet.pending = True
    migration = killed(bench, StageName.CANARY)
    joins(bench, MemberKind.OLD)
    app = bench.app()
    with pytest.raises(Void, match="m9"):
        app.act(migration, StageName.CANARY, app.claim(migration, "cli-2"))


@dataclass(slots=True)
class _LostAtStart:
    """A driver that was killed with the run, right before it took the change up."""

    stage: StageName

    def reached(self, stage: StageName, point: CrashPoint) -> None:
        if (stage, point) == (self.stage, CrashPoint.AFTER_JOURNAL):
            raise Killed(stage)


@pytest.mark.parametrize("stage", [StageName.UNDO_RETIRE, StageName.UNDO_MEMBERS])
def test_the_way_back_never_asks(stage: StageName) -> None:
    """Whoever joined meanwhile: going back is what was asked for."""
    bench = make_bench()
    migration, _ = bench.move(Until.RETIRE)
    with pytest.raises(Killed):
        bench.runner(migration, "back-1", _LostAtStart(stage)).back(WayBack.OLD_MEMBERS)
    bench.asked.clear()
    bench.world.places["m2"].incarnation = 40
    assert bench.roll_back(migration, run="back-2").phase is Phase.ROLLED_BACK
    assert bench.asked == []
    assert EventKind.VOIDED not in kinds(bench, migration)


def test_a_late_run_may_not_void_what_another_one_took_over() -> None:
    """The journal's token guards that line too."""
    bench = make_bench()
    migration = killed(bench, StageName.CANARY)
    app = bench.app()
    late = app.claim(migration, "cli-2")
    app.claim(migration, "cli-3")
    joins(bench, MemberKind.OLD)
    with pytest.raises(Conflict):
        app.act(migration, StageName.CANARY, late)
    assert EventKind.VOIDED not in kinds(bench, migration)
