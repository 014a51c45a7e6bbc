"""Gates: what is shown, what an answer is worth, and how a run ends without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.evidence import Moment
from groupshift.domain.judgement import Readiness
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Answer, Choice, Gate, MoveRequest, Phase, StageName, Until
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Rejected
from support.simulated_move import Bench, make_bench

AWARE, PLAIN = MemberKind.AWARE, MemberKind.PLAIN


def answer(fingerprint: str, choice: Choice = Choice.APPROVE) -> Answer:
    """Ann's answer."""
    return Answer(choice=choice, who="ann", fingerprint=fingerprint)


def test_a_brief_shows_plan_findings_and_hashes(bench: Bench) -> None:
    """As Markdown tables."""
    migration = bench.plan()
    brief = bench.app().brief(migration, Gate.PLAN)
    planned = bench.app().planned(migration)
    assert "orders-app" in brief.subject
    for text in (
        "| 1 | canary |",
        "checks passed",
        planned.plan_hash,
        brief.fingerprint,
    ):
        assert text in brief.body


def test_an_answer_is_void_when_the_group_changed_while_somebody_thought(bench: Bench) -> None:
    """The group is read again when the answer arrives; asking again shows the new state."""
    migration = bench.plan()
    app = bench.app()
    brief = app.brief(migration, Gate.PLAN)
    bench.world.partitions["orders"] = 7
    bench.world.znode.update(dict.fromkeys(bench.world.all_partitions(), 90))
    with pytest.raises(Conflict, match=r"approval void: .*partitions orders: 6 is now 7"):
        app.answer(migration, Gate.PLAN, answer(brief.fingerprint))
    again = app.brief(migration, Gate.PLAN)
    app.answer(migration, Gate.PLAN, answer(again.fingerprint))
    assert app.status(migration)[0].phase is Phase.APPROVED


def test_an_answer_to_something_never_shown_is_void(bench: Bench) -> None:
    """No fingerprint, no approval."""
    migration = bench.plan()
    with pytest.raises(Conflict, match="never showed"):
        bench.app().answer(migration, Gate.PLAN, answer("f" * 64))


def test_an_old_brief_is_no_longer_an_approval(bench: Bench) -> None:
    """After the expiry it has to be shown again."""
    migration = bench.plan()
    brief = bench.app().brief(migration, Gate.PLAN)
    bench.clock.sleep(2 * 86400)
    with pytest.raises(Conflict, match=r"shown .* ago"):
        bench.app().answer(migration, Gate.PLAN, answer(brief.fingerprint))


def test_a_rejection_is_always_taken(bench: Bench) -> None:
    """Whatever changed; and repeating it changes nothing."""
    migration = bench.plan()
    app = bench.app()
    app.brief(migration, Gate.PLAN)
    bench.world.write_mode(b"zookeeper")
    for _ in range(2):
        app.answer(migration, Gate.PLAN, answer("", Choice.REJECT))
    closing = app.close(migration, app.claim(migration, "r"))
    assert (closing.phase, closing.verdict) == (Phase.REJECTED, Verdict.FAIL)


@pytest.mark.parametrize(
    ("gate", "choice"),
    [(Gate.PLAN, Choice.FINALISE), (Gate.FINALISE, Choice.APPROVE), (Gate.TOGGLE, Choice.KEEP)],
)
def test_an_answer_must_fit_its_gate(bench: Bench, gate: Gate, choice: Choice) -> None:
    """Finalise and keep belong to the last gate only."""
    migration = bench.plan()
    with pytest.raises(Rejected, match="does not fit"):
        bench.app().answer(migration, gate, answer("x", choice))


def test_nobody_answering_ends_red_and_unchanged(bench: Bench) -> None:
    """The group is free for the next migration."""
    migration = bench.plan()
    closing = bench.app().close(migration, bench.app().claim(migration, "r"))
    assert "not answered" in closing.reason
    assert bench.app().plan(bench.request(run="next")).migration != migration


