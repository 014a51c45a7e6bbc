"""The report of a migration: says what matters first, escapes everything, stays small."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest

from groupshift.application.account import Account, Compared
from groupshift.application.group_headline import headline
from groupshift.application.group_report import render, sealed_rows
from groupshift.domain.evidence import Moment
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.ownership_history import KnownBy, Sighting, Tenure
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import MoveName, Phase, Until
from groupshift.domain.verdict import Finding, Verdict
from groupshift.ports.journal import Event, EventKind
from groupshift.report.pictures import nice
from groupshift.report.svg import LEFT, axis_of
from support.simulated_move import Bench, make_bench

EVIL = "<script>alert('x')</script>\"onload="
AT = 1_763_740_000_000


@pytest.fixture(scope="module")
def moved() -> tuple[Bench, str]:
    """A simulated move until toggle."""
    bench = make_bench()
    migration, _ = bench.move(Until.TOGGLE, canary_watch_s=60, soak_s=2)
    return bench, migration


@pytest.fixture
def account(moved: tuple[Bench, str]) -> Account:
    """What its report is made of."""
    bench, migration = moved
    return bench.app().account(migration)


def test_the_first_sentence_says_what_became_of_the_group(account: Account, moved: tuple[Bench, str]) -> None:
    """Moved, by how much proven, and the command that takes it back."""
    text = render(account, sealed_rows(moved[0].app().pack(moved[1])))
    top = text[: text.index("At a glance")]
    assert "Group orders-app was moved: Kafka coordinates the group now" in top
    assert "no committed offset was lost or went back" not in top or "findings of" in top
    assert f"groupshift roll-back {account.status.migration}" in top
    assert f"groupshift verify-evidence {account.status.migration}" in top
    assert account.status.plan_hash in text


def test_the_page_needs_nothing_but_itself(account: Account) -> None:
    """No script, no address, style for light, dark and paper, a language, a title, heads of tables."""
    text = render(account)
    assert not re.search(r"<script|src=|href=|url\(|@import|://", text)
    for part in ("prefers-color-scheme: dark", "@media print", 'lang="en"', "<title>", 'scope="col"'):
        assert part in text
    assert text.count('role="img"') == text.count("aria-labelledby=") == 3
    assert text.count("<desc") == 3


def test_stages_gates_verdicts_and_modes_are_in_the_picture(account: Account) -> None:
    """Each stage has a lane, each answer a number, each write of the mode node a mark."""
    text = render(account)
    svg = text[text.index('id="run-title"') : text.index("Who decided")]
    for stage in account.status.stages:
        if stage.began_at_ms is not None:
            assert stage.stage.name.value in svg
    assert "mode kafka" in svg
    assert svg.count('class="gate yes"') == len(account.approvals) == 2
    assert "toggle: approve by ann" in svg
    assert svg.count('class="dot pass"') >= 6


def test_without_ledger_and_audit_owners_are_drawn_as_they_were_seen(account: Account) -> None:
    """The source is said, and the lag is drawn at every sighting."""
    assert account.known_by is KnownBy.SIGHTINGS
    assert len(account.sightings) > 8
    text = render(account)
    assert "what happened between two looks was" in text
    assert text.count('class="mark"') == len(account.sightings)


def hostile(account: Account) -> Account:
    """Hostile text wherever a person, a server or a member can put it."""
    finding = Finding(rule="V01", verdict=Verdict.FAIL, reason=EVIL, hint=EVIL)
    row = {"table": "offsets", "class": EVIL, "subject": EVIL, "before": EVIL, "after": None}
    said = {"snapshot": "before", "table": EVIL, "sentence": EVIL, "severity": "critical", "success": False}
    compared = Compared(
        stage="canary",
        moment=Moment.AFTER,
        verdict=Verdict.FAIL,
        judged_at_ms=AT,
        findings=(finding,),
        counts={"lost": 1},
        refused=(row,),
        refusals=1,
        expectations=({**said, "detail": EVIL},),
    )
    at = TopicPartition(EVIL, 0)
    body = {"gate": "plan", "choice": "approve", "who": EVIL, "fingerprint": "f"}
    event = Event(seq=999, at_ms=AT, token=1, kind=EventKind.GATE_ANSWERED, stage=None, body=body)
    status = replace(
        account.status, group=EVIL, migration=EVIL, reason=EVIL, events=(*account.status.events, event)
    )
    return replace(
        account,
        status=status,
        compared=(compared,),
        members={EVIL: EVIL},
        modes=((AT, EVIL),),
        tenures=(Tenure(partition=at, member=EVIL, start_ms=AT, end_ms=AT + 5),),
        audit={"lost": EVIL},
        troubles=(EVIL,),
    )


def test_no_text_from_outside_becomes_markup(account: Account) -> None:
    """Names of groups, members and topics, metadata, answers and reasons stay text."""
    text = render(hostile(account), ((EVIL, EVIL),))
    assert "<script" not in text
    assert '"onload=' not in text
    assert text.count("&lt;script&gt;") > 15


def test_an_empty_journal_is_a_page_too(account: Account) -> None:
    """A plan that nobody ran: nothing is drawn that was not there, nothing is claimed."""
    status = replace(
        account.status, phase=Phase.PLANNED, verdict=None, reason="", stages=(), events=(), updated_at_ms=0
    )
    empty = replace(
        account,
        status=status,
        approvals=(),
        modes=(),
        sightings=(),
        tenures=(),
        members={},
        compared=(),
        files=(),
    )
    text = render(empty)
    for part in ("waiting for approval", "No owner was ever seen", "The lag was never measured"):
        assert part in text
    assert "No gate was answered" in text
    assert "passed; no committed offset" not in text


def test_a_huge_run_stays_small(account: Account) -> None:
    """200 partitions with 1,000 hand-overs each: less than 5 MB, and every partition has a lane."""
    tenures = tuple(
        Tenure(
            partition=TopicPartition("orders", partition),
            member=f"orders-app_m{turn % 40}-1",
            start_ms=AT + turn * 3600,
            end_ms=AT + turn * 3600 + 3500,
            unowned_ms=100,
        )
        for partition in range(200)
        for turn in range(1001)
    )
    last = Event(seq=1, at_ms=AT + 3_600_000, token=0, kind=EventKind.CLOSED, stage=None, body={})
    first = replace(last, at_ms=AT)
    status = replace(account.status, events=(first, last), created_at_ms=AT)
    huge = replace(
        account, status=status, sightings=(), tenures=tenures, known_by=KnownBy.LOG, members={}, modes=()
    )
    text = render(huge)
    assert len(text.encode()) < 5_000_000
    assert "orders-199" in text
    assert "200 partitions and 40 members; 200000 hand-overs" in text


@pytest.mark.parametrize(
    ("phase", "verdict", "word", "badge", "command"),
    [
        (Phase.MOVED, Verdict.PASS, "moved", Verdict.PASS, "roll-back"),
        (Phase.MOVED, Verdict.INCONCLUSIVE, "moved", Verdict.INCONCLUSIVE, "roll-back"),
        (Phase.ROLLING_BACK, Verdict.FAIL, "not back yet", Verdict.FAIL, "roll-back"),
        (Phase.ROLLED_BACK, Verdict.FAIL, "taken back", Verdict.FAIL, "assess"),
        (Phase.ROLLED_BACK, Verdict.PASS, "taken back", Verdict.PASS, "verify-evidence"),
        (Phase.RUNNING, None, "under way", Verdict.INCONCLUSIVE, "run --migration"),
        (Phase.REJECTED, Verdict.FAIL, "nothing changed", Verdict.FAIL, "run --group"),
        (Phase.FINALISED, Verdict.PASS, "finalised", Verdict.PASS, "verify-evidence"),
    ],
)
def test_every_phase_says_what_to_do_now(
    account: Account, phase: Phase, verdict: Verdict | None, word: str, badge: Verdict, command: str
) -> None:
    """One word, one colour, one sentence that ends, and a command that fits."""
    told = headline(replace(account, status=replace(account.status, phase=phase, verdict=verdict)))
    assert (told.word, told.verdict) == (word, badge)
    assert told.sentence.endswith(".")
    assert any(command in typed for _, typed in told.now)


def test_a_move_of_the_protocol_is_tried_again_by_its_own_verb(account: Account) -> None:
    """With the protocol and the way that were planned."""
    plan = replace(account.plan, move=MoveName.PROTOCOL, to=Protocol.CONSUMER, way=Way.OFFLINE)
    status = replace(account.status, phase=Phase.REJECTED, verdict=Verdict.FAIL)
    ((_, typed),) = headline(replace(account, plan=plan, status=status)).now
    assert typed == f"groupshift protocol run --group {status.group} --to consumer --offline"


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


def test_lost_offsets_and_refused_rows_are_shown(account: Account) -> None:
    """By class and by name, with how many more there are."""
    row: dict[str, Any] = {
        "table": "offsets", "class": "lost", "subject": "orders-3 zookeeper", "before": "7", "after": None,
    }  # fmt: skip
    bad = replace(
        account.compared[1],
        verdict=Verdict.FAIL,
        counts={"lost": 12},
        refused=(row,),
        refusals=12,
        findings=(Finding(rule="V04", verdict=Verdict.FAIL, reason="orders-3: it is gone", hint="look"),),
    )
    text = render(replace(account, compared=(bad,)))
    assert "12 committed offsets were lost and 0 went back" in text
    assert "orders-3 zookeeper" in text
    assert "And 11 more in differences.parquet" in text
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
    account: Account, kinds: tuple[str, ...], said: str
) -> None:
    """By those who owned partitions at the last look."""
    members = {f"c{number}": kind for number, kind in enumerate(kinds)}
    owners = {TopicPartition("orders", number): (name,) for number, name in enumerate(members)}
    plan = replace(account.plan, move=MoveName.PROTOCOL, to=Protocol.CONSUMER)
    last = Sighting(at_ms=account.sightings[-1].at_ms, what="look", owners=owners)
    page = render(replace(account, plan=plan, members=members, sightings=(*account.sightings[:-1], last)))
    assert f"<dt>protocol now</dt><dd>{said}</dd>" in page
    assert "mode now" not in page


UNASKED = {"rule": "V07", "verdict": Verdict.PASS, "reason": "a snapshot beside itself cannot differ"}


def test_u17_rules_that_were_not_asked_are_counted_apart(account: Account) -> None:
    """In the first sentence, above the findings, and in their table; none of them counts as passed."""
    passed = Finding(rule="V01", verdict=Verdict.PASS, reason="equal")
    unasked = Finding(**UNASKED, asked=False)
    one = replace(account.compared[0], findings=(passed, passed, unasked), counts={})
    changed = replace(account, compared=(one,))
    text = render(changed)
    assert "2 of 2 findings of 1 judgements passed, 1 not asked" in headline(changed).sentence
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
    from groupshift.domain.verdict import counted

    asked = [Finding(rule="V01", verdict=each, reason="r") for each in verdicts]
    assert counted([*asked, *[Finding(**UNASKED, asked=False)] * unasked], "rules") == said


def test_u17_the_journal_and_the_terminal_keep_what_was_not_asked() -> None:
    """Journaled findings of older releases were all asked; the table of the terminal says it in words."""
    from groupshift.application.records import findings_data, findings_from
    from groupshift.cli.output import findings_table
    from groupshift.cli.terminal import Console

    unasked = Finding(**UNASKED, asked=False)
    (data,) = findings_data([unasked])
    assert findings_from([data]) == (unasked,)
    del data["asked"]
    assert findings_from([data])[0].asked
    written = io.StringIO()
    Console(file=written, width=200).print(findings_table([unasked, Finding(**UNASKED)], "t"))
    rows = [line for line in written.getvalue().splitlines() if UNASKED["rule"] in line]
    assert ["not asked" in row for row in rows] == [True, False]
    assert "pass" in rows[1]


CARDS = ("records lost", "delivered again", "without owner at most", "longest pause of a partition")


def test_u16_without_ledgers_the_cards_are_absent_and_the_command_is_there(account: Account) -> None:
    """No card says that nothing is known; the report says how to get it, for this group and this time."""
    text = render(account)
    assert "not audited" not in text
    assert not [card for card in CARDS if f"<dt>{card}</dt>" in text]
    assert "groupshift.jobs.audit_consumption --group orders-app" in text
    assert f"--from-ms {account.status.created_at_ms} --to-ms {account.ended_ms}" in text


def test_u16_ledgers_that_are_known_are_used(account: Account) -> None:
    """What was processed twice, the longest pause and what was passed over come from them."""
    from groupshift.ports.evidence import Delivered

    told = Delivered(deliveries=1200, again=7, passed_over=3, longest_pause_ms=4100, source="/a b")
    text = render(replace(account, delivered=told))
    for card, value in (("delivered again", 7), ("offsets passed over", 3), (CARDS[3], "4.10 s")):
        assert f"<dt>{card}</dt><dd>{value}</dd>" in text
    assert "1,200 deliveries" in text
    assert "--ledgers &#39;/a b&#39;" in text
    assert "not audited" not in text


def test_an_audit_counts_more_than_the_ledgers(account: Account) -> None:
    """It read ZooKeeper's log as well: its figures are the ones shown, and no command is offered."""
    audit = {"lost": 0, "duplicates": 2, "longest_unowned_ms": 900}
    text = render(replace(account, audit=audit))
    for card, value in (("records lost", 0), ("delivered again", 2), (CARDS[2], "900 ms")):
        assert f"<dt>{card}</dt><dd>{value}</dd>" in text
    assert "audit_consumption --group" not in text
