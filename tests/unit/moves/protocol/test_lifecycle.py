"""A run of the protocol from its beginning to each of its ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from groupshift.domain.group_protocol import Protocol
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine.group import LiveGroup
from groupshift.engine.move import Run
from groupshift.engine.progress import Ended, Stopped
from groupshift.engine.questions_and_approvers import Answer, Question
from groupshift.engine.status import report_of
from groupshift.engine.watch import watch
from groupshift.errors import Rejected, Transient
from groupshift.moves.protocol.facts import look
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind
from groupshift_testing.evidence import MemoryEvidence
from support.simulated_runs import At, Processes, make_processes

PLAIN, NATIVE = MemberKind.PLAIN, MemberKind.NATIVE
UP = Protocol.CONSUMER
BEFORE, AFTER = CrashPoint.BEFORE_JOURNAL, CrashPoint.AFTER_READ_BACK


def rules(group: Processes, name: str, step: str) -> dict[str, str]:
    """What the last judge at this step said, by rule; of a rule that spoke twice what is not passed."""
    events = [
        each
        for each in group.runs.events(name)
        if each.kind is EventKind.JUDGED and each.step.endswith(step) and each.body["findings"]
    ]
    said = sorted(events[-1].body["findings"], key=lambda each: each["verdict"] != "pass")
    return {each["rule"]: each["verdict"] for each in said}


def loses(group: Processes, place: str = "m3") -> Callable[[], None]:
    """A place whose member ends and is not started again."""

    def lose() -> None:
        group.world.places[place].running, group.world.places[place].held = False, True

    return lose


def repair(group: Processes) -> None:
    """The member is there again."""
    group.world.places["m3"].running, group.world.places["m3"].held = True, False
    group.world.tick()


def test_a_member_that_is_lost_takes_the_run_back_and_is_named(group: Processes) -> None:
    """After the canary has acted; what it replaced is as it was."""
    name = group.begin(to=UP)
    at = At({f"canary/replace_members {AFTER.value}": loses(group)})
    at.points[f"undo_members/judge before {AFTER.value}"] = lambda: repair(group)
    ended = group.drive(name, at)
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL)
    assert "m3" in ended.closing.reason
    assert group.kinds() == [PLAIN] * 3


def test_a_rollback_that_cannot_be_proven_stays_open_and_red(group: Processes) -> None:
    """The lost member is still missing; measured anew by the next process, which finds it back."""
    name = group.begin(to=UP)
    stopped = group.drive(name, At({f"canary/replace_members {AFTER.value}": loses(group)}))
    assert isinstance(stopped, Stopped)
    assert (group.state(name), stopped.waits) == (RunState.ROLLING_BACK, False)
    assert group.sealed == [RunState.ROLLING_BACK]
    repair(group)
    ended = group.drive(name)
    assert isinstance(ended, Ended)
    assert group.state(name) is RunState.ROLLED_BACK


def test_a_forged_snapshot_is_named_and_the_run_goes_back(group: Processes) -> None:
    """With a manifest that fits it: the journal sees that it is not its own."""

    def forge() -> None:
        key = next(each for each in group.evidence.snapshots if "after-canary" in each[1])
        owners = list(group.evidence.snapshots[key][1]["owners"])
        group.evidence.alter(key, "owners", [*owners, {**owners[0], "member_id": "x"}], rehash=True)

    name = group.begin(to=UP)
    group.drive(name, At({f"canary/compare after {CrashPoint.AFTER_ACT.value}": forge}))
    said = rules(group, name, "canary/judge after")
    assert {rule for rule, verdict in said.items() if verdict == "fail"} == {"J03"}
    assert said["J01"] == "error", "what was compared is not what was taken"
    assert group.state(name) is RunState.ROLLED_BACK


class Tampered(MemoryEvidence):
    """Evidence in which somebody empties a table right after it was written."""

    def write(self, manifest_of, taken_at_ms, tables):
        """See the port."""
        manifest = super().write(manifest_of, taken_at_ms, tables)
        if "after-canary" in manifest_of[1]:
            self.alter(manifest_of, "owners", [], rehash=False)
        return manifest


def test_an_altered_snapshot_is_refused_before_anything_is_compared(group: Processes) -> None:
    """No Spark job runs on it; the run goes back."""
    group.evidence = group.proof.evidence = Tampered()
    name = group.begin(to=UP)
    group.drive(name)
    said = rules(group, name, "canary/judge after")
    assert {rule for rule, verdict in said.items() if verdict == "fail"} == {"J02"}
    assert group.kinds() == [PLAIN] * 3
    assert not any("canary-compare-after" in path for path in group.evidence.texts)


def test_a_proof_that_was_changed_is_named(group: Processes) -> None:
    """What the judge reads is not what was journaled of it."""
    name = group.begin(to=UP)

    def change() -> None:
        paths = (each for each in group.evidence.texts if each.endswith("verdict.json"))
        path = next(each for each in paths if "canary-compare-after" in each)
        group.evidence.texts[path] += " "

    group.drive(name, At({f"canary/judge after {BEFORE.value}": change}))
    assert rules(group, name, "canary/judge after")["J04"] == "fail"
    assert group.state(name) is RunState.ROLLED_BACK


def test_a_proof_that_never_comes_is_asked_for_twice_and_then_a_person_decides(group: Processes) -> None:
    """Neither on nor back without a word; who answers nothing leaves the run open."""
    name, jobs = group.begin(to=UP), []

    def fails(job: object) -> None:
        jobs.append(job)
        raise Transient("no executor")

    stopped = group.drive(name, submit=fails, decide=_only_plans(group))
    assert isinstance(stopped, Stopped)
    assert len(jobs) == 2
    assert rules(group, name, "canary/judge before") == {"J01": "error"}
    assert isinstance(group.drive(name), Ended)
    assert group.state(name) is RunState.MOVED


def _only_plans(group: Processes) -> Callable[[Question], Answer | None]:
    return lambda question: group.decide(question) if "approve" in question.gate else None


def test_a_rejected_plan_changes_nothing(group: Processes) -> None:
    """The run ends rejected, naming who said no, and the group is free."""
    group.declines = frozenset({"plan/approve"})
    name = group.begin(to=UP)
    stopped = group.drive(name)
    assert isinstance(stopped, Stopped)
    assert stopped.closing is not None
    assert (stopped.closing.state, stopped.closing.verdict) == (RunState.REJECTED, Verdict.FAIL)
    assert "bob" in stopped.closing.reason
    assert group.kinds() == [PLAIN] * 3
    group.declines = frozenset()
    assert group.begin(to=UP)


def test_a_failure_during_the_soak_is_judged_and_rolled_back(group: Processes) -> None:
    """Even when the group looks healthy again afterwards."""
    name = group.begin(to=UP, soak=30)
    at = At({f"soak/soak {BEFORE.value}": loses(group)})
    at.points[f"soak/snapshot after soak {BEFORE.value}"] = lambda: repair(group)
    group.drive(name, at)
    assert "fail" in rules(group, name, "soak/judge after").values()
    assert group.state(name) is RunState.ROLLED_BACK


def test_a_member_that_restarts_is_no_failure(group: Processes) -> None:
    """It is back within the judge's patience."""

    def die_and_return() -> None:
        group.world.places["m2"].running = False
        group.clock.on_sleep.append(lambda _s: group.world.places["m2"].__setattr__("running", True))

    name = group.begin(to=UP)
    group.drive(name, At({f"canary/judge after {CrashPoint.AFTER_ACT.value}": die_and_return}))
    assert group.state(name) is RunState.MOVED


