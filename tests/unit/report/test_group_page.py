"""The page of a run of one group: says what matters first, escapes everything, stays small."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from groupshift.cli.output_and_next_command import findings_table
from groupshift.cli.terminal import Console
from groupshift.domain.ownership_history import KnownBy, Observation, OwnershipInterval
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.run import RunState, findings_data, findings_from
from groupshift.domain.verdict import Finding, Verdict, counted
from groupshift.engine.move import Run
from groupshift.moves.protocol import report as protocol
from groupshift.ports.evidence import Delivered
from groupshift.ports.runs import Event, EventKind
from groupshift.report import group_page
from groupshift.report.group_history import Compared, GroupHistory, group_history_of
from groupshift.report.kept_evidence import Kept, kept_of
from groupshift.report.page import Headline, Page, render
from groupshift.report.pictures import nice
from groupshift.report.run_history import History, history_of
from groupshift.report.run_page import closed_reader, document_of
from groupshift.report.svg_and_time_axis import LEFT, axis_of
from support.coordination_runs import CoordinationProcesses, make_coordination

EVIL = "<script>alert('x')</script>\"onload="
AT = 1_763_740_000_000
CARDS = ("records lost", "delivered again", "without owner at most", "longest pause of a partition")


@pytest.fixture(scope="module")
def moved() -> tuple[CoordinationProcesses, str]:
    """A simulated move until the toggle."""
    group = make_coordination()
    group.seals = False
    run = group.begin(canary_watch=60, soak=2)
    group.drive(run)
    return group, run


def kept(moved: tuple[CoordinationProcesses, str]) -> Kept:
    """What is kept of it."""
    processes, run = moved
    return kept_of(processes.evidence, processes.runs, run)


def reader(moved: tuple[CoordinationProcesses, str]) -> Run[Any]:
    """The run, for reading."""
    processes, run = moved
    return closed_reader(processes.move, processes.runs, processes.clock, run)


def page(moved: tuple[CoordinationProcesses, str]) -> str:
    """Its whole page."""
    return document_of(reader(moved), kept(moved))


@pytest.fixture
def group(moved: tuple[CoordinationProcesses, str]) -> GroupHistory:
    """What its page is made of."""
    return group_history_of(history_of(reader(moved)), kept(moved))


def parts(group: GroupHistory, now: Callable[[GroupHistory], tuple[str, Any]] = group_page.mode_now) -> str:
    """The move's own parts, as HTML."""
    made = Page(
        title=f"Group {group.group}",
        top=Headline(verdict=Verdict.PASS, sentence=group_page.sentence(group, "reached")),
        lead="",
        sections=group_page.sections_of_group(group, now(group)),
    )
    return render(made)


def as_it_is(group: GroupHistory, state: RunState, verdict: str, **events: Any) -> GroupHistory:
    """The same run in another state."""
    history = group.history
    status = replace(history.status, state=state.value, verdict=verdict)
    return replace(
        group,
        history=replace(history, record=replace(history.record, state=state), status=status, **events),
    )


def ended_with(group: GroupHistory, **words: str) -> GroupHistory:
    """The same run with other words of its end."""
    history = group.history
    return replace(group, history=replace(history, status=replace(history.status, **words)))


def test_the_first_sentence_says_what_became_of_the_group(moved: tuple[CoordinationProcesses, str]) -> None:
    """Moved, by how much proven, and the command that takes it back."""
    text, run = page(moved), moved[1]
    top = text[: text.index("At a glance")]
    assert "Group orders-app was moved: Kafka coordinates the group" in top
    assert "findings of 8 judgements passed" in top
    assert f"groupshift roll-back {run}" in top
    assert f"groupshift verify-evidence {run}" in top
    assert moved[0].runs.find(run).plan_hash in text