def test_a_second_migration_of_the_same_group_is_refused(bench: Bench) -> None:
    """By name, with what to do; the same run only gets its own again."""
    migration = bench.plan()
    assert bench.plan() == migration
    with pytest.raises(Rejected, match=migration):
        bench.plan(run="other")
    assert bench.plan(run="look", execute=False) != migration, "a look is allowed"


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (MoveRequest(group="nobody"), "known neither"),
        (MoveRequest(group="orders-app", canary=4), "canary 4 is more than the 3 members"),
        (MoveRequest(group="orders-app", canary=0), "canary 0"),
    ],
)
def test_a_request_that_cannot_be_planned_is_one_sentence(
    bench: Bench, request_: MoveRequest, says: str
) -> None:
    """And nothing is journaled."""
    with pytest.raises(Rejected, match=says):
        bench.app().plan(request_)
    assert bench.journal.recent(9) == ()


def test_a_group_that_is_not_ready_is_not_planned(bench: Bench) -> None:
    """Plain members beside old ones; the sentence names them."""
    bench.world.strangers = ("kc-1",)
    assert bench.app().assess(bench.request()).readiness is Readiness.NOT_READY
    with pytest.raises(Rejected, match="C04: plain Kafka members kc-1"):
        bench.plan()


def test_a_group_that_is_there_already_has_nothing_to_move() -> None:
    """All aware and in kafka mode."""
    bench = make_bench(AWARE)
    bench.world.write_mode(b"kafka")
    with pytest.raises(Rejected, match="nothing to move"):
        bench.plan(until=Until.TOGGLE)


def test_a_group_in_kafka_mode_can_still_be_retired() -> None:
    """Without a toggle of its own."""
    bench = make_bench(AWARE)
    bench.world.write_mode(b"kafka")
    _, closing = bench.move(Until.RETIRE)
    assert closing.phase is Phase.MOVED
    assert bench.kinds() == [PLAIN] * 3


def test_a_doubt_is_asked_and_may_be_accepted(bench: Bench) -> None:
    """An inconclusive proof: a yes at the review goes on and counts as passed."""
    bench.proof = Doubtful(bench.evidence)
    migration = bench.plan(until=Until.CANARY)
    runner = replace(bench.runner(migration, "cli-1"), decide=lambda _brief: Choice.APPROVE)
    assert runner.forward().phase is Phase.MOVED
    refused = make_bench()
    refused.proof = Doubtful(refused.evidence)
    _, closing = refused.move(Until.CANARY)
    assert closing.verdict is Verdict.FAIL
    assert refused.kinds() == [MemberKind.OLD] * 3


def Doubtful(evidence):  # noqa: N802 - reads as the class it stands for
    """A proof that is never sure."""
    from groupshift_testing.evidence import MemoryProof

    class Unsure(MemoryProof):
        def run(self, request):
            super().run(request)
            path = f"{request.output}/verdict.json"
            self.evidence.texts[path] = self.evidence.texts[path].replace('"pass"', '"inconclusive"')

    return Unsure(evidence)


def test_a_missing_or_foreign_verdict_is_an_error_not_a_pass(bench: Bench) -> None:
    """Without a proof of exactly these snapshots nothing is proven."""
    migration = bench.plan()
    app = bench.app()
    app.snapshot(migration, "canary", "before")
    assert app.judge(migration, "canary", "before").verdict is Verdict.ERROR
    app.prove(app.proof(migration, "canary", "before"))
    assert app.judge(migration, "canary", "before").verdict is Verdict.PASS
    path = bench.evidence.path(migration, "canary", "validation-before", "verdict.json")
    for text in ("{", "{}", '{"findings": [], "manifests": {}}'):
        app.prove(app.proof(migration, "canary", "before"))
        bench.evidence.texts[path] = text
        assert app.judge(migration, "canary", "before").verdict is Verdict.ERROR


def test_a_verdict_of_an_earlier_snapshot_is_not_used(bench: Bench) -> None:
    """The manifests it names are not these."""
    migration = bench.plan()
    app = bench.app()
    app.snapshot(migration, "canary", "before")
    app.prove(app.proof(migration, "canary", "before"))
    app.snapshot(migration, "canary", "before")
    judged = app.judge(migration, "canary", "before")
    assert judged.verdict is Verdict.ERROR
    assert "other snapshots" in judged.findings[0].reason


