"""Whole runs over the simulated group: forward, back, and everything that turns them red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from groupshift.domain.evidence import Moment
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import Choice, Gate, Phase, StageName, Until, WayBack
from groupshift.domain.verdict import Verdict
from groupshift.errors import Broken, Rejected
from groupshift_testing.evidence import MemoryEvidence
from support.simulated_move import Bench, make_bench

OLD, AWARE, PLAIN = MemberKind.OLD, MemberKind.AWARE, MemberKind.PLAIN
P0 = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("until", "kinds", "mode"),
    [
        (Until.CANARY, [AWARE, OLD, OLD], None),
        (Until.ROLL, [AWARE, AWARE, AWARE], None),
        (Until.TOGGLE, [AWARE, AWARE, AWARE], b"kafka"),
        (Until.RETIRE, [PLAIN, PLAIN, PLAIN], b"kafka"),
    ],
)
def test_a_run_stops_where_it_was_told_to(
    bench: Bench, until: Until, kinds: list[MemberKind], mode: bytes | None
) -> None:
    """Members and mode are what the last act left, and the run is green with its way back open."""
    _, closing = bench.move(until)
    assert (closing.phase, closing.verdict) == (Phase.MOVED, Verdict.PASS)
    assert bench.kinds() == kinds
    assert bench.world.mode.data == mode


@pytest.mark.parametrize("until", list(Until))
def test_a_run_can_be_taken_back_from_anywhere(bench: Bench, until: Until) -> None:
    """Old members again, zookeeper mode, no offset lower than before, and a green roll back."""
    before = dict(bench.world.znode)
    migration, _ = bench.move(until)
    closing = bench.roll_back(migration)
    assert (closing.phase, closing.verdict) == (Phase.ROLLED_BACK, Verdict.PASS)
    assert bench.kinds() == [OLD, OLD, OLD]
    assert bench.world.read(bench.world.group).effective_mode is Mode.ZOOKEEPER
    assert all(bench.world.znode[p] >= offset for p, offset in before.items())


def test_going_back_to_zookeeper_mode_keeps_the_aware_members(bench: Bench) -> None:
    """And a second, further roll back then brings the old members back."""
    migration, _ = bench.move(Until.TOGGLE)
    closing = bench.roll_back(migration, WayBack.ZOOKEEPER_MODE)
    assert closing.phase is Phase.ROLLED_BACK
    assert bench.kinds() == [AWARE, AWARE, AWARE]
    assert bench.world.mode.data == b"zookeeper"
    assert bench.roll_back(migration, WayBack.OLD_MEMBERS, run="back-2").verdict is Verdict.PASS
    assert bench.kinds() == [OLD, OLD, OLD]


def test_a_later_run_toggles_again_with_the_members_it_finds(bench: Bench) -> None:
    """After a way back to zookeeper mode a new migration has only the toggle left to do."""
    first, _ = bench.move(Until.TOGGLE)
    bench.roll_back(first, WayBack.ZOOKEEPER_MODE)
    second = bench.app().plan(bench.request(run="run-2")).migration
    closing = bench.runner(second, "cli-2").forward()
    stages = [stage.name for stage in bench.app().planned(second).plan.stages]
    assert stages == [StageName.TOGGLE, StageName.SOAK]
    assert closing.phase is Phase.MOVED
    assert bench.world.mode.data == b"kafka"
    with pytest.raises(Rejected, match="was followed by"):
        bench.roll_back(first, run="back-3")


def test_finalise_removes_the_mode_node_only_after_retire(bench: Bench) -> None:
    """With plain members only, Finalise deletes it and the migration is over for good."""
    bench.last_choice = Choice.FINALISE
    migration, closing = bench.move(Until.RETIRE)
    assert closing.phase is Phase.FINALISED
    assert bench.world.mode.data is None
    with pytest.raises(Rejected, match="way back is closed"):
        bench.roll_back(migration)


def test_finalise_keeps_the_mode_node_that_members_still_need(bench: Bench) -> None:
    """Until toggle, Finalise changes nothing and says so."""
    bench.last_choice = Choice.FINALISE
    _, closing = bench.move(Until.TOGGLE)
    assert closing.phase is Phase.MOVED
    assert "still on MigratingConsumer" in closing.reason
    assert bench.world.mode.data == b"kafka"


def test_finalise_keeps_the_mode_node_when_a_zookeeper_member_came_back(bench: Bench) -> None:
    """An absent mode node means ZooKeeper: a registered member would leave kafka mode."""
    bench.last_choice = Choice.FINALISE

    def revive() -> None:
        bench.world.places["m1"].kind = AWARE

    bench.watcher.at["ended soak"] = revive
    _, closing = bench.move(Until.RETIRE)
    assert (closing.phase, closing.verdict) == (Phase.MOVED, Verdict.PASS)
    assert "C21" in closing.reason
    assert bench.world.mode.data == b"kafka"


def lower_idle_offset(bench: Bench) -> None:
    """Plant: the znode of an idle partition set 1 lower than it ever was."""
    bench.world.znode[P0] = 89


def kill_and_hold(bench: Bench) -> None:
    """Plant: a member killed and its driver told not to restart it."""
    bench.world.places["m3"].running = False
    bench.world.places["m3"].held = True


@pytest.mark.parametrize(
    ("plant", "named", "phase"),
    [
        (lower_idle_offset, "V01: offset of zookeeper/orders-0", Phase.ROLLING_BACK),
        (kill_and_hold, "m3", Phase.ROLLED_BACK),
    ],
)
def test_a_plant_turns_the_run_red_names_itself_and_is_rolled_back(
    bench: Bench, plant: Callable[[Bench], None], named: str, phase: Phase
) -> None:
    """After the canary has acted: the verdict is fail, and the canary is an old member again.

    A lowered offset is still lower afterwards, so that way back is not proven equal."""
    bench.watcher.at["acted canary done"] = lambda: plant(bench)
    bench.world.idle.add(P0)
    bench.watcher.at["stage undo_members"] = lambda: _repair(bench)
    _, closing = bench.move(Until.TOGGLE)
    assert closing.verdict is Verdict.FAIL
    assert named in closing.reason
    assert closing.phase is phase
    assert bench.kinds()[0] is OLD


def _repair(bench: Bench) -> None:
    bench.world.places["m3"].running, bench.world.places["m3"].held = True, False
    bench.world.tick()


def test_a_way_back_that_cannot_be_proven_stays_open_and_red(bench: Bench) -> None:
    """The killed member is still missing: not equal to before, so not rolled back; repeating it heals."""
    bench.watcher.at["acted canary done"] = lambda: kill_and_hold(bench)
    migration, closing = bench.move(Until.TOGGLE)
    assert (closing.phase, closing.verdict) == (Phase.ROLLING_BACK, Verdict.FAIL)
    assert "undo_members" in closing.reason
    _repair(bench)
    assert bench.roll_back(migration).phase is Phase.ROLLED_BACK


def test_a_duplicated_owner_with_a_rehashed_manifest_is_named_and_rolled_back(bench: Bench) -> None:
    """The proof sees the second owner; the journal sees the manifest that is not its own."""

    def forge() -> None:
        (migration,) = {key[0] for key in bench.evidence.snapshots}
        key = (migration, "canary", Moment.AFTER)
        owners = list(bench.evidence.snapshots[key][1]["owners"])
        bench.evidence.alter(key, "owners", [*owners, {**owners[0], "member_id": "x"}], rehash=True)

    bench.watcher.at["proving after canary in Spark"] = forge
    migration, closing = bench.move(Until.TOGGLE)
    assert (closing.phase, closing.verdict) == (Phase.ROLLED_BACK, Verdict.FAIL)
    findings = next(
        event.body["findings"]
        for event in bench.journal.events(migration)
        if event.body.get("verdict") == "fail" and event.stage is StageName.CANARY
    )
    assert {"V01", "J03"} <= {finding["rule"] for finding in findings if finding["verdict"] == "fail"}


class Tampered(MemoryEvidence):
    """Evidence in which somebody empties a table right after it was written."""

    def __init__(self, stage: str, moment: Moment) -> None:
        super().__init__()
        self._where = (stage, moment)

    def write(self, manifest_of, taken_at_ms, tables):
        manifest = super().write(manifest_of, taken_at_ms, tables)
        if manifest_of[1:] == self._where:
            self.alter(manifest_of, "owners", [], rehash=False)
        return manifest


def test_an_altered_snapshot_is_refused_before_anything_is_compared(bench: Bench) -> None:
    """No Spark job runs on it, the run goes back and ends with the broken promise."""
    bench.evidence = bench.proof.evidence = Tampered("canary", Moment.AFTER)
    migration = bench.plan()
    with pytest.raises(Broken, match="not what its manifest says"):
        bench.runner(migration, "cli-1").forward()
    assert bench.kinds() == [OLD, OLD, OLD]
    rules = [path for path in bench.evidence.texts if path.endswith("canary/validation-after/rules.json")]
    assert rules == [], "no comparison after the canary was even prepared"


def test_a_rejected_plan_changes_nothing(bench: Bench) -> None:
    """The run ends as rejected, naming who said no."""
    migration = bench.plan()
    runner = replace(bench.runner(migration, "cli-1"), decide=lambda _brief: Choice.REJECT)
    closing = runner.forward()
    assert (closing.phase, closing.verdict) == (Phase.REJECTED, Verdict.FAIL)
    assert "rejected by ann" in closing.reason
    assert bench.kinds() == [OLD, OLD, OLD]


def test_a_rejected_toggle_leaves_the_group_as_it_is_with_its_way_back(bench: Bench) -> None:
    """Aware members in zookeeper mode; roll back still works."""
    migration = bench.plan()
    no = Gate.TOGGLE
    runner = replace(
        bench.runner(migration, "cli-1"),
        decide=lambda brief: Choice.REJECT if brief.gate is no else Choice.APPROVE,
    )
    closing = runner.forward()
    assert (closing.phase, closing.verdict) == (Phase.MOVED, Verdict.INCONCLUSIVE)
    assert bench.world.mode_writes == 0
    assert bench.roll_back(migration).verdict is Verdict.PASS


def test_a_failure_during_the_soak_is_judged_and_rolled_back(bench: Bench) -> None:
    """Even when the group looks healthy again afterwards."""
    bench.watcher.at["judged soak before pass"] = lambda: kill_and_hold(bench)
    bench.watcher.at["snapshot after soak"] = lambda: _repair(bench)
    _, closing = bench.move(Until.TOGGLE)
    assert (closing.phase, closing.verdict) == (Phase.ROLLED_BACK, Verdict.FAIL)
    assert "stage soak" in closing.reason


def test_a_member_that_restarts_is_not_a_failure(bench: Bench) -> None:
    """It is back within the judge's patience, with a new incarnation."""

    def die_and_return() -> None:
        bench.world.places["m2"].running = False
        bench.clock.on_sleep.append(lambda _s: bench.world.places["m2"].__setattr__("running", True))

    bench.watcher.at["judging after canary"] = die_and_return
    assert bench.move(Until.TOGGLE)[1].verdict is Verdict.PASS


def test_a_group_of_aware_members_is_rolled_back_to_what_it_was() -> None:
    """Its members were aware before: old members come only when asked for, for every place."""
    bench = make_bench(AWARE)
    migration, closing = bench.move(Until.TOGGLE)
    assert closing.phase is Phase.MOVED
    assert bench.roll_back(migration, WayBack.ZOOKEEPER_MODE).verdict is Verdict.PASS
    assert bench.kinds() == [AWARE, AWARE, AWARE]
