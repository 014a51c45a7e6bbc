"""What a tired person reads at a gate: what happens, what each button does, until when, what did not pass."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.domain.judgement import GateBrief
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Choice, Gate, Phase, StageName, Until
from groupshift.domain.verdict import Finding, Verdict
from support.simulated_move import Bench, make_bench


def briefs(bench: Bench, until: Until) -> dict[Gate, GateBrief]:
    """Every gate of a whole run, as it was shown."""
    bench.move(until)
    return {brief.gate: brief for brief in bench.asked}


def doubtful(bench: Bench) -> GateBrief:
    """The review of a canary that nothing was measured of."""
    migration = bench.plan()
    app = bench.app()
    token = app.claim(migration, "first")
    app.answer(migration, Gate.PLAN, _yes(app.brief(migration, Gate.PLAN)))
    app.snapshot(migration, "canary", "before")
    app.act(migration, StageName.CANARY, token)
    app.snapshot(migration, "canary", "after")
    app.judge(migration, "canary", "after")
    return app.brief(migration, Gate.REVIEW, "canary")


def _yes(brief: GateBrief) -> Any:
    from groupshift.domain.plan import Answer

    return Answer(choice=Choice.APPROVE, who="ann", fingerprint=brief.fingerprint)


def test_u09_every_gate_says_what_each_of_its_buttons_does_and_what_silence_does() -> None:
    """The words in the sentences are the words on the buttons, for every gate of a run."""
    bench = make_bench()
    found = briefs(bench, Until.RETIRE)
    assert set(found) == {Gate.PLAN, Gate.TOGGLE, Gate.FINALISE}
    for brief in found.values():
        assert len(brief.options) == 2
        for option in brief.options:
            assert f"- **{option.label}**: {option.does}" in brief.body
        (default,) = [option.label for option in brief.options if option.default]
        assert f"UTC: as **{default}**" in brief.body
        assert "Approving goes on" not in brief.body


def test_u09_a_review_offers_what_its_sentence_says() -> None:
    """What could not be measured is not accepted: the button is not there, nor is the sentence."""
    brief = doubtful(make_bench())
    labels = [option.label for option in brief.options]
    assert labels == ["Roll back", "Stop here"]
    assert "rejecting stops" not in brief.body
    assert "**Go on**" not in brief.body
    assert [option.choice for option in brief.options] == [Choice.REJECT, Choice.STOP]


def test_u09_a_review_of_a_rollback_offers_no_rollback_of_it() -> None:
    """There is nothing that this button could do."""
    from groupshift.application.brief_text import answers
    from groupshift.application.records import load

    bench = make_bench()
    migration, _ = bench.move()
    bench.roll_back(migration)
    found = load(bench.environment(), migration)
    labels = [each.label for each in answers(found, Gate.REVIEW, StageName.UNDO_MEMBERS)]
    assert labels == ["Go on", "Stop here"]


def test_u09_who_stops_at_a_doubt_on_the_command_line_is_not_rolled_back() -> None:
    """Neither on nor back: as the button of the page. The job of the roll leaves no verdict."""
    bench = make_bench()
    migration, proves = bench.plan(), bench.proof.run
    bench.proof = SimpleNamespace(  # type: ignore[assignment]
        run=lambda request: None if "roll" in request.arguments else proves(request)
    )
    runner = bench.runner(migration, "first")
    asked: list[GateBrief] = []

    def decide(brief: GateBrief) -> Choice:
        asked.append(brief)
        return Choice("stop") if brief.gate is Gate.REVIEW else bench.decide(brief)

    runner.decide = decide
    closing = runner.forward()
    undone = bench.app().status(migration)[0].stage(StageName.UNDO_MEMBERS)
    assert asked[-1].gate is Gate.REVIEW
    assert (closing.verdict, undone) == (Verdict.INCONCLUSIVE, None)


@pytest.mark.parametrize("kind", [MemberKind.OLD, MemberKind.AWARE])
def test_u08_what_cannot_be_finalised_is_neither_planned_nor_asked(kind: MemberKind) -> None:
    """Its members need the mode node: both answers did the same. Whatever members it began with."""
    bench = make_bench(kind)
    found = briefs(bench, Until.TOGGLE)
    assert Gate.FINALISE not in found
    assert all("irreversible" not in brief.body for brief in found.values())
    (status,) = bench.app().status()
    assert StageName.FINALISE not in [each.stage.name for each in status.stages]
    assert status.phase is Phase.MOVED


def test_u09_what_passed_is_a_number_and_what_did_not_is_there_in_full() -> None:
    """Not 55 rows of pass above the buttons; what was not asked is no pass."""
    from groupshift.application.brief_text import checks_text

    good = tuple(Finding(rule=f"V{n:02}", verdict=Verdict.PASS, reason="equal") for n in range(55))
    assert checks_text(good) == "55 of 55 checks passed."
    bad = Finding(rule="C11", verdict=Verdict.FAIL, reason="m2 is down", hint="start it")
    assert checks_text((*good, bad)).startswith("55 of 56 checks passed.\n\n| verdict |")
    assert "| **FAIL** | C11 | m2 is down | start it |" in checks_text((*good, bad))
    brief = doubtful(make_bench())
    assert brief.body.index("### Your answer") < brief.body.index("### Last judgement")
    assert "| pass |" not in brief.body.partition("### What the canary")[0]


def test_u09_the_plans_gate_says_places_pause_and_what_comes_next() -> None:
    """Which members, how long, and where somebody is asked again."""
    bench = make_bench()
    body = briefs(bench, Until.TOGGLE)[Gate.PLAN].body
    for text in (
        "1. `canary`: replace m1: old ZooKeeper consumer → migration-aware consumer",
        "2. `roll`: replace m2, m3",
        "You are asked again before `toggle`",
        "**Pause**: 3 members are replaced",
        "Then: `toggle`, `soak`.",
    ):
        assert text in body


@pytest.mark.parametrize(
    ("to", "way", "said"),
    [
        ("consumer", "online", "each partition rests for about 5 to 10 s"),
        ("classic", "online", "all of them together for up to 3 s"),
        ("consumer", "offline", "with static members for 47 to 60 s"),
        ("classic", "offline", "all partitions rest for about 8 to 14 s"),
    ],
)
def test_u09_a_move_of_the_protocol_says_the_pause_that_was_measured(to: str, way: str, said: str) -> None:
    """Per direction and way, from docs/reference/protocol-on-real-brokers.md."""
    from groupshift.application.brief_text import pause_text
    from groupshift.domain.group_protocol import Protocol, Way

    bench = make_bench()
    plan = bench.app().planned(bench.plan()).plan
    assert said in pause_text(replace(plan, to=Protocol(to), way=Way(way)))


def test_u09_the_canarys_measurements_stand_in_the_gate_that_follows_it() -> None:
    """Whoever decides about the toggle sees them, passed ones too."""
    from groupshift.application.approval import current
    from groupshift.application.brief_text import Asked, body
    from groupshift.application.records import load
    from groupshift.domain.judgement import ASK
    from groupshift.ports.journal import Entry, EventKind

    bench = make_bench()
    migration, _ = bench.move()
    finding = {"rule": "K03", "verdict": "pass", "reason": "the canary commits 9.5 records/s", "hint": ""}
    judged = {"moment": "after", "verdict": "pass", "findings": [finding]}
    entry = Entry(migration=migration, at_ms=1, kind=EventKind.JUDGED, stage=StageName.CANARY, body=judged)
    bench.journal.append(entry)
    found, env = load(bench.environment(), migration), bench.environment()
    asked = Asked(gate=Gate.TOGGLE, stage=None, findings=(), terms=ASK, by_ms=0)
    text = body(found, asked, current(env, found))
    assert "### What the canary measured" in text
    assert "9" in text.partition("What the canary measured")[2]


HOSTILE = (
    "[click](http://evil.example)",
    "![x](http://evil.example/x.png)",
    "<img src=x onerror=alert(1)>",
    "**bold** `code` # head",
    "see http://evil.example now",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_s12_what_a_stranger_named_is_no_markup_in_a_gate(text: str) -> None:
    """Reasons and hints hold names of clients, topics and groups."""
    from groupshift.application.brief_text import findings_table

    table = findings_table((Finding(rule="C11", verdict=Verdict.FAIL, reason=text, hint=text),))
    row = table.splitlines()[-1]
    assert f"| {text} |" not in row
    assert "\\" in row


def test_s12_a_client_id_in_a_plan_is_no_markup() -> None:
    """A driver that knows no places takes the names that clients gave themselves."""
    from groupshift.application.brief_text import step_text
    from groupshift.domain.foreign_text import shown
    from groupshift.domain.step import ReplaceMembers

    step = ReplaceMembers(slots=("[x](http://e)",), old=MemberKind.OLD, new=MemberKind.AWARE)
    assert "[x](http" not in shown(step_text(step))
    assert shown("replace m1, m2: old → new_one 1.5 s") == "replace m1, m2: old → new_one 1.5 s"


@pytest.mark.parametrize("move", ["downgrade", "expansion"])
def test_u09_an_approval_of_a_cluster_run_says_what_it_lets_happen(move: str) -> None:
    """The same text in the terminal and on the page."""
    from groupshift.application.brief_text import run_by_hand, run_text
    from groupshift.domain.step import RunAct, RunStep

    steps = (
        RunStep(key="01 approve plan", act=RunAct.APPROVE, subject="plan", does="approve the plan"),
        RunStep(key="02 replace 1", act=RunAct.REPLACE, subject="1", does="replace node 1", inverse="back"),
        RunStep(
            key="03 approve", act=RunAct.APPROVE, subject="forward-only", does="approve what is forward only"
        ),
        RunStep(key="04 create", act=RunAct.CREATE_PARTITIONS, subject="8", does="make 8 partitions"),
    )
    text = run_text(move, steps, 1_700_000_000_000)
    for said in (
        "1. replace node 1",
        "Then you are asked again: approve what is forward only.",
        "**Pause**:",
        "- **Approve**: the run goes on with the 1 step above",
        "- no answer until 2023-11-14 22:13:20 UTC: as **Reject**",
        "| 04 create | make 8 partitions |",
    ):
        assert said in text
    by_hand = run_by_hand(move, 1_700_000_000_000, accepting=False)
    assert "**Deployed**" in by_hand
    assert f"groupshift {move} back --execute" in by_hand


def test_u09_the_toggles_gate_names_what_is_left_and_not_what_was_done() -> None:
    """Canary and roll are over by then."""
    body = briefs(make_bench(), Until.RETIRE)[Gate.TOGGLE].body
    assert "Then: `retire`, `soak`, `finalise`." in body
    body = briefs(make_bench(), Until.TOGGLE)[Gate.TOGGLE].body
    assert "Then: `soak`." in body


def test_u09_a_plan_that_begins_with_the_toggle_says_that_somebody_is_asked_first() -> None:
    """Approving it changes nothing: no place, no pause."""
    found = briefs(make_bench(MemberKind.AWARE), Until.TOGGLE)
    assert "**Pause**: no member is replaced" in found[Gate.PLAN].body
    assert "goes on with `toggle` (you are asked again before it);" in found[Gate.PLAN].options[0].does
    assert "goes on with `toggle`;" in found[Gate.TOGGLE].options[0].does


def test_u09_a_pause_counts_members_and_not_replacements() -> None:
    """Three members that are replaced twice are no six."""
    body = briefs(make_bench(), Until.RETIRE)[Gate.PLAN].body
    assert "**Pause**: 3 members are replaced (6 replacements in all), and" in body
    assert "**Pause**: 1 member is replaced, and" in briefs(make_bench(), Until.CANARY)[Gate.PLAN].body


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (StageName.ROLL, "`toggle` comes next (you are asked again before it): set the mode node"),
        (StageName.SOAK, "`finalise` comes next (you are asked again before it): delete the mode node"),
        (StageName.CANARY, "`roll` comes next: replace m2, m3"),
    ],
)
def test_u09_who_accepts_a_doubt_is_told_of_the_next_gate(stage: StageName, said: str) -> None:
    """Going on is no approval of what has a gate of its own."""
    from groupshift.application.brief_text import answers
    from groupshift.application.records import load

    bench = make_bench()
    migration, _ = bench.move(Until.RETIRE)
    found = answers(load(bench.environment(), migration), Gate.REVIEW, stage)
    assert said in found[0].does


def test_u09_an_approval_that_became_void_is_asked_again_for_what_is_left() -> None:
    """The run goes on where it stood; a no leaves what was changed."""
    from groupshift.application.brief_text import answers
    from groupshift.application.records import load
    from groupshift.ports.journal import Entry, EventKind

    bench = make_bench()
    migration = bench.plan()
    app = bench.app()
    token = app.claim(migration, "first")
    app.answer(migration, Gate.PLAN, _yes(app.brief(migration, Gate.PLAN)))
    app.act(migration, StageName.CANARY, token)
    body = {"gate": "plan", "changes": ["members m9: absent is now old"]}
    bench.journal.append(
        Entry(migration=migration, at_ms=1, kind=EventKind.VOIDED, stage=StageName.ROLL, body=body)
    )
    yes, no = answers(load(bench.environment(), migration), Gate.PLAN)
    assert "goes on with `roll`;" in yes.does
    assert "nothing more is changed, and the rollback stays open" in no.does
    assert f"groupshift roll-back {migration}" in no.does


@pytest.mark.parametrize("move", ["downgrade", "expansion"])
def test_u09_a_no_to_the_plan_of_a_cluster_run_closes_it_and_a_later_one_does_not(move: str) -> None:
    """There is nothing to take back of the former; the latter says how."""
    from groupshift.application.brief_text import run_text
    from groupshift.domain.step import RunAct, RunStep

    plan = RunStep(key="01 approve plan", act=RunAct.APPROVE, subject="plan", does="approve the plan")
    later = RunStep(key="03 approve", act=RunAct.APPROVE, subject="forward-only", does="approve the rest")
    text = run_text(move, (plan, later), None)
    assert "- **Reject**: nothing was changed and the run ends; another plan may begin." in text
    assert f"groupshift {move} back" not in text
    assert f"the run stays open: `groupshift {move} back --execute` undoes it." in run_text(
        move, (later,), None
    )


def _before_canary(bench: Bench, findings: list[dict[str, str]] | None) -> GateBrief:
    """The review of a canary that did not act, judged as told; None: nothing was measured."""
    from groupshift.ports.journal import Entry, EventKind

    migration = bench.plan(until=Until.TOGGLE)
    app = bench.app()
    app.claim(migration, "first")
    app.answer(migration, Gate.PLAN, _yes(app.brief(migration, Gate.PLAN)))
    if findings is None:
        app.snapshot(migration, "canary", "before")
        app.judge(migration, "canary", "before")
    else:
        judged = {"moment": "before", "verdict": "inconclusive", "findings": findings}
        bench.journal.append(
            Entry(migration=migration, at_ms=1, kind=EventKind.JUDGED, stage=StageName.CANARY, body=judged)
        )
    return app.brief(migration, Gate.REVIEW, "canary")


DOUBT = {"rule": "V09", "verdict": "inconclusive", "reason": "m2 was not seen", "hint": ""}


@pytest.mark.parametrize(
    ("findings", "labels"), [([DOUBT], ["Go on", "Stop here"]), (None, ["Stop here"])], ids=["doubt", "error"]
)
def test_u09_a_doubt_before_anything_was_changed_offers_nothing_to_take_back(
    findings: list[dict[str, str]] | None, labels: list[str]
) -> None:
    """Rolling back and stopping would do the same; the run is closed then and no rollback stays open."""
    brief = _before_canary(make_bench(), findings)
    assert [each.label for each in brief.options] == labels
    assert "- **Stop here**: nothing was changed; the run ends red." in brief.body
    assert "roll-back" not in brief.body


def test_u09_who_accepts_a_doubt_is_told_the_pause_of_what_comes_next() -> None:
    """Going on lets the next stages happen, up to the next gate."""
    brief = _before_canary(make_bench(), [DOUBT])
    assert "**Pause**, if you go on: 3 members are replaced, and each time" in brief.body
    bench = make_bench()
    migration, _ = bench.move(Until.RETIRE)
    app = bench.app()
    roll = app.brief(migration, Gate.REVIEW, "roll").body
    assert "**Pause**, if you go on: no member is replaced" in roll
    toggled = app.brief(migration, Gate.REVIEW, "toggle").body
    assert "**Pause**, if you go on: 3 members are replaced, and each time" in toggled


def test_u09_who_toggles_is_told_the_pause_of_the_members_that_are_replaced_behind_it() -> None:
    """Nobody is asked again before they are."""
    body = briefs(make_bench(), Until.RETIRE)[Gate.TOGGLE].body
    assert "**Pause**: one rebalance of the whole group" in body
    assert "Then, in `retire`, 3 members are replaced, and each time" in body
    assert "`retire`, 3" not in briefs(make_bench(), Until.TOGGLE)[Gate.TOGGLE].body


def _judged_canary(bench: Bench, migration: str) -> None:
    from groupshift.ports.journal import Entry, EventKind

    finding = {"rule": "K03", "verdict": "pass", "reason": "the canary commits 95 %", "hint": ""}
    judged = {"moment": "after", "verdict": "pass", "findings": [finding]}
    bench.journal.append(
        Entry(migration=migration, at_ms=1, kind=EventKind.JUDGED, stage=StageName.CANARY, body=judged)
    )


def test_u09_an_approval_that_is_asked_again_says_places_pause_and_the_canarys_measurements() -> None:
    """It is the gate that follows the canary then, and as much is approved by it."""
    from groupshift.ports.journal import Entry, EventKind

    bench = make_bench()
    migration = bench.plan()
    app = bench.app()
    token = app.claim(migration, "first")
    app.answer(migration, Gate.PLAN, _yes(app.brief(migration, Gate.PLAN)))
    app.act(migration, StageName.CANARY, token)
    _judged_canary(bench, migration)
    body = {"gate": "plan", "changes": ["members m9: absent is now old"]}
    bench.journal.append(
        Entry(migration=migration, at_ms=1, kind=EventKind.VOIDED, stage=StageName.ROLL, body=body)
    )
    text = app.brief(migration, Gate.PLAN).body
    for said in (
        "the approval of the plan is void",
        "1. `roll`: replace m2, m3",
        "You are asked again before `toggle`",
        "**Pause**: 2 members are replaced",
        "Then: `toggle`, `soak`.",
        "### What the canary measured",
    ):
        assert said in text, text
    assert "`canary`: replace" not in text


def test_u09_who_deploys_the_others_by_hand_sees_what_the_canary_measured() -> None:
    """That question is the one that follows the canary; the canary's own has nothing to show."""
    from groupshift.adapters.drivers.manual import ManualFleet

    bench = make_bench()
    bench.fleet = ManualFleet()  # type: ignore[assignment]
    migration = bench.plan(until=Until.ROLL, driver="manual")
    app = bench.app()
    app.answer(migration, Gate.PLAN, _yes(app.brief(migration, Gate.PLAN)))
    token = app.claim(migration, "first")
    assert "measured" not in app.act(migration, StageName.CANARY, token).instruction
    bench.world.places["m1"].kind = MemberKind.AWARE
    bench.world.tick()
    _judged_canary(bench, migration)
    assert "What the canary measured" in app.act(migration, StageName.ROLL, token).instruction


