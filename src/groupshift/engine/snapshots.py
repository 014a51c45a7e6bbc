"""Steps that take all groups of a cluster, and that compare them with what they were. Whatever the move.

A comparison takes a snapshot, and a Spark job compares it with an earlier one. The bytes of live commits are
read with every snapshot: a record that nobody committed again is the same, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from groupshift.domain.equality_rules import RULES, Comparison, Field
from groupshift.domain.foreign_text_quoting import without_login
from groupshift.domain.reactions_to_verdicts import OnFail
from groupshift.domain.rows import INCOMPLETE, LISTED_TOO, OffsetRow, ProblemRow
from groupshift.domain.run import (
    PASSED,
    Checked,
    Findings,
    Json,
    OnDifference,
    Outcome,
    SparkJob,
    Step,
    StepRecord,
    StepState,
    Target,
    findings_data,
    spark_job_from,
)
from groupshift.domain.step_table import StepTable
from groupshift.domain.verdict import Finding, Verdict, worst
from groupshift.engine.handlers import JOB
from groupshift.engine.move import Handler, Move, Run, Standing
from groupshift.errors import Transient
from groupshift.log.commit_hashes import LiveCommit, differences, live_commits
from groupshift.ports.cluster import ClusterGroups, ClusterSnapshotStore
from groupshift.ports.evidence import EvidenceFolder
from groupshift.ports.log import CommitHashes, OffsetsLog
from groupshift.ports.spark_jobs import Compared, ComparisonOutcomes

_step = StepTable("engine/steps.toml").step
RECORDS = "E90"
"""The rule that live commits are the same, byte for byte."""
FALLEN = "E92"
"""The rule that groups still answer what a snapshot has of them."""
WHOLE = "E91"
"""The rule that a snapshot has no problems."""
_SETS = (Field.GROUPS, Field.COMMITTED)
"""Fields that are sets: of group ids, and of committed offsets."""
_RESTARTING = frozenset({Comparison.PROTOCOL, Comparison.PROTOCOL_BACK})
"""Members are restarted in between: they commit where they are when they stop."""
_BAD = frozenset({Verdict.FAIL, Verdict.ERROR})
_SAID = 10
"""How many sentences are journaled; all are in the folder of the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPorts:
    """The ports that these steps need: the log of the offsets topic, who reads all groups, who keeps their
    snapshots and beside them the hashes of live commits, what comparisons left, the folder of all runs."""

    log: OffsetsLog
    reader: ClusterGroups
    store: ClusterSnapshotStore
    commits: CommitHashes
    outcomes: ComparisonOutcomes
    evidence: EvidenceFolder


C = TypeVar("C", bound=ClusterPorts)


class Exceptions(Generic[C]):
    """What a move lets pass. The defaults let nothing pass but what is left of a topic that is gone."""

    def has_log(self, run: Run[C]) -> bool:
        """Return True where there is an offsets topic to read."""
        return True

    def harmless(self, run: Run[C], problem: ProblemRow) -> bool:
        """Return True for a problem of a snapshot that needs nobody."""
        return problem.of_leftover

    def keeps(self, run: Run[C], commit: LiveCommit) -> bool:
        """Return True for a record that has to stay where it is in the log."""
        return True

    def dropped(self, run: Run[C]) -> frozenset[tuple[str, str, int]]:
        """Return the offsets (group, topic, partition) that a person let go of."""
        return frozenset()

    def residue(self, run: Run[C]) -> str:
        """Return why groups may be listed twice, with the cure; empty: they may not."""
        return ""


class TakeClusterSnapshot(Handler[C]):
    """Takes the snapshot ``step.subject`` of all groups, with the bytes of their live commits."""

    def __init__(self, exceptions: Exceptions[C]) -> None:
        self.exceptions = exceptions

    def act(self, run: Run[C], step: Step, intent: Json) -> Json | SparkJob:
        """See `Handler`."""
        return self.take(run, step)

    def take(self, run: Run[C], step: Step) -> Json:
        """Take it into a folder that no other attempt has; returns what is journaled of it.

        Raises:
            Transient, Broken, Rejected: as `ClusterGroups.take`, `OffsetsLog.read` and the stores do.
        """
        ports = run.ports
        folder = ports.evidence / run.name / run.attempt(step)
        ports.store.refuse(folder)
        state = ports.reader.take(None)
        manifest = ports.store.write(folder, state)
        problems = [each for each in state.problems if not self.exceptions.harmless(run, each)]
        has_log = self.exceptions.has_log(run)
        commits = live_commits(ports.log.read(ports.log.position())) if has_log else ()
        path = folder.with_name(f"{folder.name}.commits.json")
        return {
            "folder": str(folder),
            "groups": len(state.groups),
            "manifest_sha256": manifest.digest,
            "problems": first_sentences([each.problem for each in problems]),
            "offsets_known": all(each.of_listing or each.group is None for each in problems),
            "commits": str(path),
            "commits_sha256": ports.commits.write(path, commits),
            "records": len(commits),
        }

    def check(self, run: Run[C], step: Step, record: StepRecord) -> Checked:
        """Return whether it is whole; one with problems is an error, and is taken anew."""
        problems = record.result["problems"]
        if not problems:
            return PASSED
        reason = f"snapshot {step.subject} has problems: {'; '.join(problems)}"
        finding = Finding(rule=WHOLE, verdict=Verdict.ERROR, reason=reason, hint="cure that and run it again")
        return Checked(outcome=Outcome.ERROR, findings=(finding,))

    def evidence(self, run: Run[C], step: Step, record: StepRecord) -> Mapping[str, str]:
        """See `Handler`."""
        return {step.key: run.ports.store.digest(Path(record.result["folder"]))}


