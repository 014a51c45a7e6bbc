"""What runs of one group share: how its members, offsets and fleet are read, kept and compared.

A move of a group brings its rules (`GroupRules`) and its plan; `measured` puts a snapshot, a comparison and a
judge before and after each act of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from groupshift.domain.evidence import Moment, PlanOf, refuse_older
from groupshift.domain.facts import Facts, Slot, SlotState
from groupshift.domain.group import GroupView, aspects
from groupshift.domain.group_protocol import Aim, Kind
from groupshift.domain.group_rules import ask
from groupshift.domain.log_gaps import Gap, LogAnswer, answers_data, gaps, isolation_of
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.phase_rules import (
    AllowedChanges,
    allowed_changes,
    records_per_interval,
    restored_changes,
)
from groupshift.domain.phase_rules import (
    Snapshot as Tables,
)
from groupshift.domain.plan import Phase, PhaseName, ReplaceMembers, SetMode
from groupshift.domain.run import (
    PASSED,
    Checked,
    Findings,
    Json,
    OnDifference,
    Outcome,
    SparkJob,
    Step,
    findings_from,
    outcome_of,
)
from groupshift.domain.seal import values_of
from groupshift.domain.snapshot import snapshot_rows
from groupshift.domain.step_table import StepTable
from groupshift.domain.tables import table_of
from groupshift.domain.verdict import Judgement, Verdict
from groupshift.engine.handlers import Reading
from groupshift.engine.move import Run, Snapshot
from groupshift.ports.driver import FleetDriver
from groupshift.ports.evidence import EvidenceStore, Ledger
from groupshift.ports.group import GroupSide, GroupTerms
from groupshift.ports.log import NobodyAsksTheLog, RecordLog

_step = StepTable("engine/steps.toml").step
JOB = "validate"
"""The Spark job that compares two snapshots of a group."""
RULES_FILE = "rules.json"
VERDICT_FILE = "verdict.json"
CALM = ("C11", "C18")
"""A snapshot waits for a moment at which every partition is owned once and every place is filled; after an
act also for what that act leads to. A member that restarts is no finding."""
_PROOF_FILES = re.compile(
    r"(rules\.json|verdict\.json|report\.html|spark\.log|(differences|failing_rows)\.parquet)"
)
_LATE_S = 10
"""How long a snapshot waits for a ledger that is behind the commits of its group."""
_LOOK_AGAIN_S = 0.5
Wanted = Mode | Aim | None
"""What is to hold once a step has settled: a mode in effect, a protocol spoken, or nothing yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPorts:
    """What a run of one group works with."""

    side: GroupSide
    evidence: EvidenceStore
    ledger: Ledger
    records: RecordLog = field(default_factory=NobodyAsksTheLog)
    terms: GroupTerms = field(default_factory=GroupTerms)