def test_u09_who_accepts_a_doubt_on_the_way_back_is_told_the_pause_of_what_is_left_of_it() -> None:
    """The mode goes back, then members do; nobody is asked in between."""
    bench = make_bench()
    migration, _ = bench.move(Until.RETIRE)
    bench.roll_back(migration)
    body = bench.app().brief(migration, Gate.REVIEW, "undo_retire").body
    assert "**Pause**, if you go on: one rebalance of the whole group" in body
    assert "owner again. Besides, 3 members are replaced" in body


@pytest.mark.parametrize("to", ["aware", "plain", "vacant", "native"])
def test_u09_an_instruction_does_not_promise_that_nobody_has_to_answer(to: str) -> None:
    """In Airflow it stands above buttons, and the run goes on when *Deployed* was pressed."""
    from groupshift.adapters.drivers.manual import instruction_for
    from groupshift.ports.driver import Change

    for undoes in ((), ("m:roll",)):
        change = Change(
            change_id="m:c",
            group="g",
            slots=("m1",),
            to=MemberKind(to),
            fence="m",
            token=1,
            undoes=undoes,
        )
        text = instruction_for(change)
        assert "by itself" not in text
        assert "Nothing else is needed" not in text
        assert "The run goes on once it has seen" in text


def test_u09_an_instruction_in_the_terminal_says_until_when_the_run_waits() -> None:
    """No button is there: it looks by itself, as long as a stage may take, with the watch of the canary."""
    from groupshift.adapters.drivers.manual import ManualFleet

    bench = make_bench()
    bench.fleet = ManualFleet()  # type: ignore[assignment]
    migration = bench.plan(until=Until.ROLL, driver="manual", canary_watch_s=60)
    runner, told = bench.runner(migration, "first"), []

    class Told(Exception):
        """Enough was seen."""

    def acted(_stage: Any, outcome: Any) -> None:
        told.append(outcome.instruction)
        raise Told

    bench.watcher = SimpleNamespace(acted=acted, stage=print, doing=print, judged=print)  # type: ignore[assignment]
    runner.listener = bench.watcher
    with pytest.raises(Told):
        runner.forward()
    assert told[0].endswith(
        "No answer is needed: the run goes on by itself when it sees that. "
        "After 80 s it judges the group as it is."
    )