def test_the_page_needs_nothing_but_itself(moved: tuple[CoordinationProcesses, str]) -> None:
    """No script, no address, style for light, dark and paper, a language, a title, heads of tables."""
    text = page(moved)
    assert not re.search(r"<script|src=|href=|url\(|@import|://", text)
    for part in ("prefers-color-scheme: dark", "@media print", 'lang="en"', "<title>", 'scope="col"'):
        assert part in text
    assert text.count('role="img"') == text.count("aria-labelledby=") == 3
    assert text.count("<desc") == 3


def test_phases_gates_verdicts_and_modes_are_in_the_picture(moved: tuple[CoordinationProcesses, str]) -> None:
    """Each phase has a lane, each answer a number, each write of the mode node a mark."""
    text = page(moved)
    svg = text[text.index('id="run-title"') : text.index("At a glance") and text.index("<h2>Findings")]
    for phase in ("canary", "roll", "toggle", "soak"):
        assert f">{phase}<" in svg
    assert "mode kafka" in svg
    assert svg.count('class="gate yes"') == 2
    assert "toggle/approve: approve by bob" in svg
    assert svg.count('class="dot pass"') == 8
    assert "Who decided" in text
    assert "approve the toggle" in text


def test_without_ledger_and_audit_owners_are_drawn_as_they_were_seen(group: GroupHistory) -> None:
    """The source is said, and the lag is drawn at every observation."""
    assert group.known_by is KnownBy.OBSERVATIONS
    assert len(group.observations) > 8
    text = parts(group)
    assert "what happened between two looks was" in text
    assert text.count('class="mark"') == len(group.observations)


def hostile(group: GroupHistory) -> GroupHistory:
    """Hostile text wherever a person, a server or a member can put it."""
    finding = Finding(rule="V01", verdict=Verdict.FAIL, reason=EVIL, hint=EVIL)
    row = {"table": "offsets", "class": EVIL, "subject": EVIL, "before": EVIL, "after": None}
    compared = Compared(
        phase="canary",
        moment="after",
        verdict=Verdict.FAIL,
        findings=(finding,),
        counts={"lost": 1},
        refused=(row,),
    )
    at = TopicPartition(EVIL, 0)
    step = group.history.there[0].step.key
    body = {"choice": "approve", "who": EVIL, "fingerprint": "f"}
    event = Event(seq=999, at_ms=AT, token=1, kind=EventKind.GATE_ANSWERED, step=step, body=body)
    history = group.history
    changed = as_it_is(group, RunState.ROLLED_BACK, "fail", events=(*history.events, event))
    status = replace(changed.history.status, reason=EVIL)
    return replace(
        changed,
        history=replace(changed.history, status=status),
        group=EVIL,
        compared=(compared,),
        members={EVIL: EVIL},
        modes=((AT, EVIL),),
        intervals=(OwnershipInterval(partition=at, member=EVIL, start_ms=AT, end_ms=AT + 5),),
        audit={"lost": EVIL},
    )


def test_no_text_from_outside_becomes_markup(group: GroupHistory) -> None:
    """Names of groups, members and topics, metadata, answers and reasons stay text."""
    text = parts(hostile(group))
    assert "<script" not in text
    assert '"onload=' not in text
    assert text.count("&lt;script&gt;") > 12


def test_an_empty_journal_is_a_page_too(group: GroupHistory) -> None:
    """A plan that nobody ran: nothing is drawn that was not there, nothing is claimed."""
    planned = as_it_is(group, RunState.PLANNED, "", events=(), there=())
    planned = replace(
        planned, history=replace(planned.history, status=replace(planned.history.status, reason=""))
    )
    empty = replace(planned, modes=(), observations=(), intervals=(), members={}, compared=())
    text = parts(empty)
    for part in ("Nothing was changed.", "No owner was ever seen", "The lag was never measured"):
        assert part in text
    assert "passed; no committed offset" not in text


