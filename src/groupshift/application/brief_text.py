"""The Markdown a person reads at a gate."""

from __future__ import annotations

from groupshift.application.approval import voided
from groupshift.application.records import Migration, findings_from
from groupshift.domain.coordination import MemberKind
from groupshift.domain.fingerprint import Fingerprint
from groupshift.domain.moves import Gate, StageName, Until
from groupshift.domain.plan import Plan
from groupshift.domain.steps import DeleteModeNode, ReplaceMembers, SetMode, Soak, Step
from groupshift.domain.verdict import Finding, Verdict
from groupshift.ports.journal import Event, EventKind

_KIND = {
    MemberKind.OLD: "old ZooKeeper consumer",
    MemberKind.AWARE: "migration-aware consumer",
    MemberKind.PLAIN: "plain Kafka consumer",
    MemberKind.NATIVE: "Kafka consumer of the consumer protocol",
    MemberKind.VACANT: "nobody",
}


def step_text(step: Step) -> str:
    """One step in words."""
    match step:
        case ReplaceMembers() if step.new is MemberKind.VACANT:
            return f"stop {', '.join(step.slots)} and start nobody in their place"
        case ReplaceMembers() if step.old is MemberKind.VACANT:
            return f"start {', '.join(step.slots)} as {_KIND[step.new]}"
        case ReplaceMembers():
            return f"replace {', '.join(step.slots)}: {_KIND[step.old]} → {_KIND[step.new]}"
        case SetMode():
            return f"set the mode node to `{step.to}` (compare-and-set)"
        case Soak():
            return f"change nothing for {step.seconds} s, keep judging"
        case DeleteModeNode():
            return "delete the mode node, once no member is left in ZooKeeper (irreversible)"


def subject(migration: Migration, gate: Gate, stage: StageName | None) -> str:
    """The one-line subject of a gate."""
    group = migration.record.group
    return {
        Gate.PLAN: f"Approve the plan for group {group}",
        Gate.TOGGLE: f"Toggle group {group} to kafka mode",
        Gate.FINALISE: f"Finalise group {group}, or keep the way back open",
        Gate.REVIEW: f"Stage {stage} of group {group} needs your judgement",
    }[gate]


def body(
    migration: Migration,
    gate: Gate,
    stage: StageName | None,
    findings: tuple[Finding, ...],
    mark: Fingerprint,
) -> str:
    """Markdown: what was asked, the plan, the findings, the evidence and their hashes."""
    lost = voided(migration) if gate is Gate.PLAN else None
    parts = [
        f"**Group** `{migration.record.group}` · **migration** `{migration.id}` · phase `{migration.phase}`",
        _question(gate, migration.plan, stage) if lost is None else _again(lost),
        "### Plan",
        _plan_table(migration.plan),
    ]
    if findings:
        parts += ["### Live findings", findings_table(findings)]
    judged = _last_judgement(migration)
    if judged:
        parts += ["### Last judgement", findings_table(judged)]
    rehearsed = migration.latest(EventKind.REHEARSED)
    if gate is Gate.TOGGLE and rehearsed:
        parts += ["### Rehearsal of the way back", findings_table(findings_from(rehearsed.body["findings"]))]
    parts += ["### Hashes", _hashes(migration, mark)]
    return "\n\n".join(parts)


def _question(gate: Gate, plan: Plan, stage: StageName | None) -> str:
    if gate is Gate.FINALISE and plan.until is not Until.RETIRE:
        return (
            "The group is moved as far as planned. Its members need the mode node, so both answers keep "
            "it and the way back: the run ends as *moved*."
        )
    return {
        Gate.PLAN: "Nothing was changed yet. Approving lets the run make the acts below, in this order.",
        Gate.TOGGLE: "Approving changes who assigns partitions: ZooKeeper → Kafka. It can be taken back.",
        Gate.FINALISE: "**Finalise** deletes the mode node and cannot be taken back. **Keep** leaves it.",
        Gate.REVIEW: f"Stage `{stage}` could not be judged as passed. Approving goes on, rejecting stops.",
    }[gate]


def _again(lost: Event) -> str:
    """The question of an approval that became void between the intent of an act and the act."""
    changed = "\n".join(f"- {clause}" for clause in lost.body["changes"])
    return (
        f"The group changed before stage `{lost.stage}` acted, so the approval of the plan is void:"
        f"\n\n{changed}\n\n"
        "Approving lets the run make this act and those after it with the group as it is now."
    )


def _plan_table(plan: Plan) -> str:
    rows = [
        f"| {number} | {stage.name} | {step_text(stage.step)} | {stage.gate or '-'} | "
        f"{step_text(stage.step.inverse) if stage.step.inverse else '-'} |"
        for number, stage in enumerate(plan.stages, 1)
    ]
    table = "\n".join(["| # | stage | step | gate | way back |", "|---|---|---|---|---|", *rows])
    notes = "\n".join(f"- {_cell(note)}" for note in plan.notes)
    return "\n\n".join(part for part in (table, canary_text(plan), notes) if part)


def canary_text(plan: Plan) -> str:
    """What the canary's places hold and how it is judged; empty without a canary."""
    terms = plan.canary
    if plan.stage(StageName.CANARY) is None or not terms.partitions:
        return ""
    share = round(100 * terms.held / terms.partitions) if terms.partitions else 0
    how = f"is watched for {terms.watch_s} s beside the old members" if terms.watch_s else "is not watched"
    return f"The canary's places hold {terms.held} of {terms.partitions} partitions ({share} %); it {how}."


def findings_table(findings: tuple[Finding, ...]) -> str:
    """Findings as a Markdown table."""
    rows = [
        f"| {_marked(f.verdict)} | {f.rule} | {_cell(f.reason)} | {_cell(f.hint) or '-'} |" for f in findings
    ]
    return "\n".join(["| verdict | rule | reason | hint |", "|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _last_judgement(migration: Migration) -> tuple[Finding, ...]:
    judged = migration.latest(EventKind.JUDGED)
    return findings_from(judged.body["findings"]) if judged else ()


def _hashes(migration: Migration, mark: Fingerprint) -> str:
    evidence = [f"- evidence `{item}`: `{digest}`" for item, digest in mark.parts["evidence"].items()]
    plan = f"- plan: `{migration.record.plan_hash}`"
    return "\n".join([plan, *evidence, f"- fingerprint of group and evidence: `{mark.text}`"])


def _marked(verdict: Verdict) -> str:
    """Words, not pictures: not every machine has a font for those."""
    return verdict.value if verdict is Verdict.PASS else f"**{verdict.value.upper()}**"
