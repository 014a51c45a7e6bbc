"""Acts: killed at any point and run again, they reach the same end and act once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupshift.adapters.drivers.manual import ManualFleet
from groupshift.domain.judgement import ActState
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Answer, Choice, Gate, Phase, StageName, Until, WayBack
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.clock import CrashPoint
from groupshift.ports.journal import EventKind, StepState
from groupshift_testing.world import CrashOnce, Killed
from support.simulated_move import Bench, make_bench

FORWARD = (StageName.CANARY, StageName.ROLL, StageName.TOGGLE, StageName.RETIRE, StageName.FINALISE)
BACK = (StageName.UNDO_RETIRE, StageName.UNDO_TOGGLE, StageName.UNDO_MEMBERS)


@pytest.mark.parametrize("point", list(CrashPoint))
@pytest.mark.parametrize("stage", FORWARD)
def test_killed_going_forward_and_run_again(stage: StageName, point: CrashPoint) -> None:
    """Same end, every fleet change applied once, the mode node written once to and once away."""
    bench = make_bench()
    bench.last_choice = Choice.FINALISE
    migration = bench.plan(until=Until.RETIRE)
    with pytest.raises(Killed):
        bench.runner(migration, "cli-1", CrashOnce(stage, point)).forward()
    closing = bench.runner(migration, "cli-2").forward()
    assert (closing.phase, closing.verdict) == (Phase.FINALISED, Verdict.PASS)
    assert [o.incarnation for o in bench.world.places.values()] == [3, 3, 3]
    assert bench.world.mode_writes == 2
    intents = [e.stage for e in bench.journal.events(migration) if e.kind is EventKind.INTENDED]
    assert intents == list(FORWARD), "every act was intended once"


@pytest.mark.parametrize("point", list(CrashPoint))
@pytest.mark.parametrize("stage", BACK)
def test_killed_going_back_and_run_again(stage: StageName, point: CrashPoint) -> None:
    """The same for the way back."""
    bench = make_bench()
    migration, _ = bench.move(Until.RETIRE)
    with pytest.raises(Killed):
        bench.runner(migration, "back-1", CrashOnce(stage, point)).back(WayBack.OLD_MEMBERS)
    closing = bench.roll_back(migration, run="back-2")
    assert (closing.phase, closing.verdict) == (Phase.ROLLED_BACK, Verdict.PASS)
    assert bench.kinds() == [MemberKind.OLD] * 3
    assert [o.incarnation for o in bench.world.places.values()] == [5, 5, 5]
    assert bench.world.mode_writes == 2


@pytest.mark.parametrize("point", [CrashPoint.AFTER_ACT, CrashPoint.AFTER_READ_BACK])
def test_a_way_back_that_goes_on_waits_for_no_stage_that_the_next_one_has_undone(point: CrashPoint) -> None:
    """Aware members came back and were replaced by old ones: nobody waits for aware ones any more."""
    bench = make_bench()
    migration, _ = bench.move(Until.RETIRE)
    with pytest.raises(Killed):
        bench.runner(migration, "back-1", CrashOnce(StageName.UNDO_MEMBERS, point)).back(WayBack.OLD_MEMBERS)
    bench.clock.sleep(1)
    found = bench.app().watch(migration, StageName.UNDO_RETIRE)
    assert (found.settled, found.detail) == (True, "stage undo_toggle has begun since")
    begun_ms = bench.clock.now_ms()
    bench.watcher.lines.clear()
    assert bench.roll_back(migration, run="back-2").verdict is Verdict.PASS
    assert [line for line in bench.watcher.lines if "undo_retire" in line] == []
    assert bench.clock.now_ms() - begun_ms < bench.runner(migration, "look").settle_s * 1000


def test_a_fenced_run_may_not_act(bench: Bench) -> None:
    """After another run has claimed the migration, nothing is changed by the former one."""
    migration = bench.plan()
    stale = bench.runner(migration, "cli-1")
    bench.app().claim(migration, "cli-2")
    with pytest.raises(Conflict, match="void"):
        stale.forward()
    assert bench.kinds() == [MemberKind.OLD] * 3


def approved(bench: Bench, **values: object) -> tuple[str, int]:
    """A planned, approved and claimed migration."""
    migration = bench.plan(**values)
    app = bench.app()
    brief = app.brief(migration, Gate.PLAN)
    app.answer(migration, Gate.PLAN, Answer(choice=Choice.APPROVE, who="ann", fingerprint=brief.fingerprint))
    return migration, app.claim(migration, "r")


def test_an_act_needs_an_approved_plan(bench: Bench) -> None:
    """Planned is not enough, and a preview never acts."""
    migration = bench.plan()
    with pytest.raises(Conflict, match="planned"):
        bench.app().act(migration, StageName.CANARY, bench.app().claim(migration, "r"))
    preview = bench.plan(execute=False, run="look")
    with pytest.raises(Conflict, match="execute"):
        bench.app().act(preview, StageName.CANARY, bench.app().claim(preview, "r"))


def test_an_approval_is_void_when_the_group_changed_before_the_act(bench: Bench) -> None:
    """The act reads the group again and names what changed."""
    migration, token = approved(bench)
    bench.world.places["m2"].incarnation = 7
    with pytest.raises(Conflict, match=r"approval void: .*orders-app_m2-7"):
        bench.app().act(migration, StageName.CANARY, token)
    assert bench.kinds() == [MemberKind.OLD] * 3


def test_a_precondition_that_fails_changes_nothing(bench: Bench) -> None:
    """Offsets are gone right before the canary: refused with the rule's sentence."""
    migration, token = approved(bench)
    bench.clock.on_sleep.clear()
    bench.world.znode.clear()
    with pytest.raises(Rejected, match=r"C05: no offset in ZooKeeper .* nothing was changed"):
        bench.app().act(migration, StageName.CANARY, token)
    assert bench.journal.steps(migration) == {}