def test_a_huge_run_stays_small(group: GroupHistory) -> None:
    """200 partitions with 1,000 hand-overs each: less than 5 MB, and every partition has a lane."""
    intervals = tuple(
        OwnershipInterval(
            partition=TopicPartition("orders", partition),
            member=f"orders-app_m{turn % 40}-1",
            start_ms=AT + turn * 3600,
            end_ms=AT + turn * 3600 + 3500,
            unowned_ms=100,
        )
        for partition in range(200)
        for turn in range(1001)
    )
    last = Event(seq=1, at_ms=AT + 3_600_000, token=0, kind=EventKind.KEPT, body={})
    history = replace(group.history, events=(replace(last, at_ms=AT), last))
    history = replace(history, record=replace(history.record, created_at_ms=AT))
    huge = replace(
        group,
        history=history,
        observations=(),
        intervals=intervals,
        known_by=KnownBy.LOG,
        members={},
        modes=(),
    )
    text = parts(huge)
    assert len(text.encode()) < 5_000_000
    assert "orders-199" in text
    assert "200 partitions and 40 members; 200000 hand-overs" in text


@pytest.mark.parametrize(
    ("state", "verdict", "command"),
    [
        (RunState.MOVED, "pass", "roll-back"),
        (RunState.MOVED, "inconclusive", "roll-back"),
        (RunState.ROLLING_BACK, "", "continue"),
        (RunState.ROLLED_BACK, "fail", "coordination assess --group"),
        (RunState.ROLLED_BACK, "pass", "verify-evidence"),
        (RunState.RUNNING, "", "continue"),
        (RunState.PLANNED, "", "continue"),
        (RunState.REJECTED, "fail", "coordination run --group"),
        (RunState.FINALISED, "pass", "verify-evidence"),
    ],
)
def test_every_state_says_what_to_do_now(
    group: GroupHistory, state: RunState, verdict: str, command: str
) -> None:
    """One sentence that ends, and a command that fits."""
    told = as_it_is(group, state, verdict)
    assert group_page.sentence(told, "reached").endswith(".")
    now = group_page.to_do(told, "coordination VERB --group orders-app")
    assert any(command in typed for _, typed in now)


