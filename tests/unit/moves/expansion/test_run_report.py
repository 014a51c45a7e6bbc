"""The page of an expansion, from runs in a simulated cluster on the engine."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.move import Run
from groupshift.errors import Conflict, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion import report
from groupshift.moves.expansion.ports import ExpansionPorts
from groupshift.moves.expansion.report import UNKNOWN, count_lanes
from groupshift.ports.spark_jobs import Compared
from groupshift.report.page import Headline
from groupshift.report.run_history import History, decisions, headline_of, history_of
from groupshift.report.run_page import closed_reader, document_of
from support.driven_expansion import BOTH, MOVING, accepting, begun, killed
from support.driven_moves import Comparisons, Driver, answered, where
from support.simulated_expansion import committed, driver_of

EVIL = "<script>alert(1)</script>"


def reader(driver: Driver, run: str) -> Run[ExpansionPorts]:
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


def typed(found: Headline) -> list[object]:
    """The commands that it names."""
    return [each[1] for each in found.now]


@BOTH
def test_a_run_that_is_over_says_so_and_shows_every_part(kind: Coordinator) -> None:
    """Counts of each broker over time, comparisons, groups that moved, steps, who approved."""
    driver = driver_of(committed(kind))
    run = begun(driver)
    assert where(driver.go_on(run, decide=answered(Choice.APPROVE, "alice")))[0] == "finalised"
    found = top(driver, run)
    assert (found.verdict, found.word) == (Verdict.PASS, "finalised")
    assert "has 8 partitions now, from 5, and every broker counts them" in found.sentence
    assert f"{len(MOVING)} offsets were committed again and read back; 2 comparisons" in found.sentence
    assert typed(found) == ["", f"groupshift watch {run}", f"groupshift verify-evidence {run}"]
    lanes = count_lanes(told(driver, run))
    assert list(dict.fromkeys(each.node for each in lanes)) == ["2", "3", "1"]
    assert [(each.ran, each.changing) for each in lanes if each.node == "2"] == [
        ("5", False), ("8", True), ("8", False),
    ]  # fmt: skip
    assert [who for _, _, who, _ in decisions(told(driver, run))] == ["alice"]
    text = page(driver, run)
    for part in ("broker 2", "broker 2 changes to 8", "no problem and no difference", "approved", MOVING[0]):
        assert part in text, part
    assert "Steps there" in text
    assert "Steps back" not in text
    assert "<script" not in text


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (("EX06",), "; EX06: time of the commit was not compared: not known."),
        (("EX06", "EX07"), "; 2 fields were not compared (they are named below)."),
    ],
)
def test_a_field_that_was_not_compared_is_said_and_decides_nothing(
    rules: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the verdict of a comparison has it: both are equal, and the page says what they did not look at."""
    driver = driver_of(committed(Coordinator.OLD))
    reason = "time of the commit was not compared: not known"
    lacking = [Finding(rule=each, verdict=Verdict.INCONCLUSIVE, reason=reason) for each in rules]
    read = driver.comparisons.read

    def left(output: Path) -> Compared | None:
        found = read(output)
        equal = Finding(rule="EX03", verdict=Verdict.PASS, reason="committed offset: equal")
        return found and replace(found, findings=(equal, *lacking))

    monkeypatch.setattr(Comparisons, "read", lambda _, output: left(output))
    run = begun(driver)
    assert where(driver.go_on(run, decide=answered(Choice.APPROVE, "alice")))[0] == "finalised"
    said = top(driver, run).sentence
    assert "2 comparisons of 24 groups found nothing lost and no offset changed" in said
    assert said.endswith(says)
    text = re.sub(r"<[^>]*>|\s{2,}", "", page(driver, run))
    assert "comparisons equal2 of 2" in text
    assert all(f"{each}: {reason}" in text for each in rules)


def test_one_that_waits_for_members_and_ended_changed_nothing() -> None:
    """What to type begins another one, with its count; names of groups are text."""
    world = committed(Coordinator.NEW)
    assert world.commit_as_client(EVIL, 1, 1)
    world.members = {EVIL}
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run, patience_s=5.0))[0] == "waiting"
    found = top(driver, run)
    assert found.word == "nothing changed"
    assert f"members are in 1 group: {EVIL}" in found.sentence
    assert found.now == (("To plan it again:", "groupshift expansion run --to 8"),)
    text = page(driver, run)
    assert EVIL not in text
    assert "alert(1)" in text


def test_a_stop_before_partitions_are_made_offers_both_ways_and_the_rollback_is_told() -> None:
    """Deleted, then taken back: what was committed again, and that clients may start."""
    driver = driver_of(committed(Coordinator.OLD))
    run = begun(driver)
    killed(driver, run, "create-partitions")
    found = top(driver, run)
    assert (found.verdict, found.word) == (Verdict.INCONCLUSIVE, "under way")
    go_on, back = f"groupshift continue {run} --execute", f"groupshift roll-back {run} --execute"
    assert typed(found) == ["", go_on, back]
    assert found.now[0][0] == "No client may start before it is done, or taken back."
    assert driver.roll_back(run)
    going = top(driver, run)
    assert (going.word, going.now[0][1]) == ("not back yet", go_on)
    assert where(driver.go_on(run))[0] == "rolled_back"
    over = top(driver, run)
    assert (over.verdict, over.word) == (Verdict.PASS, "rolled back")
    assert "to 8 partitions was taken back: what was deleted is committed again" in over.sentence
    assert f"{len(MOVING)} offsets were committed again and read back" in over.sentence
    assert over.now[0] == ("Clients may start: every group is where it was.", "")
    assert "Steps back" in page(driver, run)