class CompareClusters(TakeClusterSnapshot[C]):
    """Takes the snapshot ``step.subject`` and compares it with ``args["base"]`` by the rules of
    ``args["move"]``; with ``args["live"]`` commits went on in between.

    A snapshot that is not whole is only compared where a person may accept that (`Exceptions.residue`)."""

    def stands(self, run: Run[C], step: Step, record: StepRecord) -> Standing:
        """Made when its Spark job left an outcome of exactly these snapshots, whoever submitted it."""
        if record.state is not StepState.ACTED or JOB not in record.result:
            return Standing.AS_MET
        return Standing.MADE if self._outcome(run, step, record) is not None else Standing.AS_MET

    def act(self, run: Run[C], step: Step, intent: Json) -> Json | SparkJob:
        """Take the snapshot, and compare: in this process where it can submit jobs, else the caller does. A
        job that failed left no answer."""
        taken = self.take(run, step)
        may_accept = taken["offsets_known"] and step.on_difference is OnDifference.ACCEPTABLE
        if taken["problems"] and not (may_accept and self.exceptions.residue(run)):
            return taken
        base, move, folder = run.snapshot(str(step.args["base"])), str(step.args["move"]), taken["folder"]
        output = f"{folder}-{move}"
        live = ("--live",) if step.args.get("live") else ()
        job = SparkJob(
            job="compare",
            arguments=(base.folder, folder, "--output", output, "--move", move, *live),
            inputs={base.folder: base.manifest_sha256, folder: taken["manifest_sha256"]},
            output=output,
        )
        if run.options.submit is None:
            return replace(job, beside=taken)
        run.submit(step, job)
        return {**taken, JOB: job.as_json()}

    def _outcome(self, run: Run[C], step: Step, record: StepRecord) -> Compared | None:
        """What the job left, None where that is not about the snapshots of now."""
        compared = run.ports.outcomes.read(Path(spark_job_from(record.result[JOB]).output))
        inputs = (run.snapshot(str(step.args["base"])).manifest_sha256, record.result["manifest_sha256"])
        return compared if compared is not None and compared.inputs == inputs else None

    def check(self, run: Run[C], step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        whole = super().check(run, step, record)
        if whole.outcome is Outcome.ERROR and JOB not in record.result:
            return whole
        compared = self._outcome(run, step, record)
        if compared is None:
            job = spark_job_from(record.result[JOB])
            detail = f"job {job.job} left no answer in {without_login(job.output)} of these snapshots"
            return Checked(outcome=Outcome.ERROR, detail=detail)
        lacks = whole.findings  # problems are judged here, where the move knows which are harmless
        findings = tuple(each for each in compared.findings if not each.reason.startswith(INCOMPLETE))
        verdict = worst(each.verdict for each in findings if each.verdict is not Verdict.INCONCLUSIVE)
        if verdict is Verdict.FAIL and self._only_dropped(run, step, record, findings):
            verdict = Verdict.PASS
            findings = tuple(
                replace(each, verdict=Verdict.PASS) if each.verdict is Verdict.FAIL else each
                for each in findings
            )
        unlike = self._unlike(run, step, record)
        if unlike or (lacks and verdict is Verdict.PASS):
            verdict = Verdict.FAIL
        if any(LISTED_TOO in each.reason for each in lacks):
            lacks = tuple(replace(each, hint=self.exceptions.residue(run)) for each in lacks)
        findings, detail = (*findings, *unlike, *lacks), ""
        if verdict is not Verdict.PASS:
            bad = [f"{each.rule}: {each.reason}" for each in findings if each.verdict in _BAD]
            detail = f"snapshot {step.subject} is not equal to {step.args['base']}: {'; '.join(bad)}"
        result = {"outcome": dict(compared.files), "findings": findings_data(findings)}
        return Checked(outcome=Outcome(verdict.value), findings=findings, detail=detail, result=result)

    def _only_dropped(self, run: Run[C], step: Step, record: StepRecord, findings: Findings) -> bool:
        """Whether nothing differs but offsets that a person let go of, and groups that had no others."""
        dropped = self.exceptions.dropped(run)
        sets = {each.number for each in RULES[Comparison(step.args["move"])] if each.field in _SETS}
        if not dropped or any(each.verdict in _BAD and each.rule not in sets for each in findings):
            return False
        base, after = run.snapshot(str(step.args["base"])), record.result
        store = run.ports.store
        before = _places(store.offsets(Path(base.folder), base.manifest_sha256)).keys()
        now = _places(store.offsets(Path(after["folder"]), after["manifest_sha256"])).keys()
        return before - now <= dropped and not now - before

    def _unlike(self, run: Run[C], step: Step, record: StepRecord) -> Findings:
        """One finding where live commits are not byte for byte as in the base. Records that were committed
        again differ nowhere where commits go on, or members are restarted in between.

        Raises `Broken` for files that were altered."""
        base = run.records[run.snapshot(str(step.args["base"])).step].result
        anew = bool(step.args.get("live")) or step.args["move"] in _RESTARTING
        before, after = (
            run.ports.commits.read(Path(each["commits"]), each["commits_sha256"])
            for each in (base, record.result)
        )
        changes = differences(before, after, anew=anew)
        said = "; ".join(
            first_sentences([str(each) for each in changes if self.exceptions.keeps(run, each.now)])
        )
        return (Finding(rule=RECORDS, verdict=Verdict.FAIL, reason=said),) if said else ()

    def evidence(self, run: Run[C], step: Step, record: StepRecord) -> Mapping[str, str]:
        """See `Handler`."""
        compared = self._outcome(run, step, record) if JOB in record.result else None
        files = compared.files if compared is not None else {}
        of_files = {f"{step.key} {name}": sha256 for name, sha256 in files.items()}
        return {**super().evidence(run, step, record), **of_files}


def _places(rows: Iterable[OffsetRow]) -> dict[tuple[str, str, int], int]:
    """Return the committed offsets by group, topic and partition; -1 where there is none."""
    return {(each.group, each.topic, each.partition): each.offset for each in rows}


def first_sentences(said: Sequence[str]) -> list[str]:
    """Return the first sentences; where there are more, a last one has their number and a digest of all, so
    that who accepts them accepts exactly these."""
    if len(said) <= _SAID:
        return list(said)
    digest = hashlib.sha256("\n".join(sorted(said)).encode()).hexdigest()[:12]
    return [*said[:_SAID], f"and {len(said) - _SAID} more (digest of all: {digest})"]


def compare_step(
    phase: str,
    pair: tuple[str, str],
    move: Comparison,
    *,
    live: bool = False,
    repeat: bool = False,
    then: OnDifference = OnDifference.STOP,
) -> Step:
    """Return the step that takes a snapshot and compares it; ``pair`` is (its name, that of its base)."""
    name, base = pair
    said = {"base": base, "move": move}
    args = {"base": base, "move": move.value, "live": live}
    return _step("compare_clusters", name, said, phase=phase, args=args, repeat=repeat, on_difference=then)


def fallen_offsets(
    run: Run[C], name: str, dropped: Collection[tuple[str, str, int]] = frozenset(), *, expired: bool = False
) -> Findings:
    """Judge whether every group answers now at least the offsets that a snapshot of the run has, but for
    those that a person let go of (``dropped``); ``expired``: what is not answered at all may have expired.

    Raises:
        Transient: a group does not answer.
        Broken: the snapshot was altered.
    """
    snapshot = run.snapshot(name)
    rows = run.ports.store.offsets(Path(snapshot.folder), snapshot.manifest_sha256)
    kept = {at: offset for at, offset in _places(rows).items() if offset >= 0 and at not in dropped}
    state = run.ports.reader.take(sorted({group for group, _, _ in kept}))
    silent = [each.problem for each in state.problems if not (each.of_listing or each.of_leftover)]
    if silent:
        raise Transient(f"not every group answers: {silent[0]}; run it again")
    now = {at: offset for at, offset in _places(state.offsets).items() if offset >= 0}
    said = [
        f"group {group}, {topic}-{partition}: {offset} then, {now.get((group, topic, partition), 'none')} now"
        for (group, topic, partition), offset in sorted(kept.items())
        if now.get((group, topic, partition), offset if expired else -1) < offset
    ]
    if not said:
        reason = f"{len(kept)} committed offsets of snapshot {name} are answered, none is lower"
        return (Finding(rule=FALLEN, verdict=Verdict.PASS, reason=reason),)
    hint = "see who reset or deleted them, before clients read their records again"
    return (Finding(rule=FALLEN, verdict=Verdict.FAIL, reason="; ".join(first_sentences(said)), hint=hint),)


class ClusterMove(Move[C]):
    """A move of a whole cluster: only what it overrides is its own. Its runs stop at what fails and stay
    open: nothing is taken back by itself."""

    scope = "cluster"
    on_fail = OnFail.STOP
    stop_frees = False
    void_ends = True
    changing: tuple[str, ...] = ()
    """Phases whose begun steps change what the plan was approved for."""

    def target(self, ports: C, request: Any) -> Target:
        """See `Move`."""
        return Target(kind="cluster", name=ports.reader.cluster_id())

    def glance(self, ports: C, request: Any, begun: Collection[str]) -> Any:
        """See `Move`: nothing once the run changes what was approved."""
        changing = any(each.partition("/")[0] in self.changing for each in begun)
        return None if changing else self.look(ports, request)

    def look_back(self, ports: C, request: Any) -> None:
        """See `Move`: the plan tells what is to be undone, so nothing has to answer."""
