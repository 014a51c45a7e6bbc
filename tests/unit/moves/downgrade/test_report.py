"""The page of a downgrade, from runs in a simulated cluster on the engine."""

from __future__ import annotations

from dataclasses import replace

from groupshift.domain.group_protocol import Kind
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine.move import Run
from groupshift.moves.downgrade import report
from groupshift.moves.downgrade.facts import DowngradePorts, DowngradeRequest
from groupshift.report.page import Headline
from groupshift.report.run_history import History, comparisons_of, headline_of, history_of
from groupshift.report.run_page import closed_reader, document_of
from support.driven_moves import Driver, declines, where
from support.simulated_downgrade import Group, World, driver_of, one_of_39, two_of_43

EVIL = "<script>alert(1)</script>"
TO_39 = DowngradeRequest(to="3.9.2", from_="4.3.1")


def reader(driver: Driver, run: str) -> Run[DowngradePorts]:
    """The run, for reading."""
    return closed_reader(driver.move, driver.runs, driver.clock, run)


def told(driver: Driver, run: str) -> History:
    """What the journal tells of it."""
    return history_of(reader(driver, run))


def top(driver: Driver, run: str) -> Headline:
    """Its first lines."""
    history = told(driver, run)
    found = report.page(reader(driver, run), history, None)
    return headline_of(history, found.sentence, found.now)


def page(driver: Driver, run: str) -> str:
    """Its whole page."""
    return document_of(reader(driver, run), None)


def lost(world: World) -> tuple[Driver, str]:
    """A run that stopped because a group was lost."""
    world.lose = {"simple"}
    driver = driver_of(world)
    run = driver.begin(TO_39).run
    assert where(driver.go_on(run, patience_s=4.0))[0] == "failed"
    return driver, run


def test_a_run_that_is_over_says_so_and_shows_every_part() -> None:
    """Steps, comparisons, releases of both nodes, who approved; what to do next is to check it."""
    driver = driver_of(two_of_43())
    run = driver.begin(TO_39).run
    assert where(driver.go_on(run))[0] == "moved"
    found = top(driver, run)
    assert (found.verdict, found.word) == (Verdict.PASS, "moved")
    assert "run 3.9.2 now, from 4.3.1" in found.sentence
    assert "comparisons of" in found.sentence
    assert found.now[1][1] == f"groupshift verify-evidence {run}"
    text = page(driver, run)
    for part in (
        "node 1",
        "node 2",
        "lower group.version",
        "no problem and no difference",
        "approved",
        "Hazards",
        "records of the offsets topic were replayed as 3.9.2 would",
        "things were met when it was planned",
    ):
        assert part in text, part
    assert "<script" not in text
    assert "Steps back" not in text


def test_a_difference_is_the_first_thing_that_is_said_and_then_the_rollback() -> None:
    """Stopped in the middle, then taken back: both directions are told."""
    world = two_of_43()
    driver, run = lost(world)
    found = top(driver, run)
    assert (found.verdict, found.word) == (Verdict.FAIL, "stopped")
    assert "1 of 2 nodes run 3.9.2" in found.sentence
    assert "group simple: lost" in found.sentence
    assert found.now[0][1] == f"groupshift roll-back {run} --execute"
    assert "Steps back" not in page(driver, run)

    world.groups["simple"], world.lose = Group(kind=Kind.CLASSIC, offset=7), set()
    assert driver.roll_back(run)
    assert (top(driver, run).word, top(driver, run).now[0][1]) == (
        "not back yet",
        f"groupshift continue {run} --execute",
    )
    assert where(driver.go_on(run))[0] == "rolled_back"
    assert (top(driver, run).verdict, top(driver, run).word) == (Verdict.PASS, "rolled back")
    assert "Steps back" in page(driver, run)
    ran = [e.ran for e in report.releases(told(driver, run)) if e.node == "2" and not e.changing]
    assert ran == ["4.3.1", "3.9.2", "4.3.1"]


