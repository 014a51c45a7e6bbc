"""What a run that changes a whole cluster asks in the terminal."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.cli.run_options import terms_of
from groupshift.cli.terminal import Console
from groupshift.domain.step import RunAct, RunStep
from groupshift.settings import ApprovalSettings

PLAN = RunStep(key="01 approve plan", act=RunAct.APPROVE, subject="plan", does="approve the plan")
NODE = RunStep(key="02 replace 1", act=RunAct.REPLACE, subject="1", does="replace node 1")


@pytest.mark.parametrize("move", ["downgrade", "expansion"])
@pytest.mark.parametrize(
    ("typed", "said"), [("approve", True), ("reject", False), ("", False), (None, None)], ids=str
)
def test_u09_a_cluster_run_is_asked_with_the_words_of_its_buttons(
    move: str, typed: str | None, said: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody there is no *Reject*: the run waits, open. Enter alone is one, and the text says so."""
    told = io.StringIO()
    console = Console(file=told, width=200)
    console._force_terminal = typed is not None
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{typed}\n"))
    place: Any = SimpleNamespace(approval=ApprovalSettings())
    terms = terms_of(console, place=place, yes=False, seen=False, patience_s=1.0)
    question: Any = SimpleNamespace(
        run=f"{move}-c1-7",
        plan=SimpleNamespace(hash="a" * 64, steps=(PLAN, NODE)),
        step=PLAN,
        steps=(PLAN, NODE),
    )
    assert terms.decide(question) is said
    text = told.getvalue()
    assert "no answer at all" not in text
    assert "no answer: nothing is changed, and the run waits. Enter alone is Reject" in text
    assert f"groupshift {move} report {move}-c1-7" in text
    assert ("[approve/reject]" in text) is (typed is not None)


def test_u09_a_way_back_is_asked_about_by_its_own_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are none of the plan's: committing deleted groups again has an approval of its own."""
    from groupshift.application.run_work import Question

    told = io.StringIO()
    console = Console(file=told, width=200)
    console._force_terminal = True
    monkeypatch.setattr("sys.stdin", io.StringIO("approve\n"))
    place: Any = SimpleNamespace(approval=ApprovalSettings())
    terms = terms_of(console, place=place, yes=False, seen=False, patience_s=1.0)
    back = RunStep(
        key="back 01 approve", act=RunAct.APPROVE, subject="back", does="approve to commit the deleted groups"
    )
    again = RunStep(key="back 02 restore", act=RunAct.RESTORE, subject="S", does="commit snapshot S")
    plan: Any = SimpleNamespace(hash="a" * 64, steps=(PLAN, NODE))
    asked = Question(run="expansion-c1-7", plan=plan, step=back, steps=(back, again))
    assert terms.decide(asked) is True
    assert "commit snapshot S" in told.getvalue()
    assert "replace node 1" not in told.getvalue()
