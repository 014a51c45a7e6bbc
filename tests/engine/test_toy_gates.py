"""The toy move at its gates, and what it waits for: approvals, people, jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_world import MOVED, Killed, World, no, nobody, until, yes

from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine.gates import answer
from groupshift.engine.move import Sealing
from groupshift.engine.progress import Asks, Ended, Moved, Paused, Stopped, Waits
from groupshift.engine.questions_and_approvers import Answer, Approvers
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import advance, drive, leave
from groupshift.engine.status import status_of
from groupshift.errors import Conflict, Fenced, Rejected, Void
from groupshift.ports.runs import EventKind


def test_an_approval_becomes_void_when_the_target_changes_while_somebody_thinks(world: World) -> None:
    """The answer is void, what changed is named, and the gate is asked again in place."""
    run = world.begin().run
    asked = []

    def slowly(question):
        asked.append(question)
        if len(asked) == 1:
            world.target.write("owner", "eve")
        return yes(question)

    ended = world.drive(run, decide=slowly)
    assert isinstance(ended, Ended)
    assert asked[1].changes == ("owner name: ann is now eve",)
    assert asked[0].fingerprint != asked[1].fingerprint
    assert [each.gate for each in asked] == ["01 ask/approve plan"] * 2 + ["15 go/approve burn"]


def test_a_gate_that_becomes_void_at_the_third_question_is_asked_again(world: World) -> None:
    """Two gates, each void once, are four questions of one process."""
    run, asked = world.begin().run, []

    def changing(question):
        asked.append(question.gate)
        if asked.count(question.gate) == 1:
            world.target.write("owner", f"eve {len(asked)}")
        return yes(question)

    assert isinstance(world.drive(run, decide=changing), Ended)
    assert asked == ["01 ask/approve plan"] * 2 + ["15 go/approve burn"] * 2


def test_a_target_that_is_never_still_ends_the_process_at_the_third_void_approval(world: World) -> None:
    """The run stays where it is, for another process."""
    run, asked = world.begin().run, []

    def changing(question):
        asked.append(question.gate)
        world.target.write("owner", f"eve {len(asked)}")
        return yes(question)

    with pytest.raises(Void):
        world.drive(run, decide=changing)
    assert (len(asked), world.target.values()["colour"]) == (3, "red")


def test_an_approval_becomes_void_between_the_answer_and_the_act(world: World) -> None:
    """Patience first, then the gate again; it stays void although the change is taken back."""
    run = world.begin().run
    claimed = world.claim(run)
    until(claimed, advance, [Asks])
    question = advance(claimed)
    assert isinstance(question, Asks)
    answer(claimed, question.question.gate, yes(question.question))
    while world.record_of(run, "prepare/snapshot before") is None:
        advance(claimed)
    advance(claimed)
    world.target.write("owner", "eve")
    waits = advance(claimed)
    assert isinstance(waits, Waits)
    assert "owner name: ann is now eve" in waits.checked.detail
    assert world.target.values()["colour"] == "red"
    again = until(claimed, advance, [Asks])
    assert isinstance(again, Asks)
    assert again.question.gate == "01 ask/approve plan"
    world.target.write("owner", "ann")
    assert isinstance(advance(claimed), Asks)
    with pytest.raises(Void, match="owner name: eve is now ann"):
        answer(claimed, again.question.gate, yes(again.question))
    assert isinstance(drive(claimed), Ended)
    assert world.kinds(run).count(EventKind.VOIDED) == 2


def test_evidence_that_was_altered_makes_an_approval_void(world: World) -> None:
    """An approval rests on the snapshots that were there."""
    run = world.begin().run
    world.drive(run, decide=lambda q: None if "burn" in q.gate else yes(q))
    claimed = world.claim(run)
    asks = until(claimed, advance, [Asks])
    assert isinstance(asks, Asks)
    folder = Path(world.record_of(run, "prepare/snapshot before").result["folder"])
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(Void, match="evidence 03 prepare/snapshot before"):
        answer(claimed, asks.question.gate, yes(asks.question))


def test_a_void_approval_ends_the_run_where_the_move_says_so(world: World) -> None:
    """Nothing was changed; the target is free for another plan."""
    world.move.void_ends = True
    run = world.begin().run

    def change(question):
        world.target.write("owner", "eve")
        return yes(question)

    ended = world.drive(run, decide=change)
    assert isinstance(ended, Ended)
    assert ended.closing.state is RunState.REJECTED
    assert "owner name: ann is now eve" in ended.closing.reason
    assert world.begin().run != run


def test_who_is_killed_while_a_void_approval_ends_the_run_is_asked_again(world: World) -> None:
    """The yes of before counts no more, though the target is as it was then."""
    world.move.void_ends = True
    run = world.begin().run

    def dies(_name: str, _body: object) -> Sealing:
        raise Killed

    claimed = world.claim(run, seal=dies)
    asks = until(claimed, advance, [Asks])
    assert isinstance(asks, Asks)
    answer(claimed, asks.question.gate, yes(asks.question))
    while world.record_of(run, "prepare/snapshot before") is None:
        advance(claimed)
    world.target.write("owner", "eve")
    with pytest.raises(Killed):
        until(claimed, advance, [Ended])
    world.target.write("owner", "ann")
    asked = until(world.claim(run), advance, [Asks, Ended])
    assert isinstance(asked, Asks)
    assert asked.question.gate == asks.question.gate
    assert world.target.values()["colour"] == "red"


def test_a_no_to_the_plan_changes_nothing_and_frees_the_target(world: World) -> None:
    """A no is always taken."""
    run = world.begin().run
    stopped = world.drive(run, decide=no)
    assert isinstance(stopped, Stopped)
    assert stopped.closing is not None
    assert (stopped.closing.state, stopped.closing.verdict) == (RunState.REJECTED, Verdict.FAIL)
    assert world.end()["colour"] == "red"
    assert world.begin().run != run


@pytest.mark.parametrize("frees", [True, False])
def test_a_no_to_a_later_gate_stops_there(quick: World, *, frees: bool) -> None:
    """With the rollback open; whether the target is free is the move's."""
    quick.move.stop_frees = frees
    run = quick.begin().run
    stopped = quick.drive(run, decide=lambda q: no(q) if "burn" in q.gate else yes(q))
    assert isinstance(stopped, Stopped)
    assert quick.state(run) is (RunState.MOVED if frees else RunState.RUNNING)
    assert quick.end()["burned"] == "no"
    if frees:
        assert stopped.closing is not None
        assert stopped.closing.verdict is Verdict.INCONCLUSIVE
    else:
        ended = quick.drive(run)
        assert isinstance(ended, Ended), "the next process asks again"
    assert begin_roll_back(quick.claim(run), "start") if frees else True