def test_after_partitions_are_made_there_is_only_the_way_forward() -> None:
    """A broker that does not come up: which one, and no word of a rollback."""
    world = committed(Coordinator.OLD)
    world.dies = {3}
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run, patience_s=5.0)) == ("failed", "restart 3")
    found = top(driver, run)
    assert (found.verdict, found.word) == (Verdict.FAIL, "stopped")
    assert (
        "restart 3; 1 of 3 brokers are restarted. It stopped there: broker 3 does not run" in found.sentence
    )
    ((said, command),) = found.now
    assert said == "No client may start yet, and there is only the way forward; once the cause is cured:"
    assert command == f"groupshift continue {run} --execute"
    lanes = [(e.ran, e.changing) for e in count_lanes(told(driver, run)) if e.node == "3"]
    assert lanes == [("5", False), (UNKNOWN, True)]


def test_what_somebody_accepted_is_no_success() -> None:
    """An offset that could not be committed: the first line says so, and who let it go on."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "restore")
    world.uncommitted = {MOVING[0]: "TOPIC_AUTHORIZATION_FAILED (29)"}
    driver.go_on(run, patience_s=5.0)
    stopped = top(driver, run)
    assert (stopped.verdict, stopped.word) == (Verdict.FAIL, "stopped")
    assert f"{MOVING[0]!r}" in stopped.sentence
    accepting(driver, run)
    history = told(driver, run)
    assert {each.who for each in history.accepted} == {"bob"}
    assert history.accepted[0].step.kind == "restore"
    found = top(driver, run)
    assert (found.verdict, found.word) == (Verdict.FAIL, "finalised")
    assert "every broker counts them. But not all is as it has to be: offsets are not as in" in found.sentence
    assert "TOPIC_AUTHORIZATION_FAILED (29)" in found.sentence
    assert "(accepted by bob)" in found.sentence
    assert str(found.now[0][0]).startswith("Correct what differs before its clients start")
    assert "go on although offsets are not as in snapshot S: " in page(driver, run)


def test_one_that_was_taken_back_before_it_changed_anything_says_so() -> None:
    """Nothing was deleted, nothing was compared."""
    driver = driver_of(committed(Coordinator.NEW))
    run = begun(driver)
    killed(driver, run, "agree")
    if driver.roll_back(run):
        driver.go_on(run)
    found = top(driver, run)
    assert found.word in {"nothing changed", "rolled back"}
    assert "nothing was changed" in f"{found.sentence} {found.word}".replace("anything", "nothing")


def test_where_only_the_rollback_helps_it_is_offered_with_the_reason() -> None:
    """A group that moves committed after the deletion: partitions are not made, and the journal says why."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "create-partitions")
    asked = next(node for node in world.world.brokers if world.world.serves(node, MOVING[0]))
    assert world.commit_as_client(MOVING[0], 999, asked)
    with suppress(Conflict):
        driver.go_on(run, patience_s=5.0)
    found = top(driver, run)
    assert (found.verdict, found.word) == (Verdict.FAIL, "stopped")
    assert typed(found) == [
        "", f"groupshift roll-back {run} --execute", f"groupshift continue {run} --execute",
    ]  # fmt: skip


def test_an_audit_that_was_accepted_asks_for_that_first() -> None:
    """Partitions were made by somebody else, and the run was taken back: the next restart would lose offsets,
    which the page says, with the rule."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "create-partitions")
    world.world.expand(7)
    assert driver.roll_back(run)
    driver.go_on(run, patience_s=5.0)
    accepting(driver, run, "rolled_back")
    history, found = told(driver, run), top(driver, run)
    assert (found.verdict, [each.step.kind for each in history.accepted]) == (Verdict.FAIL, ["audit"])
    assert "stays at" not in found.sentence
    assert "X04" in found.sentence or "brokers count 5" in found.sentence
    first = ("Restart no broker and start no client before this is clean:", "groupshift audit placement")
    assert found.now[0] == first


def test_of_several_things_that_were_accepted_each_is_to_be_cured() -> None:
    """Partitions of somebody else, and an offset that nobody may commit: the log first, then the offset."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "create-partitions")
    world.world.expand(7)
    world.uncommitted = {MOVING[0]: "TOPIC_AUTHORIZATION_FAILED (29)"}
    assert driver.roll_back(run)
    driver.go_on(run, patience_s=5.0)
    accepting(driver, run, "rolled_back")
    assert {each.step.kind for each in told(driver, run).accepted} >= {"restore", "audit"}
    log, offset, check = top(driver, run).now
    assert log == (
        "Restart no broker and start no client before this is clean:",
        "groupshift audit placement",
    )
    assert str(offset[0]).startswith("Correct what differs before its clients start")
    assert check[1] == f"groupshift verify-evidence {run}"


def test_a_snapshot_with_problems_is_the_reason() -> None:
    """A group did not answer."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "snapshot S")
    world.silent = {MOVING[1]}
    driver.go_on(run, patience_s=5.0)
    found = top(driver, run)
    assert (found.verdict, found.word) == (Verdict.FAIL, "nothing changed")
    assert "snapshot S has problems: loading" in found.sentence


def test_an_error_in_an_act_is_told_and_gone_with_the_next_process() -> None:
    """A group does not answer while offsets are restored: the page says so; a process that has the run since
    is not told to have stopped."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "restore")
    world.silent = {MOVING[0]}
    with pytest.raises(Transient):
        driver.go_on(run, patience_s=5.0)
    assert "It stopped there: " in top(driver, run).sentence
    assert "offsets committed again" in page(driver, run)
    world.silent = set()
    claimed = driver.claim(run)
    assert "It stopped there" not in top(driver, run).sentence
    assert claimed.name == run
    assert where(driver.go_on(run))[0] == "finalised"
    assert top(driver, run).word == "finalised"
