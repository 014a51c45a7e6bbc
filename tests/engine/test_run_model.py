"""Steps and plans as JSON, and the words that they are made of."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupshift.domain.run import (
    IRREVERSIBLE,
    NOTHING,
    TRANSITIONS,
    Checked,
    OnDifference,
    Outcome,
    RunState,
    SparkJob,
    Step,
    Target,
    WhenLate,
    findings_data,
    findings_from,
    make_plan,
    make_rollback,
    outcome_of,
    plan_from,
    require_transition,
    spark_job_from,
    step_from,
    worst_of,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Conflict, Rejected

WORDS = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.dictionaries(
    TEXTS, st.none() | st.booleans() | st.integers(-9, 9) | TEXTS | st.lists(TEXTS), max_size=3
)


def a_step(undo: st.SearchStrategy[object]) -> st.SearchStrategy[Step]:
    """Any step."""
    return st.builds(
        Step,
        phase=WORDS,
        kind=WORDS.filter(lambda word: word != "approve"),
        subject=TEXTS,
        args=JSON,
        undo=undo,
        repeat=st.booleans(),
        optional=st.booleans(),
        on_difference=st.sampled_from(OnDifference),
        when_late=st.sampled_from(WhenLate),
        patience_s=st.integers(0, 99),
        does=TEXTS,
        proof=TEXTS,
    )


STEPS = a_step(st.sampled_from([NOTHING, IRREVERSIBLE]) | a_step(st.just(NOTHING)))


@given(st.lists(STEPS, max_size=4), JSON)
def test_a_plan_survives_json_and_keeps_its_hash(steps: list[Step], about: dict[str, object]) -> None:
    """Equal plans have equal bytes."""
    plan = make_plan(steps, about)
    assert plan_from(plan.text) == plan
    assert plan_from(json.dumps(json.loads(plan.text), indent=3)).hash == plan.hash
    assert [each.name for each in plan.steps] == [each.name for each in steps]
    assert len({each.key for each in plan.steps}) == len(steps)


def test_the_hash_covers_steps_and_what_else_is_approved() -> None:
    """Another argument, another undo, another note: another hash."""
    step = Step(phase="a", kind="b", args={"n": 1})
    plans = [
        make_plan([step], {"x": 1}),
        make_plan([step], {"x": 2}),
        make_plan([replace(step, args={"n": 2})], {"x": 1}),
        make_plan([replace(step, undo=IRREVERSIBLE)], {"x": 1}),
        make_plan([step, step], {"x": 1}),
    ]
    assert len({each.hash for each in plans}) == len(plans)
    assert replace(plans[0], about={"x": 2}).hash == plans[1].hash, "a hash that was read does not stay"


def test_keys_are_place_phase_kind_and_subject() -> None:
    """As people read them; a gate may be written by name."""
    gate = Step(phase="go", kind="approve", subject="burn")
    plan = make_plan([gate, Step(phase="restart", kind="broker", subject="3", gate="go/approve burn")])
    assert [each.key for each in plan.steps] == ["01 go/approve burn", "02 restart/broker 3"]
    assert plan.steps[1].gate == "01 go/approve burn"
    assert plan.gate_of(plan.steps[1]) == plan.steps[0]
    assert plan.gate_of(replace(plan.steps[1], gate="")) == plan.steps[0]
    assert make_plan([Step(phase="a", kind="b")]).gate_of(Step(phase="a", kind="b")) is None
    with pytest.raises(Rejected, match="'go/approve burn' is no approve step before it"):
        make_plan([Step(phase="a", kind="b", gate="go/approve burn"), gate])


def test_an_undo_has_one_key_in_all_rollbacks_and_a_measurement_has_not() -> None:
    """What is undone stays undone; what is measured is measured again."""
    steps = [Step(phase="a", kind="undo", undoes="04 a/do"), Step(phase="a", kind="judge")]
    first, second = make_rollback(steps, 1), make_rollback(steps, 2)
    assert [each.key for each in first.steps] == ["back 04 a/do", "back 1/02 a/judge"]
    assert [each.key for each in second.steps] == ["back 04 a/do", "back 2/02 a/judge"]
    with pytest.raises(Rejected, match="the same key"):
        make_rollback([steps[0], steps[0]], 1)


BAD = [
    ({"kind": "Burn"}, "kind 'Burn' is no word"),
    ({"phase": "a/b"}, "phase 'a/b' is no word"),
    ({"when_late": "never"}, "when_late, 'never' is not a valid WhenLate"),
    ({"on_difference": "shrug"}, "on_difference, 'shrug' is not a valid OnDifference"),
    ({"undo": "maybe"}, "undo, 'maybe' is not a valid NoUndo"),
    ({"undo": Step(phase="a", kind="..", key="01 a/x").as_json()}, "undo: kind '..' is no word"),
    ({"repeat": 1}, "repeat, 1 is no flag"),
    ({"patience_s": True}, "patience_s, true is no whole number"),
    ({"args": []}, "args, a list of 0 values is no mapping"),
    ({"extra": 1}, "unknown or missing: extra"),
]


@pytest.mark.parametrize(("change", "said"), BAD)
def test_what_is_no_step_is_refused_in_one_sentence(change: dict[str, object], said: str) -> None:
    """With what is known."""
    good = Step(phase="a", kind="b", key="01 a/b").as_json()
    assert step_from(good).key == "01 a/b"
    with pytest.raises(Rejected, match=said):
        step_from({**good, **change})
    with pytest.raises(Rejected, match="'x' is no Step"):
        step_from("x")


def test_another_version_is_refused() -> None:
    """With what to do; so is whatever else is no plan."""
    text = make_plan([]).text
    with pytest.raises(Rejected, match=r"version 2 is not known, this release reads 1; plan the run again"):
        plan_from(text.replace('"version":1', '"version":2'))
    with pytest.raises(Rejected, match="nothing else"):
        plan_from('{"version": 1, "steps": {}, "about": {}}')
    with pytest.raises(Rejected, match="have to be JSON"):
        make_plan([Step(phase="a", kind="b", args={"x": object()})])


def test_the_worst_outcome_decides_and_nothing_is_an_error() -> None:
    """In this order."""
    order = ["pass", "wait", "person", "declined", "inconclusive", "error", "fail"]
    assert [each.value for each in Outcome] == order
    for number, each in enumerate(Outcome):
        assert worst_of(list(Outcome)[: number + 1]) is each
    assert worst_of([]) is outcome_of([]) is Outcome.ERROR
    finding = Finding(rule="R1", verdict=Verdict.FAIL, reason="bad", hint="mend", applies=True)
    unasked = Finding(rule="R2", verdict=Verdict.PASS, reason="", applies=False)
    assert outcome_of([unasked, finding]) is Outcome.FAIL
    assert findings_from(json.loads(json.dumps(findings_data([finding, unasked])))) == (finding, unasked)
    assert Checked(outcome=Outcome.FAIL, findings=(unasked, finding)).sentences == ("R1: bad (mend)",)
    assert Checked(outcome=Outcome.FAIL, detail="d").sentences == ("d",)
    with pytest.raises(Rejected, match="'great' is not a valid Verdict"):
        findings_from([{"rule": "R", "verdict": "great", "reason": ""}])


def test_jobs_targets_and_states() -> None:
    """The rest of the words."""
    job = SparkJob(job="j", arguments=("a",), inputs={"p": "s"}, output="o")
    assert spark_job_from(json.loads(json.dumps(job.as_json()))) == job
    with pytest.raises(Rejected, match="a Spark job has"):
        spark_job_from({"job": "j"})
    with pytest.raises(Rejected, match="kind 'topic' is not known"):
        Target(kind="topic", name="t")  # type: ignore[arg-type]
    require_transition("r", RunState.ROLLED_BACK, RunState.ROLLING_BACK)
    with pytest.raises(Conflict, match="is finalised and cannot become rolling_back"):
        require_transition("r", RunState.FINALISED, RunState.ROLLING_BACK)


@pytest.mark.parametrize(
    ("statement", "states"),
    [("01_run", set(RunState)), ("02_one_open_run", {each for each in RunState if each.is_open})],
)
def test_the_database_knows_the_same_states(statement: str, states: set[RunState]) -> None:
    """The CHECK constraint, the lock and the table of transitions are one vocabulary."""
    text = files("groupshift").joinpath("sql", "runs", "schema", f"{statement}.sql").read_text()
    listed = re.search(r"state IN \((.*?)\)", text, re.DOTALL)
    assert listed is not None
    assert set(re.findall(r"'(\w+)'", listed.group(1))) == {each.value for each in states}
    assert set(TRANSITIONS) == set(RunState)