def test_a_canary_alone_can_be_moved_and_taken_back(group: Processes) -> None:
    """The soak asks for no protocol while both are at home."""
    name = group.begin(to=UP, canary_only=True)
    ended = group.drive(name)
    assert isinstance(ended, Ended)
    assert ended.closing.reason == "the canary speaks the consumer protocol; the rollback is open"
    assert group.kinds() == [NATIVE, PLAIN, PLAIN]
    group.roll_back(name)
    assert (group.state(name), group.kinds()) == (RunState.ROLLED_BACK, [PLAIN] * 3)


def test_a_second_run_goes_on_with_who_is_left(group: Processes) -> None:
    """Places that run the wanted kind are not replaced again; only the later run is taken back first."""
    first = group.begin(to=UP, canary_only=True)
    group.drive(first)
    second = group.begin(to=UP)
    group.drive(second)
    assert group.kinds() == [NATIVE] * 3
    with pytest.raises(Rejected, match="was followed by"):
        group.roll_back(first)
    group.roll_back(second)
    assert group.kinds() == [NATIVE, PLAIN, PLAIN]


def test_a_run_that_was_taken_back_is_measured_again_and_not_undone_again(group: Processes) -> None:
    """The driver is asked for nothing more."""
    name = group.begin(to=UP)
    group.drive(name)
    group.roll_back(name)
    applied = {key: times for key, times in group.fleet.applied.items() if "roll_back" not in key}
    group.roll_back(name)
    assert {key: times for key, times in group.fleet.applied.items() if "roll_back" not in key} == applied
    assert group.state(name) is RunState.ROLLED_BACK