def test_a_precondition_that_cannot_be_measured_is_worth_another_try() -> None:
    """A rebalancing Kafka group is not wrong, it is not ready."""
    bench = make_bench(MemberKind.AWARE)
    migration, token = approved(bench)
    app = bench.app()
    brief = app.brief(migration, Gate.TOGGLE)
    app.answer(migration, Gate.TOGGLE, Answer(choice=Choice.APPROVE, who="a", fingerprint=brief.fingerprint))
    bench.world.kafka_state = "PreparingRebalance"
    with pytest.raises(Transient, match="C14"):
        app.act(migration, StageName.TOGGLE, token)
    bench.world.kafka_state = "Stable"
    assert app.act(migration, StageName.TOGGLE, token).state is ActState.DONE
    assert app.act(migration, StageName.TOGGLE, token).state is ActState.UNCHANGED


def killed_in_the_toggle(bench: Bench) -> str:
    """A migration whose first run died right after it had written down that it would toggle."""
    migration = bench.plan()
    with pytest.raises(Killed):
        bench.runner(migration, "cli-1", CrashOnce(StageName.TOGGLE, CrashPoint.AFTER_JOURNAL)).forward()
    return migration


def test_a_mode_node_that_someone_else_wrote_is_not_overwritten() -> None:
    """Killed after the intent, then another tool writes twice: that is not our act, nor was it approved."""
    bench = make_bench(MemberKind.AWARE)
    migration = killed_in_the_toggle(bench)
    for text in (b"kafka", b"zookeeper"):
        bench.world.write_mode(text)
    app = bench.app()
    with pytest.raises(Conflict, match=r"approval void: .*mode node"):
        app.act(migration, StageName.TOGGLE, app.claim(migration, "cli-2"))
    assert bench.world.mode_writes == 2
    assert bench.journal.steps(migration)[StageName.TOGGLE].state is StepState.INTENDED


@pytest.mark.parametrize("texts", [(b"zookeeper",), (b"zookeeper", b"kafka")])
def test_whoever_lost_the_mode_node_asks_again_and_starts_over(texts: tuple[bytes, ...]) -> None:
    """With a new approval of what is there now; a mode that is there already is not written (N7)."""
    bench = make_bench(MemberKind.AWARE)
    migration = killed_in_the_toggle(bench)
    for text in texts:
        bench.world.write_mode(text)
    asked = len(bench.asked)
    closing = bench.runner(migration, "cli-2").forward()
    assert (closing.phase, closing.verdict) == (Phase.MOVED, Verdict.PASS)
    assert Gate.TOGGLE in {brief.gate for brief in bench.asked[asked:]}
    assert (bench.world.mode.data, bench.world.mode_writes) == (b"kafka", 2)
    intents = [e for e in bench.journal.events(migration) if e.kind is EventKind.INTENDED]
    assert len(intents) == 2, "the second one has met the new node"


