"""What a person is asked in Airflow: texts, buttons, and the answer that counts when nobody gives one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import Step
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.questions_and_approvers import BUTTONS, Question, Section
from groupshift_airflow.run_gates import CHOICES, OPTIONAL, Work, gate_of, gate_of_work
from groupshift_airflow.run_tasks import named, person

UNTIL_MS = 1_700_000_000_000
BAD = Finding(rule="C11", verdict=Verdict.FAIL, reason="partition 0 has no owner", hint="wait")
GOOD = Finding(rule="C03", verdict=Verdict.PASS, reason="every node was understood")
PLAN = Question(
    run="coordination-orders-1",
    gate="01 plan/approve",
    answers=(Choice.APPROVE, Choice.REJECT),
    fingerprint="ab" * 32,
    plan_hash="cd" * 32,
    ahead=(Step(phase="canary", kind="replace_members", does="replaces m1"),),
    findings=(GOOD, BAD),
    pause="members stop for about 10 s",
    shown=(Section(title="Members", head=("member", "kind"), rows=(("m1", "old"),)),),
)


def test_a_gate_says_how_many_rules_passed_where_all_did() -> None:
    """Not nothing."""
    passed = (Finding(rule="C01", verdict=Verdict.PASS, reason="it is there"),)
    assert "1 of 1 checks passed" in gate_of(replace(PLAN, findings=passed), UNTIL_MS).body


def test_an_approval_shows_plan_findings_what_comes_and_until_when() -> None:
    """Whoever answers sees for what, and what silence does."""
    gate = gate_of(PLAN, UNTIL_MS)
    for part in (
        "coordination-orders-1",
        "01 plan/approve",
        "cdcdcdcdcdcd",
        "1 of 2 checks passed",
        "partition 0 has no owner",
        "If you approve",
        "replaces m1",
        "members stop for about 10 s",
        "| m1 | old |",
        "no answer until 2023-11-14 22:13:20 UTC: as **Reject**",
        "/groupshift/runs/coordination-orders-1/",
    ):
        assert part in gate.body, part
    assert "every node was understood" not in gate.body, "what passes is counted"
    assert (gate.options, gate.default) == (("Approve", "Reject"), "Reject")
    assert (gate.step, gate.fingerprint) == (PLAN.gate, PLAN.fingerprint)
    assert gate.subject == "Approve: 01 plan/approve of coordination-orders-1"


def test_an_approval_that_became_void_says_why_it_is_asked_again() -> None:
    """What changed since."""
    gate = gate_of(replace(PLAN, changes=("members m9: absent is now old",)), UNTIL_MS)
    assert "members m9: absent is now old" in gate.body


def test_the_last_gate_offers_finalise_and_keep_and_silence_keeps() -> None:
    """What cannot be undone is not called an approval."""
    gate = gate_of(replace(PLAN, optional=True), UNTIL_MS)
    assert "**Keep**: these steps are left out" in gate.body
    assert (gate.options, gate.default) == (("Finalise", "Keep"), "Keep")
    assert (CHOICES["Finalise"], CHOICES["Keep"]) == (Choice.APPROVE, Choice.REJECT)


@pytest.mark.parametrize(
    ("answers", "labels"),
    [
        ((Choice.GO_ON, Choice.ROLL_BACK, Choice.STOP), ("Go on", "Roll back", "Stop here")),
        ((Choice.ROLL_BACK, Choice.STOP), ("Roll back", "Stop here")),
        ((Choice.GO_ON, Choice.STOP), ("Go on", "Stop here")),
    ],
)
def test_silence_at_a_review_stops(answers: tuple[Choice, ...], labels: tuple[str, ...]) -> None:
    """Neither on nor back is decided by nobody."""
    gate = gate_of(replace(PLAN, answers=answers, gate="08 canary/judge after"), UNTIL_MS)
    assert (gate.options, gate.default) == (labels, "Stop here")
    assert gate.subject.startswith("Decide: ")


def test_every_answer_has_one_label_and_every_label_one_answer() -> None:
    """A button means one thing."""
    assert set(BUTTONS) == set(Choice)
    assert len(CHOICES) == len(BUTTONS) + len(OPTIONAL)


def test_a_person_is_told_what_to_do_and_may_accept_only_what_was_shown() -> None:
    """Done looks again; accepting is offered where a step was shown; a rollback where something was begun."""
    work = Work(run="r-1", step="05 canary/replace_members", instruction="restart m1", detail="m1 is old")
    gate = gate_of_work(work, UNTIL_MS)
    assert (gate.options, gate.default, gate.fingerprint) == (("Done", "Stop here"), "Stop here", "")
    assert "restart m1" in gate.body
    shown = gate_of_work(replace(work, acceptable=True, undoable=True), UNTIL_MS)
    assert shown.options == ("Look again", "Accept", "Roll back", "Stop here")
    assert "it ends red" in shown.body


def test_s12_foreign_text_in_a_question_is_no_markup() -> None:
    """Names of groups, members and steps come from elsewhere."""
    bad = "![x](http://evil.example) <b> \x1b"
    question = replace(
        PLAN, detail=bad, pause=bad, changes=(bad,), findings=(replace(BAD, reason=bad),), run="r`x`"
    )
    work = Work(run="r", step="s", instruction=bad, detail=bad)
    for gate in (gate_of(question, UNTIL_MS), gate_of_work(work, UNTIL_MS)):
        shown = MarkdownIt("gfm-like").render(gate.body)
        assert "<img" not in shown
        assert "<b>" not in shown
        assert "\x1b" not in gate.body + gate.subject


def test_who_answered_is_airflows_user_or_nobody() -> None:
    """A user whose name looks like an account of the operating system is not taken for one."""
    assert person({"id": "7", "name": "alice"}) == "alice"
    assert person({"id": "7", "name": ""}) == "7"
    assert person(None) == "nobody (expired)"
    assert named("bob (uid 0)") == "bob [uid 0)"