def test_u09_who_stops_a_rollback_by_hand_is_told_that_nobody_is_asked_again() -> None:
    """A rollback that was not measured has no other answer; forward the judge asks."""
    from groupshift.application.brief_text import by_hand

    assert "the judge behind it asks what to do" in by_hand("roll", 0)
    back = by_hand("undo_members", 0)
    assert "asks what to do" not in back
    assert "this task ends red, nobody is asked again, and the rollback stays open." in back


def test_u09_a_gate_in_the_terminal_names_the_commands_where_a_page_has_links() -> None:
    """Where it stands, and every check; a page has both as links."""
    bench = make_bench()
    migration = bench.plan()
    shown = bench.app().brief(migration, Gate.PLAN).body
    assert f"`groupshift report {migration}`" in shown
    assert f"`groupshift status {migration}`" in shown
    from groupshift.domain.judgement import GateTerms

    linked = bench.app().brief(migration, Gate.PLAN, terms=GateTerms(links=(("Report", "/r"),))).body
    assert "[Report](/r)" in linked
    assert "groupshift report" not in linked


def test_u09_a_downgrade_says_how_many_nodes_this_approval_lets_be_replaced() -> None:
    """Not every node where only brokers are, and none before the next question."""
    from groupshift.application.brief_text import run_text
    from groupshift.domain.step import RunAct, RunStep

    plan = RunStep(key="01 approve plan", act=RunAct.APPROVE, subject="plan", does="approve the plan")
    nodes = tuple(
        RunStep(key=f"0{n} replace {n}", act=RunAct.REPLACE, subject=str(n), does=f"replace node {n}")
        for n in (4, 5)
    )
    asks = RunStep(key="06 approve", act=RunAct.APPROVE, subject="forward-only", does="approve the rest")
    pause = "**Pause**: 2 nodes are replaced, one after the other; groups look for another coordinator"
    assert pause in run_text("downgrade", (plan, *nodes), None)
    assert pause.replace("2 nodes are replaced, one after the other", "1 node is replaced") in run_text(
        "downgrade", (plan, nodes[0]), None
    )
    first = run_text("downgrade", (plan, asks, *nodes), None)
    assert "**Pause**: no node is replaced before you are asked again" in first
    assert "every node" not in first
    assert "goes on with the 1 step above" in run_text("downgrade", (plan, nodes[0]), None)