G = TypeVar("G", bound=GroupPorts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRules:
    """Live rules of a phase, as numbers: ``before`` must hold right before its act, ``after`` once it has
    settled; ``mode`` is the one in effect then (None: the phase leads to none)."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    mode: Mode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The file ``phases.toml`` of a move: the rules of its `assess`, those that only need time, and the rules
    of each phase."""

    assess: tuple[str, ...]
    settled: frozenset[str]
    phases: Mapping[PhaseName, PhaseRules]


class GroupRules(ABC, Generic[G]):
    """The live rules of a move, as numbers, by phase: those of its ``phases.toml``. Raises `Rejected` for a
    file that is no such table."""

    def __init__(self, file: str) -> None:
        table = table_of(_Table, file)
        self.assess, self.phases, self.only_time = table.assess, table.phases, table.settled

    def before(self, step: Step) -> tuple[str, ...]:
        """Return what must hold right before the act."""
        return self.phases[PhaseName(step.phase)].before

    def after(self, step: Step) -> tuple[str, ...]:
        """Return what must hold once the act has settled; nothing before it, when the act itself asks."""
        return () if step.args.get("moment") == Moment.BEFORE else self.phases[PhaseName(step.phase)].after

    def settled(self, step: Step) -> tuple[str, ...]:
        """Return those of `after` that only need time."""
        return tuple(each for each in self.after(step) if each in self.only_time)

    @abstractmethod
    def wanted(self, run: Run[G], step: Step) -> Wanted:
        """Return what the step leads to."""

    def facts(self, run: Run[G], step: Step) -> Facts:
        """Read what the rules of `before` look at. May look twice, a few seconds apart."""
        return facts_now(run, self.wanted(run, step))

    def calm(self, run: Run[G], step: Step) -> Findings:
        """Return what speaks against a snapshot now."""
        after = self.after(step)
        numbers = after if step.args.get("nobody") else tuple(dict.fromkeys((*CALM, *after)))
        return ask_live(run, numbers, self.wanted(run, step) if after else None)

    def live(self, run: Run[G], step: Step) -> Findings:
        """Return what the rules after a step say now. Before one, the act itself asks."""
        return ask_live(run, self.after(step), self.wanted(run, step))

    def soaks(self, run: Run[G], step: Step) -> Checked:
        """Look once at a group that soaks: a failure may heal."""
        findings = ask_live(run, self.after(step), self.wanted(run, step))
        outcome = outcome_of(findings)
        return Checked(outcome=outcome, findings=findings, heals=outcome in {Outcome.FAIL, Outcome.ERROR})


def group_of(run: Run[G]) -> str:
    """Return the group that the run is of."""
    return run.record.target.name


def driver_of(run: Run[G]) -> FleetDriver:
    """Return the driver that the plan names."""
    return run.ports.side.fleets(str(run.there.about["driver"]))


def facts_of(side: GroupSide, group: str, driver: str, wanted: Wanted = None) -> Facts:
    """Read the fleet, then the group: whoever ran before it was read should be in it. Raises as the ports."""
    places = side.fleets(driver).slots(group)
    return Facts(view=side.groups.read(group), places=places, wanted=wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGroup:
    """The group and its fleet (``driver`` is who replaces members), what the tool's own login may not do, and
    the numbers that decide."""

    facts: Facts
    driver: str
    terms: GroupTerms
    identities: Findings = ()

    @property
    def aspects(self) -> Mapping[str, Mapping[str, str]]:
        """What an approval is given for: who is in the group, what each member subscribes to, how many
        partitions its topics have, and, where ZooKeeper knows it, the write that the mode node is of.
        Subscriptions that are hidden now are left out."""
        view = self.facts.view
        left_out = {"mode" if view.protocol else "", "subscriptions" if self.hides else ""}
        return {name: items for name, items in aspects(view).items() if name not in left_out}

    @property
    def hides(self) -> bool:
        """Whether the coordinator does not tell now what each member subscribes to: that of a classic group
        that rebalances does not."""
        view = self.facts.view
        classic = view.protocol is not None and view.protocol.group.kind is Kind.CLASSIC
        return classic and not all(each.subscription for each in view.members)


def places_of(facts: Facts, names: Mapping[str, str] | None = None) -> tuple[Slot, ...]:
    """Return the driver's places in its order, or, where it cannot know them, the members: by ``names`` (by
    member id), else by their ids."""
    known = names or {}
    members = (
        Slot(
            name=known.get(each.member_id, each.member_id),
            kind=each.kind,
            state=SlotState.RUNNING,
            member_id=each.member_id,
        )
        for each in facts.view.members
    )
    return facts.places or tuple(sorted(members, key=lambda place: place.name))


def facts_now(run: Run[G], wanted: Wanted = None) -> Facts:
    """Read what rules look at, for this run."""
    return facts_of(run.ports.side, group_of(run), str(run.there.about["driver"]), wanted)


def ask_live(run: Run[G], numbers: tuple[str, ...], wanted: Wanted = None) -> Findings:
    """Return what these rules say of the group as it is now; nothing is read for none."""
    return ask(numbers, facts_now(run, wanted)) if numbers else ()


def settling(findings: Findings) -> Checked:
    """Return whether what only needs time holds; a doubt is no hindrance."""
    judged = Judgement(findings=findings)
    if judged.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}:
        return PASSED
    return Checked(outcome=Outcome.WAIT, detail=judged.reasons[0])


def take(run: Run[G], step: Step, attempt: str) -> Json:
    """Keep all that must survive, as evidence."""
    view = facts_now(run).view
    rows = snapshot_rows(view, _delivered(run, view))
    run.refresh()  # a look may take long
    moment = Moment(step.args["moment"])
    manifest = run.ports.evidence.write((run.name, attempt, moment), view.taken_at_ms, rows)
    return {
        "folder": run.ports.evidence.path(run.name, attempt, moment.value),
        "manifest_sha256": manifest.digest,
        "stored": [attempt, moment.value],
        "brokers": list(view.brokers),
    }


def digest(run: Run[G], folder: str) -> str:
    """Return the digest of a snapshot's manifest, read now. Raises `Broken` for one that was altered."""
    attempt, moment = folder.rsplit("/", 2)[1:]
    manifest = run.ports.evidence.manifest(run.name, attempt, Moment(moment))
    return manifest.digest if manifest else ""


def comparison(run: Run[G], step: Step, snapshots: tuple[Snapshot, Snapshot], attempt: str) -> SparkJob:
    """Return the comparison, with the rules that it reads. Raises `Rejected` for a snapshot that was
    taken before its plan was made."""
    evidence = run.ports.evidence
    plan = PlanOf(run=run.name, hash=run.record.plan_hash, made_at_ms=run.record.created_at_ms)
    tables: list[Tables] = []
    for each in snapshots:
        taken, moment = each.folder.rsplit("/", 2)[1:]
        tables.append(evidence.read(run.name, taken, Moment(moment)))
        refuse_older(f"snapshot {each.name}", int(tables[-1]["group"][0]["taken_at_ms"] or 0), plan)
    before, after = tables
    changes = _allowed(run, step, before, after)
    to_read = gaps(before, after, run.ports.terms.isolation)
    log = answers_data(run.ports.records.read(to_read)) if to_read else []
    run.refresh()
    text = json.dumps(replace(changes, log=log).to_data(), indent=1, sort_keys=True)
    rules = evidence.write_text(run.name, attempt, RULES_FILE, text=text)
    output = evidence.path(run.name, attempt)
    return SparkJob(
        job=JOB,
        arguments=(
            *("--before", snapshots[0].folder, "--after", snapshots[1].folder),
            *("--output", output, "--rules", rules),
        ),
        inputs={each.folder: each.manifest_sha256 for each in snapshots},
        output=output,
    )


def read(run: Run[G], job: SparkJob) -> Reading | None:
    """Return what the job found, where it looked at exactly these snapshots."""
    attempt = job.output.rsplit("/", 1)[-1]
    text = run.ports.evidence.read_text(run.name, attempt, VERDICT_FILE)
    try:
        data = values_of(text or "")
        findings, manifests = findings_from(data["findings"]), dict(data["manifests"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    arguments = dict(zip(job.arguments[::2], job.arguments[1::2], strict=True))
    digests = {role: job.inputs[arguments[f"--{role}"]] for role in ("before", "after")}
    if text is None or not findings or manifests != digests:
        return None
    files = _files(run, attempt)
    if files.get(VERDICT_FILE) != hashlib.sha256(text.encode()).hexdigest():
        return None  # it was written while it was read
    return Reading(findings=findings, files=files)


def _allowed(run: Run[G], step: Step, before: Tables, after: Tables) -> AllowedChanges:
    """Return what may differ between two snapshots around an act, or at one that changes nothing."""
    terms, members = run.ports.terms, step.args.get("members")
    between: ReplaceMembers | SetMode | None = None
    if step.args.get("mode"):
        between = SetMode(to=Mode(step.args["mode"]))
    elif members:
        old, new = MemberKind(members["old"]), MemberKind(members["new"])
        between = ReplaceMembers(slots=tuple(members["slots"]), old=old, new=new)
    produced = records_per_interval(before, after, terms.commit_interval_ms)
    changes = allowed_changes(
        Phase(name=PhaseName(step.phase), step=between),
        Moment(step.args["moment"]),
        before,
        after,
        produced + terms.commit_slack_records,
    )
    if step.args.get("restores"):
        node = after["group"][0]["mode_text"]
        changes = restored_changes(changes, None if node is None else "zookeeper")
    return changes


def _files(run: Run[G], attempt: str) -> Mapping[str, str]:
    """SHA-256 of every file that a comparison left, by its path below the comparison's folder."""
    files: dict[str, str] = {}
    for path in run.ports.evidence.files(run.name):
        name = path.removeprefix(f"{attempt}/")
        if name != path and _PROOF_FILES.fullmatch(name):
            file = run.ports.evidence.measured(run.name, path)
            if file is not None:
                files[name] = file.sha256
    return files


def _delivered(run: Run[G], view: GroupView) -> Mapping[TopicPartition, int]:
    """What the ledgers say, once they have what this view says was committed. A member's ledger is written by
    a process that reads what it printed, and may come later than its commit. Where one was behind only what
    lies below the commit counts: a commit that passed over records is not covered by what was delivered
    behind them meanwhile, and the comparison says so."""
    ports, clock = run.ports, run.tools.clock
    deadline = clock.now_ms() + min(_LATE_S, ports.terms.patience_s) * 1000
    delivered = dict(ports.ledger.last_delivered(view.group))
    beyond_ledger: dict[TopicPartition, int] = {}
    for each in (*view.zookeeper_offsets, *view.kafka_offsets):
        if each.offset > delivered.get(each.at, each.offset) + 1:
            beyond_ledger[each.at] = max(each.offset, beyond_ledger.get(each.at, 0))
    kinds, owners = {member.member_id: member.kind for member in view.members}, view.owners_by_partition
    gaps = []
    for at, end in beyond_ledger.items():
        readers = (kinds[each] for each in owners.get(at, ()) if each in kinds)
        isolation = isolation_of(readers, ports.terms.isolation)
        gaps.append(Gap(partition=at, start=delivered[at] + 1, end=end, isolation=isolation))
    for read in ports.records.read(gaps) if gaps else ():
        if read.answer is LogAnswer.NOTHING:  # markers, aborted, compacted: no ledger has them
            del beyond_ledger[read.gap.partition]
    while beyond_ledger and clock.now_ms() < deadline:
        clock.sleep(_LOOK_AGAIN_S)
        delivered |= ports.ledger.delivered_below(view.group, beyond_ledger)
        beyond_ledger = {at: offset for at, offset in beyond_ledger.items() if delivered[at] < offset - 1}
    return delivered


def measured(
    act: Step,
    *,
    patience_s: int,
    base_before: str = "",
    base_after: str = "",
    since_base: Json | None = None,
    restores: bool = False,
    decides: bool = True,
) -> tuple[Step, ...]:
    """Return an act with snapshot, comparison and judge before and after it. What the act itself says may
    differ behind it: the places and kinds that it changes, and the mode that it writes.

    ``base_before`` and ``base_after`` name the snapshots that its own are compared with (empty: its own one
    before it); ``since_base`` are the places and kinds that changed since ``base_after``, where those are not
    the act's alone. ``restores``: what is compared after it is to be as before the run. ``decides``: the
    judge before it decides; else, in a rollback, it is evidence only, and what the judge behind it finds may
    be accepted: members must not stay stopped. ``patience_s``: how long a snapshot waits for calm, and a
    failed rule may heal."""
    phase, steps = act.phase, list[Step]()
    members = {name: act.args[name] for name in ("slots", "old", "new") if "slots" in act.args}
    for moment, side in ((Moment.BEFORE, "old"), (Moment.AFTER, "new")):
        is_after, name, own = moment is Moment.AFTER, snapshot_name(moment, phase), {"moment": moment.value}
        base = (base_after if is_after else base_before) or snapshot_name(Moment.BEFORE, phase)
        texts = {"moment": moment, "phase": phase, "base": base}
        kept = {**own, "nobody": members.get(side) == MemberKind.VACANT}
        snapshot = _step("snapshot", name, texts, phase=phase, args=kept, patience_s=patience_s)
        compared = {
            **own,
            "base": base,
            "with": name,
            "members": (since_base if is_after and since_base else members) or None,
            "mode": act.args.get("to", ""),
            "restores": restores and is_after,
        }
        compare = _step("compare", moment.value, texts, phase=phase, args=compared)
        compares = [compare.name, *([act.name] if is_after and act.kind in {"soak", "series"} else [])]
        weighs = OnDifference.ACCEPTABLE if is_after else OnDifference.EVIDENCE
        judge = _step(
            "judge",
            moment.value,
            texts,
            phase=phase,
            args={**own, "compares": compares, "again": snapshot.name},
            on_difference=OnDifference.STOP if decides else weighs,
            patience_s=patience_s,
        )
        steps += [*([act] if is_after else []), snapshot, compare, judge]
    return tuple(steps)


def snapshot_name(moment: Moment, phase: str) -> str:
    """Return the name of a snapshot around the act of a phase."""
    return f"{moment} {phase}"
