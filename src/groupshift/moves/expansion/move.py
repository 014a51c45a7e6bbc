"""The move ``expansion``: the offsets topic gets more partitions, and groups that move keep their offsets.

Kafka finds a group by the hash of its name modulo the count of partitions: with another count most groups are
looked for elsewhere, and their offsets are lost unless somebody carries them there. Source: KIP-895;
docs/reference/group-coordinator.md §3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from groupshift.domain.cluster import retention_ms
from groupshift.domain.rows import ProblemRow
from groupshift.domain.run import Checked, Findings, Outcome, Plan, RunState, Step, StepRecord
from groupshift.domain.verdict import Finding, Verdict, against
from groupshift.engine.handlers import own_handlers
from groupshift.engine.move import Aspects, Handler, Run
from groupshift.engine.questions_and_approvers import utc
from groupshift.engine.snapshots import ClusterMove, Exceptions, TakeClusterSnapshot, fallen_offsets
from groupshift.errors import Transient
from groupshift.log.commit_hashes import LiveCommit
from groupshift.moves.expansion import rehearse_and_commit_again, report, restart_brokers, steps
from groupshift.moves.expansion.facts import ExpansionRequest
from groupshift.moves.expansion.plan_and_rollback import BEGUN, aspects, planned, rollback
from groupshift.moves.expansion.ports import (
    SNAPSHOT,
    Expanding,
    ExpansionPorts,
    count_of,
    counts_of,
    dropped,
    moves,
    naming,
)
from groupshift.moves.expansion.restore import Key
from groupshift.moves.expansion.rules import Placement, audit_placement, plan_expansion
from groupshift.ports.driver import ClientFence
from groupshift.ports.runs import EventKind

STRAYS = "E96"
"""The rule that groups which moved lie where they belong, and nowhere else."""


class _Exceptions(Exceptions[ExpansionPorts]):
    def harmless(self, run: Expanding, problem: ProblemRow) -> bool:
        """Residue of a group that stays where it is, too (NEW coordinators let it expire)."""
        group = problem.group
        if problem.of_leftover:
            return True
        return problem.of_listing and group is not None and not moves(run, group, count_of(run))

    def keeps(self, run: Expanding, commit: LiveCommit) -> bool:
        """What moves is committed anew by the run itself, from its rehearsal on."""
        records = run.records
        rehearsed = any(each.kind == "rehearse" and each.key in records for each in run.there.steps)
        return not (rehearsed and moves(run, commit.group, count_of(run)))

    def dropped(self, run: Expanding) -> frozenset[Key]:
        """See `groupshift.moves.expansion.ports.dropped`."""
        return dropped(run)

    def residue(self, run: Expanding) -> str:
        """Groups that moved without being deleted, and what was committed while they did."""
        return (
            "what was not deleted may be listed where it was, too: groupshift repair placement --execute "
            "cures that on OLD coordinators, a NEW one deletes it when it expires"
        )


_PAUSE = (
    "nobody may consume before the run has reached its verdict: the pause is all that is left of the run."
)


class ExpansionMove(ClusterMove[ExpansionPorts]):
    """More partitions of __consumer_offsets (KIP-895), every group's offsets kept."""

    name = "expansion"
    request = ExpansionRequest
    ports = ExpansionPorts
    changing = BEGUN
    handlers: Mapping[str, Handler[ExpansionPorts]] = {
        **own_handlers(),
        "snapshot": TakeClusterSnapshot(_Exceptions()),
        "compare": rehearse_and_commit_again.CompareSnapshots(_Exceptions()),
        "drain": steps.Drain(),
        "agree": steps.Agree(),
        "prove": steps.Prove(),
        "fence": steps.Fence(),
        "reopen": steps.Fence(),
        "delete-groups": steps.DeleteGroups(),
        "create-partitions": restart_brokers.CreatePartitions(),
        "restart": restart_brokers.Restart(),
        "place": restart_brokers.CheckCounts(),
        "rehearse": rehearse_and_commit_again.Rehearse(),
        "restore": rehearse_and_commit_again.Restore(),
        "verify": rehearse_and_commit_again.Verify(),
        "audit": rehearse_and_commit_again.Audit(),
    }
    observed = staticmethod(report.observed)
    assessment_page = staticmethod(report.render)
    page = staticmethod(report.page)

    def look(self, ports: ExpansionPorts, request: ExpansionRequest) -> Placement:
        """See `Move`: the brokers, and all of the offsets log."""
        placement = plan_expansion(ports.views, ports.log, request.to)
        return replace(placement, fenced=isinstance(ports.nodes, ClientFence))

    def assess(self, request: ExpansionRequest, facts: Placement) -> Findings:
        """See `Move`."""
        return facts.judgement.findings

    def plan(self, request: ExpansionRequest, facts: Placement) -> Plan:
        """See `Move`."""
        return planned(facts, request.drain)

    def fingerprint(self, facts: Placement | None, begun: Collection[str]) -> Aspects:
        """See `Move`."""
        return {} if facts is None else aspects(facts.facts)

    def may_roll_back(self, run: Expanding, facts: None) -> Finding:
        """See `Move`: once brokers may use the new partitions, what was committed at the former coordinators
        would be lost, and every step forward can be repeated."""
        plan, view = counts_of(run.there), run.ports.views.look()
        if view.differing:
            raise Transient("brokers tell different counts of the offsets topic now; run it again")
        making = any(each.kind == "create-partitions" and each.key in run.records for each in run.there.steps)
        if making and view.count == plan.to != plan.partitions:
            return Finding(
                rule="R01",
                verdict=Verdict.FAIL,
                reason=f"partitions never become fewer, and there are {view.count}",
                hint=f"go on with: groupshift continue {run.name} --execute",
            )
        return Finding(rule="R01", verdict=Verdict.PASS, reason="no broker uses the new partitions")

    def roll_back_plan(self, run: Expanding, begun: Mapping[str, StepRecord], facts: None, to: str) -> Plan:
        """See `Move`."""
        return rollback(run.there, begun, len(run.rollbacks()) + 1)

    def watch(self, run: Run[ExpansionPorts]) -> Checked:
        """See `Move`: placement, and whether every group answers what it had, for as long as offsets are
        kept. Raises `Transient` where a group does not answer, and the audit does not say why."""
        audit = audit_placement(run.ports.views, run.ports.log)
        ended = [each.at_ms for each in run.events() if each.kind is EventKind.CLOSED]
        until_ms = ended[-1] + retention_ms(audit.facts.view)
        findings = audit.judgement.findings
        # a client committed at a former coordinator, or the run went on in spite of it
        residue = audit.facts.log.residue if audit.facts.log else frozenset()
        if moved := counts_of(run.there).moving & residue:
            reason = f"something lies elsewhere of {naming(moved)}, which the run moved"
            hint = "stop their clients, and see what is there: groupshift repair placement"
            findings += (Finding(rule=STRAYS, verdict=Verdict.FAIL, reason=reason, hint=hint),)
        try:
            findings += fallen_offsets(run, SNAPSHOT, dropped(run), expired=run.now() > until_ms)
        except Transient:
            if audit.clean:
                raise
        if against(findings):
            return Checked(outcome=Outcome.FAIL, findings=findings)
        how = "that was long enough" if run.now() > until_ms else "watch it once a day"
        detail = f"what the run left is as it was; offsets are kept until {utc(until_ms)}: {how}"
        return Checked(outcome=Outcome.PASS, findings=findings, detail=detail)

    def closing(self, run: Run[ExpansionPorts], state: RunState) -> tuple[str, str]:
        """See `Move`."""
        if state is not RunState.FINALISED:
            return "", ""
        return f"every broker uses {count_of(run)} partitions of the offsets topic", ""

    def pause(self, plan: Plan, ahead: Sequence[Step]) -> str:
        """See `Move`."""
        return _PAUSE