def test_a_snapshot_that_was_relied_on_is_not_taken_again(bench: Bench) -> None:
    """The one before an act stays the one before the act."""
    migration, _ = bench.move(Until.CANARY)
    app = bench.app()
    taken = bench.evidence.manifest(migration, "canary", Moment.BEFORE)
    assert app.snapshot(migration, "canary", "before") == taken


def test_the_rehearsal_checks_both_directions() -> None:
    """A plain member would make the way back unsafe: the toggle is not offered."""
    bench = make_bench(AWARE)
    migration = bench.plan()
    assert bench.app().rehearse(migration).verdict is Verdict.PASS
    bench.world.strangers = ("kc-1",)
    judged = bench.app().rehearse(migration)
    assert judged.verdict is Verdict.FAIL
    assert any(finding.rule == "C16" for finding in judged.findings)


def test_status_tells_stages_and_reports(bench: Bench) -> None:
    """What was judged, when it began, where the report is."""
    migration, _ = bench.move(Until.CANARY)
    (found,) = bench.app().status(migration)
    canary = found.stage(StageName.CANARY)
    assert canary is not None
    assert canary.verdict(Moment.AFTER) is Verdict.PASS
    assert canary.validations[-1].report.endswith("canary/validation-after/report.html")
    assert found.reason
    assert [each.migration for each in bench.app().status()] == [migration]


def test_the_last_gate_shows_what_its_answer_depends_on(bench: Bench) -> None:
    """Whether a member is left that needs the mode node."""
    bench.move(Until.RETIRE)
    last = next(brief for brief in reversed(bench.asked) if brief.gate is Gate.FINALISE)
    assert "1 of 1 checks passed" in last.body
    assert "FAIL" not in last.body


def test_an_old_member_that_commits_to_kafka_is_not_moved(bench: Bench) -> None:
    """Two looks tell; the sentence names it and what to change (§9 line 6)."""
    bench.world.kafka = dict(bench.world.znode)
    moved = [p for p in bench.world.all_partitions() if p.partition < 2]

    def commit(_seconds: float) -> None:
        for partition in moved:
            bench.world.kafka[partition] = bench.world.ends[partition]

    bench.clock.on_sleep.append(commit)
    assessment = bench.app().assess(bench.request())
    (bad,) = [f for f in assessment.findings if f.verdict is Verdict.FAIL]
    assert (bad.rule, "orders-app_m1-1 commits to Kafka" in bad.reason) == ("C24", True)
    with pytest.raises(Rejected, match=r"C24: .*offsets.storage=kafka.*restart it with"):
        bench.plan()


def test_a_member_without_a_fence_keeps_the_group_in_zookeeper_mode() -> None:
    """It may be moved to as far as the roll, with a warning; a toggle is refused and says so (F6)."""
    bench = make_bench(AWARE)
    bench.world.places["m2"].fence = None
    with pytest.raises(Rejected, match=r"C(08|28): .*m2-1 publish no fence.*the mode stays zookeeper"):
        bench.plan(until=Until.TOGGLE)
    bench.world.places["m1"].kind = MemberKind.OLD
    migration = bench.plan(until=Until.ROLL)
    assert "has to stay in zookeeper mode" in bench.app().brief(migration, Gate.PLAN).body


def held(bench: Bench, **approval: object) -> object:
    """The App under these settings."""
    from groupshift.bootstrap import App
    from groupshift.settings import ApprovalSettings

    return App(replace(bench.environment(), approval=ApprovalSettings(**approval)))  # type: ignore[arg-type]