def test_a_toggle_that_is_resumed_asks_its_preconditions_again() -> None:
    """What held when it was intended need not hold when it is made."""
    bench = make_bench(MemberKind.AWARE)
    migration = killed_in_the_toggle(bench)
    bench.clock.on_sleep.clear()
    bench.world.kafka.clear()
    with pytest.raises(Rejected, match="C12: no offset in Kafka"):
        bench.runner(migration, "cli-2").forward()
    assert bench.world.mode_writes == 0


def test_a_way_back_that_is_resumed_asks_its_preconditions_again() -> None:
    """A plain consumer has come since the intent: outside kafka mode it would consume twice (D11)."""
    bench = make_bench(MemberKind.AWARE)
    migration, _ = bench.move(Until.TOGGLE)
    crash = CrashOnce(StageName.UNDO_TOGGLE, CrashPoint.AFTER_JOURNAL)
    with pytest.raises(Killed):
        bench.runner(migration, "back-1", crash).back(WayBack.ZOOKEEPER_MODE)
    bench.world.strangers = ("kc-1",)
    with pytest.raises(Rejected, match="C16: plain Kafka members kc-1"):
        bench.roll_back(migration, WayBack.ZOOKEEPER_MODE, run="back-2")
    assert bench.world.mode.data == b"kafka"


def test_a_finalise_that_is_resumed_asks_its_preconditions_again() -> None:
    """A member came back to ZooKeeper in between: the mode node is kept, and the run says why."""
    bench = make_bench()
    bench.last_choice = Choice.FINALISE
    migration = bench.plan(until=Until.RETIRE)
    crash = CrashOnce(StageName.FINALISE, CrashPoint.AFTER_JOURNAL)
    with pytest.raises(Killed):
        bench.runner(migration, "cli-1", crash).forward()
    bench.world.places["m1"].kind = MemberKind.AWARE
    closing = bench.runner(migration, "cli-2").forward()
    assert closing.phase is Phase.MOVED
    assert "C21" in closing.reason
    assert bench.world.mode.data == b"kafka"