def test_nobody_there_leaves_the_run_open_and_an_answer_may_come_later(world: World) -> None:
    """A process that stopped by itself holds the run no longer; an old no is not remembered."""
    run = world.begin().run
    stopped = world.drive(run, decide=nobody)
    assert isinstance(stopped, Stopped)
    assert stopped.waits
    status = status_of(world.runs, run)
    assert (status.stopped, status.question) == (True, "01 ask/approve plan")
    assert status.waits_for == "gate 01 ask/approve plan waits for an answer"
    gate = world.claim(run, holder="airflow", anew=False)
    shown = [e for e in gate.events("01 ask/approve plan") if e.kind is EventKind.GATE_SHOWN][-1]
    given = Answer(choice=Choice.APPROVE, who="bob", fingerprint=shown.body["fingerprint"])
    answer(gate, "01 ask/approve plan", given)
    answer(gate, "01 ask/approve plan", given)
    ended = world.drive(run, holder="airflow", decide=lambda q: None if "plan" in q.gate else yes(q))
    assert isinstance(ended, Ended)
    assert world.kinds(run, "01 ask/approve plan").count(EventKind.GATE_SHOWN) == 1
    assert world.kinds(run, "01 ask/approve plan").count(EventKind.GATE_ANSWERED) == 1


def test_answers_that_cannot_be_used_are_refused(world: World) -> None:
    """Wrong gate, wrong choice, nobody, never shown, too old, not by who asked."""
    world.approvers = Approvers(names=("bob", "ann"), four_eyes=True)
    run = world.begin().run
    claimed = world.claim(run)
    asks = until(claimed, advance, [Asks])
    assert isinstance(asks, Asks)
    gate, shown = asks.question.gate, asks.question.fingerprint

    def give(choice: Choice = Choice.APPROVE, who: str = "bob", fingerprint: str = shown) -> None:
        answer(claimed, gate, Answer(choice=choice, who=who, fingerprint=fingerprint))

    with pytest.raises(Rejected, match="does not fit gate"):
        give(Choice.GO_ON)
    with pytest.raises(Rejected, match="names nobody"):
        give(who="")
    with pytest.raises(Rejected, match=r"approval\.four_eyes"):
        give(who="ann")
    with pytest.raises(Rejected, match="let one of them answer"):
        give(who="carol")
    with pytest.raises(Conflict, match="never showed that"):
        give(fingerprint="0" * 64)
    with pytest.raises(Conflict, match="has no gate"):
        answer(claimed, "99 x", Answer(choice=Choice.APPROVE, who="bob", fingerprint=shown))
    world.clock.sleep(claimed.tools.gate_expiry_s + 10)
    with pytest.raises(Conflict, match="longer than"):
        give()
    give(Choice.REJECT, who="carol")
    stopped = drive(claimed)
    assert isinstance(stopped, Stopped)


def test_a_person_is_waited_for_by_name_and_told_again(world: World) -> None:
    """The process ends; the same text comes again; once it was done the run goes on."""
    world.plugs = False
    run = world.begin().run
    for _ in range(2):
        stopped = world.drive(run)
        assert isinstance(stopped, Stopped)
        assert stopped.waits
        assert stopped.step.name == "people/ask_person"
    assert world.told.count("write yes into plugged") == 2
    world.target.write("plugged", "yes")
    assert isinstance(world.drive(run), Ended)
    assert world.end() == MOVED