@pytest.mark.parametrize("state", [RunState.PLANNED, RunState.APPROVED])
@pytest.mark.parametrize("trouble", ["", "nobody answers"])
def test_a_run_that_changed_nothing_offers_no_rollback(
    group: GroupHistory, state: RunState, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stopped it: there is only the way to run it."""
    planned = as_it_is(group, state, "")
    monkeypatch.setattr(type(planned.history), "trouble", trouble)
    ((said, typed),) = group_page.to_do(planned, "coordination VERB --group orders-app")
    assert said.lower().endswith("to run it:")
    assert " continue " in typed


def test_what_a_rollback_left_in_kafka_is_offered_to_be_removed(group: GroupHistory) -> None:
    """The command that the run ended with; where nothing stays, nothing has to be done."""
    back = as_it_is(group, RunState.ROLLED_BACK, "pass")
    left = replace(
        back, history=replace(back.history, status=replace(back.history.status, following="remove it"))
    )
    (said, typed), *_ = group_page.to_do(left, "VERB")
    assert (said.endswith("To remove what stays in Kafka:"), typed) == (True, "remove it")
    none = ended_with(back, following="groupshift report x")
    assert group_page.to_do(none, "VERB")[0][0].startswith("Nothing has to be done now")


def test_a_long_wait_is_cut_out_of_the_axis() -> None:
    """A night at a gate does not squeeze what happened before and after it into one pixel."""
    night = 8 * 3600_000
    axis = axis_of([AT, AT + 30_000, AT + 60_000, AT + 60_000 + night, AT + 120_000 + night])
    assert [piece.cut for piece in axis.pieces] == [False, True, False]
    assert axis.x(AT + 60_000) - LEFT > 300
    assert axis.x(AT + 60_000 + night) - axis.x(AT + 60_000) < 40
    assert axis.x(AT - 5) == LEFT
    assert axis.x(AT + 10 * night) == axis.x(axis.to_ms)


@pytest.mark.parametrize(("value", "top"), [(0, 10), (10, 10), (11, 20), (499, 500), (70_001, 100_000)])
def test_the_lag_axis_ends_at_a_round_number(value: int, top: int) -> None:
    """1, 2 or 5 times a power of ten, at least 10."""
    assert nice(value) == top


def test_lost_offsets_and_refused_rows_are_shown(group: GroupHistory) -> None:
    """By class and by name, with how many more there are."""
    row: dict[str, Any] = {
        "table": "offsets", "class": "lost", "subject": "orders-3 zookeeper", "before": "7", "after": None,
    }  # fmt: skip
    bad = replace(
        group.compared[1],
        verdict=Verdict.FAIL,
        counts={"lost": 12},
        refused=(row,) * 12,
        findings=(Finding(rule="V04", verdict=Verdict.FAIL, reason="orders-3: it is gone", hint="look"),),
    )
    text = parts(replace(group, compared=(bad,)))
    assert "12 committed offsets were lost and 0 went back" in text
    assert "orders-3 zookeeper" in text
    assert "The first 10 of 12; differences.parquet has all." in text
    assert text.index("orders-3: it is gone") < text.index("Owners over time")


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (("native", "native"), "consumer"),
        (("plain", "plain"), "classic"),
        (("plain", "native"), "classic and consumer"),
        ((), "nobody owned a partition"),
    ],
)
def test_a_move_of_the_protocol_tells_the_protocol_and_no_mode(
    group: GroupHistory, kinds: tuple[str, ...], said: str
) -> None:
    """By those who owned partitions at the last look."""
    members = {f"c{number}": kind for number, kind in enumerate(kinds)}
    owners = {TopicPartition("orders", number): (name,) for number, name in enumerate(members)}
    last = Observation(at_ms=group.observations[-1].at_ms, what="look", owners=owners)
    text = parts(
        replace(group, members=members, observations=(*group.observations[:-1], last)),
        group_page.protocol_now,
    )
    assert f"<dt>protocol now</dt><dd>{said}</dd>" in text
    assert "mode now" not in text


def test_a_move_of_the_protocol_is_tried_again_by_its_own_verb(
    group: GroupHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the protocol and the way that were planned."""
    told = as_it_is(group, RunState.REJECTED, "fail")
    about = {"to": "consumer", "way": "offline", "whole": True}
    history: History = replace(told.history, plan=replace(told.history.plan, about=about))
    monkeypatch.setattr(protocol, "report_sections", lambda _run: ())
    run: Any = None
    ((_, typed),) = protocol.page(run, history, None).now
    assert typed == f"groupshift protocol run --group {group.group} --to consumer --offline"


UNASKED = {"rule": "V07", "verdict": Verdict.PASS, "reason": "a snapshot beside itself cannot differ"}


def test_u17_rules_that_were_not_asked_are_counted_apart(group: GroupHistory) -> None:
    """In the first sentence, above the findings, and in their table; none of them counts as passed."""
    passed = Finding(rule="V01", verdict=Verdict.PASS, reason="equal")
    unasked = Finding(**UNASKED, applies=False)
    one = replace(group.compared[0], findings=(passed, passed, unasked), counts={})
    changed = replace(group, compared=(one,))
    text = parts(changed)
    assert "2 of 2 findings of 1 judgements passed, 1 not asked" in group_page.sentence(changed, "there")
    assert "2 of 2 findings passed, 1 not asked." in text
    row = text[text.index("a snapshot beside itself") - 200 : text.index("a snapshot beside itself")]
    assert ">not asked<" in row


@pytest.mark.parametrize(
    ("verdicts", "unasked", "said"),
    [
        ([], 23, "0 of 0 rules passed, 23 not asked"),
        ([Verdict.PASS] * 12, 11, "12 of 12 rules passed, 11 not asked"),
        ([Verdict.PASS, Verdict.FAIL], 1, "1 of 2 rules passed, 1 not asked"),
        ([Verdict.PASS, Verdict.INCONCLUSIVE], 0, "1 of 2 rules passed"),
    ],
)
def test_u17_what_could_not_fail_is_no_success(verdicts: list[Verdict], unasked: int, said: str) -> None:
    """A snapshot held against itself proves nothing; what failed still counts among those asked."""
    asked = [Finding(rule="V01", verdict=each, reason="r") for each in verdicts]
    assert counted([*asked, *[Finding(**UNASKED, applies=False)] * unasked], "rules") == said


def test_u16_without_ledgers_the_cards_are_absent_and_the_command_is_there(group: GroupHistory) -> None:
    """No card says that nothing is known; the page says how to get it, for this group and this time."""
    text = parts(group)
    assert "not audited" not in text
    assert not [card for card in CARDS if f"<dt>{card}</dt>" in text]
    assert "groupshift.jobs.audit_consumption --group orders-app" in text
    history = group.history
    assert f"--from-ms {history.record.created_at_ms} --to-ms {history.ended_ms}" in text
    assert f"groupshift report {history.record.run} --audit" in text


def test_u16_ledgers_that_are_known_are_used(group: GroupHistory) -> None:
    """What was processed twice, the longest pause and what was passed over come from them."""
    told = Delivered(deliveries=1200, again=7, passed_over=3, longest_pause_ms=4100, source="/a b")
    text = parts(replace(group, delivered=told))
    for card, value in (("delivered again", 7), ("offsets passed over", 3), (CARDS[3], "4.10 s")):
        assert f"<dt>{card}</dt><dd>{value}</dd>" in text
    assert "1,200 deliveries" in text
    assert "--ledgers &#39;/a b&#39;" in text
    assert "not audited" not in text


def test_an_audit_counts_more_than_the_ledgers(group: GroupHistory) -> None:
    """It read ZooKeeper's log as well: its figures are the ones shown, and no command is offered."""
    audit = {"lost": 0, "duplicates": 2, "longest_unowned_ms": 900}
    text = parts(replace(group, audit=audit))
    for card, value in (("records lost", 0), ("delivered again", 2), (CARDS[2], "900 ms")):
        assert f"<dt>{card}</dt><dd>{value}</dd>" in text
    assert "audit_consumption --group" not in text


def test_the_rollback_has_its_lanes_and_its_steps(moved: tuple[CoordinationProcesses, str]) -> None:
    """There and back on one page; both writes of the mode node are marked."""
    processes = make_coordination()
    processes.seals = False
    run = processes.begin(soak=1)
    processes.drive(run)
    processes.roll_back(run, holder="back")
    text = page((processes, run))
    assert "is back where it came from" in text
    assert "Steps back" in text
    for part in ("undo toggle", "undo members", "mode kafka", "mode zookeeper"):
        assert part in text


def test_evidence_that_was_altered_is_said_and_not_shown(moved: tuple[CoordinationProcesses, str]) -> None:
    """The banner names the file; its figures are left out."""
    processes, run = moved
    found = kept(moved)
    verdicts = [path for path in found.files if path.endswith("/verdict.json")]
    assert len(verdicts) == 8
    bad = next(path for path in verdicts if "canary" in path)
    found.files = {**found.files, bad: replace(found.files[bad], sha256="0" * 64)}
    text = document_of(reader(moved), found)
    assert f"{bad} was altered after it was journaled; it is not shown" in text
    assert processes.runs.find(run).state is RunState.MOVED


def test_u17_the_journal_and_the_terminal_keep_what_was_not_asked() -> None:
    """Findings without a word about it were asked; the table of the terminal says it in words."""
    unasked = Finding(**UNASKED, applies=False)
    (data,) = findings_data([unasked])
    assert findings_from([data]) == (unasked,)
    del data["applies"]
    assert findings_from([data])[0].applies
    written = io.StringIO()
    Console(file=written, width=200).print(findings_table([unasked, Finding(**UNASKED)], "t"))
    rows = [line for line in written.getvalue().splitlines() if str(UNASKED["rule"]) in line]
    assert ["not asked" in row for row in rows] == [True, False]
    assert "pass" in rows[1]
