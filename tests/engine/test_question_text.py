"""What a person reads at a gate and in a review."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from toy_world import World, no

from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import IRREVERSIBLE, NOTHING, RunState, Step
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.questions_and_approvers import (
    Question,
    Section,
    answer_texts,
    checks_text,
    default_of,
    question_text,
    section_text,
    undo_words,
)

GATE: dict[str, Any] = {
    "run": "toy-g-1",
    "gate": "01 ask/approve plan",
    "answers": (Choice.APPROVE, Choice.REJECT),
    "fingerprint": "f" * 64,
    "plan_hash": "a" * 64,
    "state": RunState.PLANNED,
}
REVIEW = {**GATE, "answers": (Choice.GO_ON, Choice.ROLL_BACK, Choice.STOP), "state": RunState.RUNNING}
DO = Step(
    phase="p", kind="do", does="write the mode", proof="it is read back", undo=Step(phase="p", kind="un")
)


def test_u09_every_answer_says_what_it_does_and_what_silence_does() -> None:
    """In a terminal the question waits; on a page it is over at a moment."""
    question = Question(
        **GATE, ahead=(DO,), later="the toggle", pause="one rebalance.", does="approve the plan"
    )
    text = question_text(question)
    assert "### If you approve: approve the plan\n\n1. write the mode\n\n**Pause**: one rebalance." in text
    assert "Then you are asked again: the toggle." in text
    assert "- **Approve**: the run goes on with the 1 step above" in text
    assert "- **Reject**: nothing was changed; the run ends, and another one may begin." in text
    assert "- no answer: nothing is changed, and the run waits. Enter alone is **Reject**" in text
    assert "| write the mode | it is read back | un |" in text
    timed = question_text(question, until_ms=1_700_000_000_000)
    assert "- no answer until 2023-11-14 22:13:20 UTC: as **Reject**" in timed
    assert "Enter alone" not in timed
    assert "Then the run ends." in question_text(replace(question, later=""))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "the run ends, and another one may begin"),
        ({"state": RunState.RUNNING}, "the run stays open, and `groupshift roll-back toy-g-1 --execute`"),
        ({"state": RunState.RUNNING, "frees": True}, "the run ends here, its target is free"),
        ({"state": RunState.ROLLING_BACK, "frees": True}, "the run stays open in its rollback"),
        ({"state": RunState.RUNNING, "optional": True}, "the run ends well; the rollback stays open"),
    ],
)
def test_u09_a_no_says_what_becomes_of_the_run(more: dict[str, Any], says: str) -> None:
    """By where the run stands and what the move says of a stop."""
    texts = dict(answer_texts(Question(**{**GATE, **more})))
    assert says in texts[Choice.REJECT]
    met = {**REVIEW, "state": RunState.PLANNED, **more}
    assert says in dict(answer_texts(Question(**met)))[Choice.STOP]


def test_u09_a_review_says_why_and_what_its_buttons_are() -> None:
    """Go on, Roll back, Stop here; Enter alone stops."""
    question = Question(**REVIEW, detail="the lag grew", does="watch the canary")
    text = question_text(question)
    assert "### In doubt: watch the canary\n\nThis step did not pass. the lag grew" in text
    for word in ("Go on", "Roll back", "Stop here"):
        assert f"- **{word}**: " in text
    assert default_of(question) is Choice.STOP
    assert default_of(Question(**GATE)) is Choice.REJECT


def test_u17_checks_are_counted_and_what_did_not_pass_is_there_in_full() -> None:
    """What was not asked is counted apart."""
    passed = tuple(
        Finding(rule=f"C{n}", verdict=Verdict.PASS, reason="well", applies=n > 1) for n in range(5)
    )
    assert checks_text(passed) == "3 of 3 checks passed, 2 not asked."
    bad = Finding(rule="C09", verdict=Verdict.INCONCLUSIVE, reason="m2 was not seen", hint="look again")
    text = checks_text((*passed, bad))
    assert text.startswith("3 of 4 checks passed, 2 not asked.")
    assert "| **INCONCLUSIVE** | C09 | m2 was not seen | look again |" in text
    assert "well" not in text


def test_a_question_lists_no_more_than_somebody_reads() -> None:
    """A group whose every node is broken makes no text of megabytes."""
    bad = tuple(Finding(rule="C03", verdict=Verdict.FAIL, reason=f"node {n}", hint="") for n in range(20_000))
    many = Question(**GATE, findings=bad, ahead=(DO,) * 60, changes=tuple(f"change {n}" for n in range(70)))
    text = question_text(many)
    assert len(text) < 20_000
    assert [text.count(f"and {left:d} more") for left in (19_950, 10, 20)] == [1, 2, 1]
    assert "0 of 20,000 checks passed" in text.replace("20000", "20,000")


def test_an_approval_that_became_void_says_what_changed() -> None:
    """Before anything else."""
    text = question_text(Question(**GATE, changes=("owner value: ann is now eve",)))
    assert "An earlier approval is void, because this changed:\n\n- owner value: ann is now eve" in text


def test_s12_what_a_stranger_named_is_no_markup() -> None:
    """Neither in a step nor in a finding nor in a section."""
    evil = "x](http://evil) <b>|\x1b[31m"
    finding = Finding(rule="C1", verdict=Verdict.FAIL, reason=evil, hint=evil)
    part = Section(title=evil, sentences=(evil,), head=("group",), rows=((evil,), ("",)))
    step = replace(DO, does=evil, proof=evil)
    question = Question(
        **{**GATE, "gate": evil}, ahead=(step,), findings=(finding,), shown=(part,), does=evil, later=evil
    )
    text = question_text(question)
    assert "\x1b" not in text
    assert "](http" not in text.replace("\\](http", "").replace("\\]", "")
    assert "<b>" not in text.replace("\\<b>", "")
    assert section_text(part).count("| - |") == 1


def test_how_a_step_is_undone_is_said_in_words() -> None:
    """By the words of its undo step, or that it cannot be."""
    assert undo_words(replace(DO, undo=NOTHING)) == ""
    assert undo_words(replace(DO, undo=IRREVERSIBLE)) == "irreversible"
    assert undo_words(replace(DO, undo=Step(phase="p", kind="un", does="write it back"))) == "write it back"


def test_a_gate_of_the_toy_shows_what_is_ahead_and_what_was_judged(world: World) -> None:
    """The engine fills what the text needs."""
    questions: list[Question] = []

    def decide(question: Question) -> Any:
        questions.append(question)
        return no(question)

    run = world.begin().run
    world.drive(run, decide=decide)
    assert questions[0].state is RunState.PLANNED
    assert questions[0].does == "asks for an approval of the plan"
    assert questions[0].later == "asks before it is burned"
    assert "prepare/set colour" in question_text(questions[0])
    run = world.begin().run
    questions.clear()

    def later(question: Question) -> Any:
        questions.append(question)
        answer = no(question)
        return replace(answer, choice=Choice.APPROVE) if len(questions) == 1 and answer else answer

    world.drive(run, decide=later)
    assert sorted(each.rule for each in questions[1].judged) == ["T04", "T05"]
    assert "2 of 2 checks passed" in question_text(questions[1])
    assert questions[1].state is RunState.RUNNING