@pytest.mark.parametrize("gate", [Gate.PLAN, Gate.TOGGLE, Gate.REVIEW, Gate.FINALISE])
@pytest.mark.parametrize(
    "requester", ["ann", "ann (uid 1000)", "bob (uid 1000, ann)", "bob (uid 7) (uid 1000, ann)"]
)
def test_s11_who_asks_may_not_approve_with_four_eyes(bench: Bench, gate: Gate, requester: str) -> None:
    """At no gate, under no name that the account claims; a no is always taken."""
    migration = bench.plan()
    app = held(bench, four_eyes=True)
    brief = app.brief(migration, gate, StageName.CANARY if gate is Gate.REVIEW else None)  # type: ignore[attr-defined]
    choice = Choice.FINALISE if gate is Gate.FINALISE else Choice.APPROVE
    given = Answer(choice=choice, who=requester, fingerprint=brief.fingerprint)
    with pytest.raises(Rejected, match=r"asked for this and may not approve it .*another person"):
        app.answer(migration, gate, given)  # type: ignore[attr-defined]
    app.answer(migration, gate, replace(given, who="ann (uid 1001, eve)"))  # type: ignore[attr-defined]
    again = replace(given, choice=Choice.REJECT)
    app.answer(migration, gate, again)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "who", ["carl", "ann (uid 0, carl)", "ann (uid 5) (uid 0, root)", "annie", "", "ANN"]
)
def test_s11_only_the_named_approvers_may(bench: Bench, who: str) -> None:
    """By their account, not by what the environment claims."""
    migration = bench.plan()
    app = held(bench, approvers=("ann", "bob"))
    brief = app.brief(migration, Gate.PLAN)  # type: ignore[attr-defined]
    given = Answer(choice=Choice.APPROVE, who=who or "eve", fingerprint=brief.fingerprint)
    with pytest.raises(Rejected, match=r"may not approve.*approval\.approvers names ann, bob"):
        app.answer(migration, Gate.PLAN, given)  # type: ignore[attr-defined]
    app.answer(migration, Gate.PLAN, replace(given, who="x (uid 1000, bob)"))  # type: ignore[attr-defined]


def test_s11_the_account_stands_beside_the_claimed_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """LOGNAME is what anybody says; the user id is what the operating system says."""
    import os
    import pwd

    from groupshift.application.approval import identity
    from groupshift.cli.options import who

    real = pwd.getpwuid(os.getuid()).pw_name
    for claimed in ("somebody-else", f"eve (uid {os.getuid()})"):
        monkeypatch.setenv("LOGNAME", claimed)
        assert who() == f"{claimed} (uid {os.getuid()}, {real})"
        assert identity(who()) == real
    monkeypatch.setenv("LOGNAME", real)
    assert who() == f"{real} (uid {os.getuid()})"
    assert identity(who()) == real


def test_s11_settings_say_who_may_approve() -> None:
    """One section for both engines; wrong types are named."""
    from groupshift.settings import parse

    base = {
        "kafka": {"bootstrap_servers": "b:1"},
        "fleet": {"driver": "manual"},
        "journal": {"url": "sqlite://"},
        "evidence": {"root": "/e"},
    }
    found = parse({**base, "approval": {"approvers": ["ann"], "four_eyes": True}}).approval
    assert (found.approvers, found.four_eyes) == (("ann",), True)
    with pytest.raises(Rejected, match=r"approval\.four_eyes is not true or false"):
        parse({**base, "approval": {"four_eyes": 1}})
    with pytest.raises(Rejected, match=r"approval\.approvers is not a list of texts"):
        parse({**base, "approval": {"approvers": "ann"}})


@pytest.mark.parametrize("silent_s", [0, 2 * 86400])
def test_u09_keeping_the_way_back_is_taken_whatever_changed(bench: Bench, silent_s: int) -> None:
    """It is what silence means at the last gate, and it changes nothing."""
    migration, _ = bench.move(Until.RETIRE)
    app = bench.app()
    app.brief(migration, Gate.FINALISE)
    bench.clock.sleep(silent_s)
    bench.world.partitions["orders"] = 7
    app.answer(migration, Gate.FINALISE, Answer(choice=Choice.KEEP, who="nobody (expired)", fingerprint="-"))
    with pytest.raises(Conflict, match="approval void"):
        app.answer(migration, Gate.FINALISE, answer("-", Choice.FINALISE))