def test_groups_of_a_comparison_that_found_a_difference_are_not_said_to_be_equal() -> None:
    """Only those of the comparisons that found nothing are counted in the sentence."""
    world = two_of_43()
    driver, run = lost(world)
    world.groups["simple"], world.lose = Group(kind=Kind.CLASSIC, offset=7), set()
    driver.roll_back(run)
    assert where(driver.go_on(run))[0] == "rolled_back"
    history = told(driver, run)
    groups = max(each.groups or 0 for each in comparisons_of(history) if each.verdict is Verdict.PASS)
    (differing,) = (
        each.made.step.subject for each in comparisons_of(history) if each.verdict is Verdict.FAIL
    )
    for each in history.there:
        if (each.step.kind, each.step.subject) == ("compare", differing):
            each.record.result["groups"] = groups + 90  # type: ignore[union-attr, index]
    assert f"comparisons of {groups} groups" in report.page(reader(driver, run), history, None).sentence


def test_u15_a_downgrade_that_was_taken_back_says_which_groups_stay_classic() -> None:
    """Nothing turns their protocol back by itself; the command that does is offered first."""
    world = two_of_43()
    driver, run = lost(world)
    world.groups["simple"], world.lose = Group(kind=Kind.CLASSIC, offset=7), set()
    driver.roll_back(run)
    assert where(driver.go_on(run))[0] == "rolled_back"
    (said, command), *_ = top(driver, run).now
    assert "groups stay on the classic protocol: left." in said
    assert command == "groupshift protocol run --group left --to consumer"


def test_a_difference_that_somebody_accepted_is_no_success() -> None:
    """The rollback went on by a person's word: the first line says what is lost and who said so."""
    driver, run = lost(two_of_43())
    driver.roll_back(run)
    stopped = driver.go_on(run, patience_s=4.0)
    assert where(stopped)[0] != "rolled_back"
    driver.go_on(run, patience_s=4.0, accept=stopped.step.key, who="alice")  # type: ignore[union-attr]
    found, history = top(driver, run), told(driver, run)
    assert history.state is RunState.ROLLED_BACK
    assert (found.verdict, found.word) == (Verdict.FAIL, "rolled back")
    assert "group simple: lost" in found.sentence
    assert "(accepted by alice)" in found.sentence
    assert "nothing lost" not in found.sentence
    assert "C0" in found.now[0][0]
    assert "go on although snapshot D is not equal to C0" in page(driver, run)
    moved = replace(history, record=replace(history.record, state=RunState.MOVED))
    sentence = report.page(reader(driver, run), moved, None).sentence
    assert "run 3.9.2 now, from 4.3.1. But not all is as it has to be: snapshot D is not equal" in sentence
    assert "group simple: lost" in sentence


def test_a_node_that_is_being_replaced_is_shown_so_until_now() -> None:
    """It does not come up: no release is claimed after that."""
    world = two_of_43()
    world.dies = {2}
    driver = driver_of(world)
    run = driver.begin(TO_39).run
    assert where(driver.go_on(run))[0] == "failed"
    lanes = report.releases(told(driver, run))
    assert [(each.ran, each.changing) for each in lanes if each.node == "2"] == [
        ("4.3.1", False),
        ("3.9.2", True),
    ]
    assert [(each.ran, each.changing) for each in lanes if each.node == "1"] == [("4.3.1", False)]


def test_what_was_not_approved_changed_nothing() -> None:
    """Nobody is told to take anything back; names of people are text."""
    driver = driver_of(two_of_43())
    run = driver.begin(TO_39).run

    def no(question: object) -> object:
        answer = declines(question)  # type: ignore[arg-type]
        return replace(answer, who=EVIL) if answer else None

    driver.go_on(run, decide=no)
    found = top(driver, run)
    assert (found.word, driver.runs.find(run).state) == ("nothing changed", RunState.REJECTED)
    assert found.now == (("To plan it again:", "groupshift downgrade run --to 3.9.2 --from 4.3.1"),)
    text = page(driver, run)
    assert "refused" in text
    assert EVIL not in text
    assert "&lt;script&gt;" in text


def test_compaction_and_its_own_approval_are_told() -> None:
    """From 3.9.2 to 3.4.0."""
    driver = driver_of(one_of_39())
    run = driver.begin(DowngradeRequest(to="3.4.0", from_="3.9.2")).run
    assert where(driver.go_on(run))[0] == "moved"
    text = page(driver, run)
    assert "approve compacting" in text
    assert "records of the offsets topic were replayed as 3.4.0 would" in text
