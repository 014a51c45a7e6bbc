"""What the command line says, and how often."""

from __future__ import annotations

import io
from pathlib import Path

from groupshift.audit.offsets import Audit, Looked, Mismatch
from groupshift.cli import audit, snapshot
from groupshift.cli.run_driving import Teller
from groupshift.cli.terminal import PAUSE_S, Changes, Console, Table
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.hazards import Facts, hazards_of
from groupshift.domain.rows import ClusterState, GroupRow, ReadFrom
from groupshift.domain.run import Step
from support.audit_rules import BY_NUMBER


def _console(width: int = 200) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width), file


def test_a_countdown_is_no_line_a_second() -> None:
    """In a pipe a line tells of a change, or that it still goes on."""
    changes = Changes()
    told = [second for second in range(100) if changes.worth(f"soak: {100 - second} s left", float(second))]
    assert told == [0, int(PAUSE_S), 2 * int(PAUSE_S), 3 * int(PAUSE_S)]
    assert changes.worth("1 of 3 members replaced", 100)
    assert changes.worth("2 of 3 members replaced", 101), "a number that is no duration is news"


def test_a_run_in_a_pipe_tells_what_changes() -> None:
    """Not what is left of a wait."""
    console, file = _console()
    step = Step(phase="soak", kind="soak", key="12 soak/soak", does="looks on")
    teller = Teller(console, lambda _step: 60.0)
    for left in range(60, 0, -1):
        teller.tell(step, f"{left} s left")
    teller.tell(step, "all is as it was")
    teller.close()
    assert file.getvalue().split("\n") == ["12 soak/soak  looks on", "  60 s left", "  all is as it was", ""]


def test_a_snapshot_says_why_it_has_no_members() -> None:
    """Those of a group in ZooKeeper are not read."""
    row = GroupRow(group="orders[prod]", type="zookeeper", state="")
    state = ClusterState(cluster_id="c", taken_at_ms=1, read_from=ReadFrom.ZOOKEEPER, groups=(row,))
    console, file = _console()
    for part in snapshot._parts(state, Path("s")):
        console.print(part)
    assert "no members of groups read in ZooKeeper (1 here)" in file.getvalue()


def test_a_clean_audit_counts_every_offset_once() -> None:
    """What differs for a reason that is known is as it should be."""
    rule = next(each for each in BY_NUMBER.values() if each.weight.value == "explained")
    differing = tuple(
        Mismatch(
            group="g",
            topic="t",
            partition=number,
            kind=rule.kind,
            weight=rule.weight,
            rule=rule.number,
            reason=rule.reason,
            remedy=rule.remedy,
            answered=7,
            logged=7,
            zookeeper=5,
            mode="kafka",
            log_partition=1,
            log_offset=9,
            foreign_partition=None,
            foreign_offset=None,
            log_end=8,
        )
        for number in range(6)
    )
    found = _audit(differing)
    console, file = _console()
    for part in audit._parts(found, None, 40):
        console.print(part)
    known = "0 agree in three sources, 6 differ for a known reason."
    assert f"clean: All 6 offsets are as they should be: {known}" in file.getvalue()


def _audit(differing: tuple[Mismatch, ...]) -> Audit:
    looked = Looked(keys=6, mismatches=differing)
    return Audit(began_ms=1, ended_ms=2, cluster_id="c", zookeeper=True, retention_ms=None, looked=looked)


def test_a_version_nobody_knows_is_asked_for_in_one_sentence() -> None:
    """Whether one hazard waits for it, or several."""
    for finding in hazards_of(Comparison.PROTOCOL, Facts(versions={}, traits={})):
        if "is not known" in finding.reason:
            assert "the kafka-clients" not in finding.reason
            assert finding.reason.endswith("cannot be judged")


def test_a_table_that_fits_is_a_table() -> None:
    """With sentences wrapped and words whole; one that does not is a list, in which names stay whole."""
    for width, lists in ((100, False), (30, True)):
        table = Table("groups", ("group", "reason"))
        table.add_row("a-name-of-thirty-characters-xx", "nobody commits for it since yesterday evening")
        console, file = _console(width)
        console.print(table)
        assert file.getvalue().startswith("groups")
        assert ("- group" in file.getvalue()) is lists
        assert "a-name-of-thirty-characters-xx" in file.getvalue()