def test_a_run_that_is_over_is_watched(group: Processes) -> None:
    """Of the wanted type, with all members on its epochs; a member that came back is named."""
    name = group.begin(to=UP)
    group.drive(name)
    assert watch(group.move, group.tools(), group.ports(), name).outcome.value == "pass"
    group.world.places["m2"].kind = PLAIN
    found = watch(group.move, group.tools(), group.ports(), name)
    assert [each.rule for each in found.findings if each.verdict is Verdict.FAIL] == ["PS05"]


def test_a_gate_says_how_long_reading_pauses(group: Processes) -> None:
    """From what was measured, by way and direction."""
    for offline, said in ((False, "about 5 to 10 s"), (True, "about 11 to 18 s")):
        group.declines = frozenset({"plan/approve"})
        group.drive(group.begin(to=UP, offline=offline))
        assert said in group.asked[-1].pause


def test_a_report_needs_the_journal_alone(group: Processes) -> None:
    """It names places, driver and what each judge said."""
    name = group.begin(to=UP)
    group.drive(name)
    shown = report_of(Run.reader(group.move, group.tools(), group.ports(), name))
    assert {"The move", "Judgements"} <= {each.title for each in shown}
    judgements = next(each for each in shown if each.title == "Judgements")
    assert len(judgements.rows) == 6


def seen_with(group: Processes, subscription: tuple[tuple[str, int], ...]) -> LiveGroup:
    """The group as it is, each member of which subscribes so."""
    live = look(group.ports(), group.request(to=UP))
    members = tuple(replace(each, subscription=subscription) for each in live.facts.view.members)
    return replace(live, facts=replace(live.facts, view=replace(live.facts.view, members=members)))


def test_what_a_rebalance_hides_is_no_part_of_an_approval(group: Processes) -> None:
    """The coordinator of a classic group that rebalances tells no subscriptions: an approval given for that
    would be void at once. A native member may subscribe to what is not told."""
    told, hidden = seen_with(group, (("orders", 1),)), seen_with(group, ())
    assert (told.hides, hidden.hides) == (False, True)
    assert "subscriptions" in told.aspects
    assert told.aspects.keys() - hidden.aspects.keys() == {"subscriptions"}
    native = seen_with(make_processes(NATIVE), ())
    assert not native.hides
    assert "subscriptions" in native.aspects
    assert not {"plan", "evidence", "mode"} & native.aspects.keys()
