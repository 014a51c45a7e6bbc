"""Leftovers and offsets without a record, on the way from assess to the rules of a proof."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from groupshift.application import plan as planning
from groupshift.application.records import findings_data, findings_from, load
from groupshift.bootstrap import App
from groupshift.domain.judgement import Judgement
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import Phase, from_json, to_json
from groupshift.domain.verdict import Finding, Verdict
from support.simulated_move import Bench, make_bench

P0, LEFT = TopicPartition("orders", 0), TopicPartition("payments-old", 0)


@pytest.fixture
def bench() -> Bench:
    """A group in memory."""
    return make_bench()


def test_f01_the_plan_says_what_stays_and_the_move_goes_on(bench: Bench) -> None:
    """Named in the plan (and so under its hash), shown at its gate; the run ends as moved."""
    bench.world.znode[LEFT] = 77
    migration = bench.plan()
    made = planning.planned(bench.environment(), migration).plan
    (note,) = made.notes
    assert note == "no member reads it: kept as it is: payments-old-0 (ZooKeeper 77)"
    assert from_json(to_json(made)) == made
    assert replace(made, notes=()).hash != made.hash
    closing = bench.runner(migration, "cli-1").forward()
    assert (closing.phase, closing.verdict) == (Phase.MOVED, Verdict.PASS), closing
    assert note in bench.asked[0].body
    assert bench.world.znode[LEFT] == 77


class Log:
    """Answers every gap alike, and remembers what it was asked."""

    def __init__(self, records: int = 0) -> None:
        self.records, self.asked = records, []

    def read(self, gaps):
        """See `groupshift.ports.log.RecordLog`."""
        from groupshift.domain.log_gaps import GapRead

        self.asked += gaps
        return [GapRead(gap=gap, decided=gap.end, records=self.records) for gap in gaps]


class Ledgers:
    """What members say they delivered, as it is now."""

    def __init__(self, delivered: dict[TopicPartition, int]) -> None:
        self.delivered = delivered

    def last_delivered(self, _group):
        """See `groupshift.ports.evidence.Ledger`."""
        return dict(self.delivered)

    def delivered_below(self, _group, bounds):
        """See `groupshift.ports.evidence.Ledger`."""
        return {at: min(self.delivered[at], end - 1) for at, end in bounds.items()}


@pytest.mark.parametrize(("records", "answer"), [(0, "nothing"), (1, "lost")])
def test_f02_the_proof_is_handed_what_the_log_answers(bench: Bench, records: int, answer: str) -> None:
    """A commit of last record + 2: the range in doubt and nothing else is asked, and the answer is a fact."""
    log, migration = Log(records), bench.plan()
    ledger = Ledgers({at: offset - 1 for at, offset in bench.world.znode.items()})
    app = App(replace(bench.environment(), records=log, ledger=ledger))
    app.snapshot(migration, "canary", "before")
    ledger.delivered[P0] += 2
    end = bench.world.znode[P0] = bench.world.znode[P0] + 3
    app.snapshot(migration, "canary", "after")
    log.asked.clear()
    request = app.proof(migration, "canary", "after")
    (gap,) = log.asked
    assert (gap.partition, gap.start, gap.end) == (P0, end - 1, end)
    rules = json.loads(bench.evidence.texts[request.arguments[request.arguments.index("--rules") + 1]])
    (said,) = rules["log"]
    assert (said["topic"], said["partition"], said["from"], said["to"]) == ("orders", 0, end - 1, end)
    assert said["answer"] == answer


def test_f02_a_snapshot_does_not_wait_for_a_ledger_of_what_the_log_does_not_hold(bench: Bench) -> None:
    """A marker behind the last record is in no ledger, however long one waits."""
    migration = bench.plan()
    ledger = Ledgers({at: offset - 1 for at, offset in bench.world.znode.items()} | {P0: 1})
    log, before = Log(), bench.clock.now_ms()
    App(replace(bench.environment(), records=log, ledger=ledger)).snapshot(migration, "canary", "before")
    assert bench.clock.now_ms() - before < 1000
    assert [(gap.start, gap.end) for gap in log.asked] == [(2, bench.world.znode[P0])]


def test_u17_findings_keep_whether_they_were_asked(bench: Bench) -> None:
    """Through the journal and back; what older journals and verdicts hold was asked."""
    held = Finding(rule="V09", verdict=Verdict.PASS, reason="a")
    moot = Finding(rule="V19", verdict=Verdict.PASS, reason="b", asked=False)
    failed = Finding(rule="V10", verdict=Verdict.FAIL, reason="c")
    assert findings_from(findings_data((held, moot, failed))) == (held, moot, failed)
    assert findings_from([{"rule": "V01", "verdict": "pass", "reason": "r"}])[0].asked
    judged = Judgement(findings=(held, moot, failed))
    assert (judged.passed, judged.not_asked) == ((held,), (moot,))
    assert judged.verdict is Verdict.FAIL
    assert load(bench.environment(), bench.plan()).plan