def _planned() -> Any:
    """A run of this move that may begin, over a simulated cluster."""
    from groupshift.application import expansion_run
    from groupshift.log.releases import Coordinator
    from support.simulated_expansion import committed
    from support.simulated_expansion import tools_of as expansion_tools

    return expansion_run.plan_run(expansion_tools(committed(Coordinator.OLD)), 8)


@pytest.mark.parametrize("move", ["expansion"])
def test_the_gates_of_a_run_that_changes_a_cluster_count_its_checks(move: str) -> None:
    """The rules that were asked for the plan, what did not pass in full; later what is done, too."""
    from groupshift.application.brief_text import run_text
    from groupshift.domain.step import RunAct

    planned = _planned()
    made = [each for each in planned.findings if each.asked]
    bad = [each for each in made if each.verdict is not Verdict.PASS]
    assert planned.possible
    steps = planned.plan.steps
    text = run_text(move, steps, None)
    assert f"### Checks\n\n{len(made) - len(bad)} of {len(made)} checks passed" in text
    assert all(f"| {each.rule} |" in text for each in bad)
    assert ("None of these keeps the run from beginning" in text) == bool(bad)
    assert "steps before this question" not in text
    at = next(n for n, each in enumerate(steps) if each.act is RunAct.COMPARE) + 1
    later = run_text(move, steps[at:], None, done=steps[:at])
    assert f"{len(made) - len(bad)} of {len(made)} checks passed" in later
    assert f"{at} of {at} steps before this question are read back; compared or proven" in later
    assert f"`{steps[at - 1].key}`" in later