def test_a_terminal_waits_for_a_person_as_for_anything_else(world: World) -> None:
    """As long as patience lasts."""
    world.plugs = False
    run = world.begin().run
    world.clock.on_sleep.append(lambda _s: world.target.write("plugged", "yes"))
    assert isinstance(world.drive(run, waits_for_people=True), Ended)


def test_a_terminal_does_not_wait_for_a_word_that_only_the_next_process_can_say(world: World) -> None:
    """It stops at once, with the command that says it."""
    run = world.begin().run
    world.target.write("scratch", "yes")
    before = world.clock.now_ms()
    stopped = world.drive(run, waits_for_people=True, patience_s=900)
    assert isinstance(stopped, Stopped)
    assert stopped.waits
    assert "--accept '14 go/clean'" in stopped.checked.detail
    assert world.clock.now_ms() - before < 900_000
    assert isinstance(world.drive(run, waits_for_people=True, accept="14 go/clean"), Ended)


def test_a_process_that_is_interrupted_leaves_the_run_to_the_next_one(world: World) -> None:
    """Nobody has to take over what somebody left by himself."""
    run = world.begin().run
    world.plugs = False

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    world.clock.on_sleep.append(interrupted)
    claimed = world.claim(run, holder="first", waits_for_people=True)
    with pytest.raises(KeyboardInterrupt):
        drive(claimed)
    assert "a person has to write yes into plugged" in world.told
    with pytest.raises(Fenced):
        world.claim(run, holder="second")
    leave(claimed, "interrupted at the keyboard")
    status = status_of(world.runs, run)
    assert (status.stopped, status.waits_for) == (True, "interrupted at the keyboard")
    assert status.waits_at == "08 people/ask_person"
    world.clock.on_sleep.clear()
    world.plugs = True
    assert isinstance(world.drive(run, holder="second"), Ended)
    claimed = world.claim(run, holder="first")
    leave(claimed, "too late")
    assert EventKind.STOPPED not in world.kinds(run)[-2:], "a run that is over is left alone"


def test_a_difference_is_accepted_exactly_as_it_was_shown(world: World) -> None:
    """By the key of its step, after an earlier claim showed it, by an approver; the run never ends green."""
    run = world.begin().run
    world.target.write("scratch", "yes")
    early = world.drive(run, accept="14 go/clean")
    assert isinstance(early, Stopped)
    assert early.waits, "nobody has shown it yet"
    assert "--accept '14 go/clean'" in early.checked.detail
    other = world.drive(run, accept="13 go/ready")
    assert isinstance(other, Stopped)
    world.approvers = Approvers(names=("bob",))
    with pytest.raises(Rejected, match="may not approve"):
        world.drive(run, accept="14 go/clean")
    ended = world.drive(run, accept="14 go/clean", who="bob")
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.FINALISED, Verdict.FAIL)
    assert "only accepted" in ended.closing.reason
    assert world.record_of(run, "go/clean").result["accepted_by"] == "bob"


def test_a_job_that_left_nothing_is_submitted_once_more_and_then_asked_about(world: World) -> None:
    """An error is measured again; then somebody decides: go on is not among the answers."""
    run = world.begin().run
    submitted = []
    asked = []

    def decide(question):
        asked.append(question)
        return yes(question) if "approve" in question.gate else None

    stopped = world.drive(run, submit=submitted.append, decide=decide)
    assert isinstance(stopped, Stopped)
    assert len(submitted) == 2
    assert submitted[0].output != submitted[1].output, "each attempt has a folder of its own"
    assert asked[-1].answers == (Choice.ROLL_BACK, Choice.STOP)
    assert isinstance(world.drive(run), Ended)


def test_a_job_whose_submitter_died_counts_when_it_names_exactly_these_inputs(world: World) -> None:
    """The next process submits no other one."""
    run = world.begin().run

    def dies(job):
        world.options().submit(job)
        raise Killed

    with pytest.raises(Killed):
        world.drive(run, submit=dies)
    jobs = []
    world.drive(run, submit=jobs.append)
    assert jobs == []
    assert world.end() == MOVED


def test_a_caller_that_submits_jobs_itself_gets_the_job_as_data(world: World) -> None:
    """As an Airflow task does: the job is handed out, and the next task looks."""
    run = world.begin().run
    handed = world.drive(run, submit=None)
    assert isinstance(handed, Moved)
    assert handed.work is not None
    world.options().submit(handed.work)
    assert isinstance(world.drive(run), Ended)


def test_a_process_does_some_phases_and_pauses_before_the_first_other(world: World) -> None:
    """As an Airflow task does its part."""
    run = world.begin().run
    paused = world.drive(run, phases=frozenset({"ask", "prepare"}))
    assert isinstance(paused, Paused)
    assert paused.step.phase == "people"
    assert isinstance(world.drive(run), Ended)