class WokenLate:
    """Crash points that suspend a run between its intent and its act while another one takes it back."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    def reached(self, stage: StageName, point: CrashPoint) -> None:
        """Everything in ``meanwhile`` happens here, once."""
        if (stage, point) == (StageName.TOGGLE, CrashPoint.AFTER_JOURNAL):
            self._meanwhile()


@pytest.mark.parametrize("node", [None, b"zookeeper"])
def test_a_run_that_is_woken_late_cannot_toggle_what_was_taken_back(node: bytes | None) -> None:
    """Also where the way back had nothing to write: the claim alone fences the mode node."""
    bench = make_bench(MemberKind.AWARE)
    if node:
        bench.world.write_mode(node)
    before = bench.world.mode_writes
    migration = bench.plan()

    def take_back() -> None:
        app = bench.app()
        app.begin_roll_back(migration, WayBack.ZOOKEEPER_MODE, app.claim(migration, "back-1"))

    with pytest.raises(Conflict, match=r"run 1 of migration .* may not change the mode"):
        bench.runner(migration, "cli-1", WokenLate(take_back)).forward()
    assert bench.world.mode_writes == before


def test_a_plan_that_is_only_looked_at_leaves_no_fence(bench: Bench) -> None:
    """Nothing at all is written before somebody has approved."""
    migration = bench.plan()
    bench.app().claim(migration, "cli-1")
    assert bench.world.holder is None


def test_a_stage_that_is_not_planned_is_left_alone(bench: Bench) -> None:
    """Runbooks have all stages; the plan says which act."""
    migration, token = approved(bench, until=Until.CANARY)
    outcome = bench.app().act(migration, StageName.RETIRE, token)
    assert outcome.state is ActState.UNCHANGED
    assert bench.app().watch(migration, StageName.RETIRE).settled


def test_a_driver_of_people_hands_out_the_instruction_and_sees_the_group(bench: Bench) -> None:
    """Pending until the members of the wanted kind are in the group, again and again the same text."""
    bench.fleet.pending = True
    migration, token = approved(bench, driver="manual")
    app = bench.app()
    for _ in range(2):
        outcome = app.act(migration, StageName.CANARY, token)
        assert outcome.state is ActState.PENDING
        assert "orders-app_m1-1" in outcome.instruction
    assert not app.watch(migration, StageName.CANARY).settled
    bench.fleet.deploy(("m1",), MemberKind.AWARE)
    assert app.watch(migration, StageName.CANARY).settled


def test_a_person_who_never_deployed_has_nothing_to_take_back(bench: Bench) -> None:
    """The canary was intended and nobody came: the way back is settled at once, everybody is as before."""
    bench.fleet.pending = True
    migration, token = approved(bench, driver="manual", until=Until.CANARY)
    app = bench.app()
    app.act(migration, StageName.CANARY, token)
    app.begin_roll_back(migration, WayBack.OLD_MEMBERS, token)
    app.act(migration, StageName.UNDO_MEMBERS, token)
    assert app.watch(migration, StageName.UNDO_MEMBERS).settled


def test_what_a_person_deployed_is_back_when_its_place_is_filled_again(bench: Bench) -> None:
    """Not while the migration-aware member is there."""
    bench.fleet.pending = True
    migration, token = approved(bench, driver="manual", until=Until.CANARY)
    app = bench.app()
    app.act(migration, StageName.CANARY, token)
    bench.fleet.deploy(("m1",), MemberKind.AWARE)
    app.begin_roll_back(migration, WayBack.OLD_MEMBERS, token)
    app.act(migration, StageName.UNDO_MEMBERS, token)
    assert not app.watch(migration, StageName.UNDO_MEMBERS).settled
    bench.fleet.deploy(("m1",), MemberKind.OLD)
    assert app.watch(migration, StageName.UNDO_MEMBERS).settled


def _by_hand(bench: Bench) -> tuple[str, int]:
    """An approved migration whose members people replace, and its token."""
    bench.fleet = ManualFleet()  # type: ignore[assignment]
    app = bench.app()
    migration = bench.plan(until=Until.ROLL, driver="manual")
    brief = app.brief(migration, Gate.PLAN)
    app.answer(migration, Gate.PLAN, Answer(choice=Choice.APPROVE, who="ann", fingerprint=brief.fingerprint))
    return migration, app.claim(migration, "r")


def test_u10_an_act_of_a_person_is_not_done_before_the_person_did_it(bench: Bench) -> None:
    """``status`` says that it waits; the instruction names each member's host."""
    migration, token = _by_hand(bench)
    app = bench.app()
    outcome = app.act(migration, StageName.CANARY, token)
    assert outcome.state is ActState.PENDING
    progress = app.status(migration)[0].stage(StageName.CANARY)
    assert progress is not None
    assert progress.step is not StepState.DONE
    assert progress.act == "waits for a person"
    assert "waits for a person" in outcome.detail


def test_u10_the_journal_names_only_the_members_that_a_person_replaces(bench: Bench) -> None:
    """Beside the instruction: those that go back, or nobody where nobody was replaced."""
    for replaced in ((), ("m1",)):
        bench = make_bench()
        migration, token = _by_hand(bench)
        app = bench.app()
        app.act(migration, StageName.CANARY, token)
        for name in replaced:
            bench.world.places[name].kind = MemberKind.AWARE
        bench.world.tick()
        app.begin_roll_back(migration, WayBack.OLD_MEMBERS, token)
        detail = app.act(migration, StageName.UNDO_MEMBERS, token).detail
        view = bench.world.read(bench.world.group)
        gone = [each.member_id for each in view.of_kind(MemberKind.AWARE)]
        said = (
            f"takes {', '.join(gone)} back to old members"
            if gone
            else "starts old members where one is missing"
        )
        assert detail == f"waits for a person, who {said}"


def test_u10_a_rollback_asks_people_only_for_the_members_that_they_replaced(bench: Bench) -> None:
    """Of a canary that nobody deployed nothing is to be taken back, and of one that was only that one."""
    migration, token = _by_hand(bench)
    app = bench.app()
    app.act(migration, StageName.CANARY, token)
    bench.world.places["m1"].kind = MemberKind.AWARE
    bench.world.tick()
    app.begin_roll_back(migration, WayBack.OLD_MEMBERS, token)
    outcome = app.act(migration, StageName.UNDO_MEMBERS, token)
    assert "**Take 1 member(s)" in outcome.instruction
    (aware,) = [each.member_id for each in bench.world.read(bench.world.group).of_kind(MemberKind.AWARE)]
    assert aware in outcome.instruction
    others = [each.member_id for each in bench.world.read(bench.world.group).of_kind(MemberKind.OLD)]
    assert not any(f"- {each}" in outcome.instruction for each in others)
