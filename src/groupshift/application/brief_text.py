"""The Markdown a person reads at a gate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import dropwhile, takewhile

from groupshift.application.approval import voided
from groupshift.application.records import Migration, findings_from
from groupshift.domain.evidence import Moment
from groupshift.domain.foreign_text import code, shown, visible
from groupshift.domain.group import Fingerprint
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.judgement import GateTerms, Judgement, Option
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Choice, Gate, Phase, Plan, Stage, StageName
from groupshift.domain.step import DeleteModeNode, ReplaceMembers, RunAct, RunStep, SetMode, Soak, Step
from groupshift.domain.verdict import Finding, Verdict
from groupshift.ports.journal import Event, EventKind

APPROVE = "Approve"
REJECT = "Reject"
GO_ON = "Go on"
ROLL_BACK = "Roll back"
STOP = "Stop here"
DEPLOYED = "Deployed"
FINALISE = "Finalise"
KEEP = "Keep the way back open"

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
            return f"set the mode node to {step.to} (compare-and-set)"
        case Soak():
            return f"change nothing for {step.seconds} s, keep judging"
        case DeleteModeNode():
            return "delete the mode node, once no member is left in ZooKeeper (irreversible)"


def subject(migration: Migration, gate: Gate, stage: StageName | None) -> str:
    """The one-line subject of a gate."""
    group = visible(migration.record.group)
    return {
        Gate.PLAN: f"Approve the plan for group {group}",
        Gate.TOGGLE: f"Toggle group {group} to kafka mode",
        Gate.FINALISE: f"Finalise group {group}, or keep the way back open",
        Gate.REVIEW: f"Stage {stage} of group {group} needs your judgement",
    }[gate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question: gate, stage (gate ``review`` only), the checks made now, and how it is asked."""

    gate: Gate
    stage: StageName | None
    findings: tuple[Finding, ...]
    terms: GateTerms
    by_ms: int
    """Until when an answer counts."""


def body(migration: Migration, asked: Asked, mark: Fingerprint) -> str:
    """Markdown: what happens after each answer, what did not pass, and what all of it rests on."""
    gate, group = asked.gate, code(migration.record.group)
    lost = voided(migration) if gate is Gate.PLAN else None
    group = code(migration.record.group)
    parts = [
        f"**Group** {group} · **migration** {code(migration.id)} · phase `{migration.phase}`",
        _happens(migration, asked, lost),
        "### Your answer",
        answers_text(answers(migration, gate, asked.stage), asked.by_ms),
        *_checks(migration, asked),
        "### Plan",
        _plan_table(migration.plan),
    ]
    named = visible(migration.id)
    typed = f"`groupshift status {named}` tells where it stands, `groupshift report {named}` every check."
    parts.append(links_text(asked.terms.links) if asked.terms.links else typed)
    return "\n\n".join([*parts, "### Hashes", _hashes(migration, mark)])


def links_text(links: Iterable[tuple[str, str]]) -> str:
    """Links by name, on one line."""
    return " · ".join(f"[{shown(name)}]({url})" for name, url in links)


def answers_text(found: Iterable[Option], by_ms: int | None) -> str:
    """What each button does, and what happens when nobody presses one by then; None: in a terminal, where
    the question waits."""
    options = tuple(found)
    default = next(each for each in options if each.default)
    lines = [f"- **{each.label}**: {each.does}" for each in options]
    silence = f"- no answer until {utc(by_ms)}: as **{default.label}**" if by_ms is not None else ""
    waits = f"- no answer: nothing is changed, and the run waits. Enter alone is **{default.label}**"
    return "\n".join([*lines, silence or waits])


def utc(at_ms: int) -> str:
    """A moment, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def answers(migration: Migration, gate: Gate, stage: StageName | None = None) -> tuple[Option, ...]:
    """The answers that a gate offers now, each with what it does, without those that could do nothing."""
    open_ = f"the rollback stays open (`groupshift roll-back {visible(migration.id)} --execute`)"
    if gate is Gate.FINALISE:
        return (
            Option(
                label=FINALISE,
                choice=Choice.FINALISE,
                does="the mode node is deleted, if no member needs it. This cannot be taken back.",
            ),
            Option(
                label=KEEP,
                choice=Choice.KEEP,
                does=f"nothing more is changed; the run ends green as *moved*; {open_}.",
                default=True,
            ),
        )
    if gate is not Gate.REVIEW:
        begun = gate is Gate.TOGGLE or migration.phase in _ACTING
        changed = f"nothing more is changed, and {open_}" if begun else "nothing is changed"
        proven = "every stage is proven before the next one begins"
        yes = f"the run goes on with {_first(migration, gate)}; {proven}."
        return (
            Option(label=APPROVE, choice=Choice.APPROVE, does=yes),
            Option(
                label=REJECT, choice=Choice.REJECT, does=f"{changed}; the run ends red here.", default=True
            ),
        )
    return _review(migration, stage, open_)


_ACTING = frozenset({Phase.RUNNING, Phase.ROLLING_BACK})
_UNTOUCHED = frozenset({Phase.PLANNED, Phase.APPROVED})


def _first(migration: Migration, gate: Gate) -> str:
    """The stage with which a run goes on after this gate, and whether it is asked about first."""
    lost = voided(migration) if gate is Gate.PLAN else None
    if lost is not None:
        return f"`{lost.stage}`"
    acts = [each for each in migration.plan.stages if not isinstance(each.step, Soak)]
    first = next((each for each in acts if gate in {Gate.PLAN, each.gate}), None)
    if first is None:
        return f"`{StageName.SOAK}`"
    return f"`{first.name}`{_asked_before(first) if gate is Gate.PLAN else ''}"


def _asked_before(stage: Stage) -> str:
    """That somebody is asked once more right before this stage, where it is so."""
    return "" if stage.gate in {None, Gate.PLAN} else " (you are asked again before it)"


def _review(migration: Migration, stage: StageName | None, open_: str) -> tuple[Option, ...]:
    """What could not be measured is never accepted; a rollback has no rollback of its own."""
    following = _following(migration, stage)
    found = []
    if stage is None or Judgement(findings=_doubted(migration, stage)).verdict is not Verdict.ERROR:
        on = f"you accept what did not pass; {following}."
        found.append(Option(label=GO_ON, choice=Choice.APPROVE, does=on))
    changed = migration.phase not in _UNTOUCHED
    if changed and (stage is None or not stage.undoes):
        undo = "what this run changed is taken back, stage by stage, each proven; the run ends red."
        found.append(Option(label=ROLL_BACK, choice=Choice.REJECT, does=undo))
    left = f"nothing more is changed; the run ends red; {open_}." if changed else ""
    stop = left or "nothing was changed; the run ends red."
    return (*found, Option(label=STOP, choice=Choice.STOP, does=stop, default=True))


def _doubted(migration: Migration, stage: StageName) -> tuple[Finding, ...]:
    """What was judged last of this stage."""
    kinds = {EventKind.JUDGED, EventKind.REHEARSED}
    last = next((e for e in reversed(migration.events) if e.stage is stage and e.kind in kinds), None)
    found = findings_from(last.body["findings"]) if last else ()
    return found or (Finding(rule="-", verdict=Verdict.INCONCLUSIVE, reason="nothing was judged"),)


def _ahead(migration: Migration, stage: StageName | None) -> tuple[Stage, ...]:
    """What is left from a doubted stage on: with itself where it has not acted."""
    stages = migration.undo if stage is not None and stage.undoes else migration.plan.stages
    names = [each.name for each in stages]
    if stage not in names:
        return ()
    last = migration.latest(EventKind.JUDGED, stage)
    acted = stage in migration.steps or (last is not None and last.body["moment"] == Moment.AFTER.value)
    return stages[names.index(stage) + acted :]


def _following(migration: Migration, stage: StageName | None) -> str:
    """What comes after a stage that was accepted."""
    ahead = _ahead(migration, stage)
    if not ahead:
        return "the run ends" if stage is not None and migration.stage(stage) else "the run goes on"
    first = ahead[0]
    when = "acts next" if first.name is stage else "comes next"
    return f"`{first.name}` {when}{_asked_before(first)}: {shown(step_text(first.step))}"


def _until_asked(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Those before the first one with a gate of its own."""
    return tuple(takewhile(lambda each: each.gate in {None, Gate.PLAN}, stages))


def _happens(migration: Migration, asked: Asked, lost: Event | None) -> str:
    """What is asked, which places it concerns, how long reading pauses, and what comes next."""
    plan, gate, stage = migration.plan, asked.gate, asked.stage
    if gate is Gate.FINALISE:
        return (
            "### If you finalise\n\nNo member is replaced and nobody stops reading: only the mode node goes."
        )
    if gate is Gate.REVIEW:
        why = f"### In doubt\n\nStage `{stage}` was not judged as passed. The checks below say why."
        on = any(each.label == GO_ON for each in answers(migration, gate, stage))
        ahead = _until_asked(_ahead(migration, stage))
        return f"{why}\n\n**Pause**, if you go on: {pause_text(plan, gate, ahead)}" if on else why
    if lost is not None:
        plan = replace(plan, stages=tuple(dropwhile(lambda e: e.name is not lost.stage, plan.stages)))
    acts = [each for each in plan.stages if not isinstance(each.step, Soak)]
    behind, replaced = plan.stages, []
    if gate is Gate.TOGGLE:
        acts = [each for each in acts if each.name is StageName.TOGGLE]
        behind = plan.stages[plan.stages.index(acts[0]) + 1 :] if acts else ()
        replaced = [each for each in _until_asked(behind) if isinstance(each.step, ReplaceMembers)]
        said = "All members go on where they are; who assigns partitions changes: ZooKeeper → Kafka."
    else:
        later = [each.name for each in acts if each.gate not in {None, Gate.PLAN}]
        asks = f" You are asked again before {', '.join(f'`{name}`' for name in later)}." if later else ""
        said = f"{'Nothing was changed yet.' if lost is None else _again(lost)}{asks}"
        acts = acts[: [each.name for each in acts].index(later[0])] if later else acts
    lines = [f"{number}. `{each.name}`: {shown(step_text(each.step))}" for number, each in enumerate(acts, 1)]
    rest = [each for each in behind if each not in acts]
    then = f"Then: {', '.join(f'`{each.name}`' for each in rest)}." if rest else "Then the run ends."
    pause = f"**Pause**: {pause_text(plan, gate)}"
    if replaced:
        named = ", ".join(f"`{each.name}`" for each in replaced)
        pause += f" Then, in {named}, {pause_text(plan, Gate.PLAN, replaced)}"
    return "\n\n".join(
        ["### If you approve", said, "\n".join(lines) or "Nothing is done before that.", pause, then]
    )


_ROLLING = {
    Protocol.CONSUMER: "each partition rests for about 5 to 10 s, not all at the same time",
    Protocol.CLASSIC: "each partition rests for about 5 to 9 s, all of them together for up to 3 s",
}
_OFFLINE = {
    Protocol.CONSUMER: "all partitions rest for about 11 to 18 s, with static members for 47 to 60 s",
    Protocol.CLASSIC: "all partitions rest for about 8 to 14 s, with static members for 50 to 57 s",
}
"""Longest gaps in the 216 moves of docs/reference/protocol-on-real-brokers.md, with stock settings: from the
median to the maximum."""


def pause_text(plan: Plan, gate: Gate = Gate.PLAN, stages: Iterable[Stage] | None = None) -> str:
    """How long reading is expected to pause in these stages (None: all of the plan), from what was
    measured."""
    found = tuple(plan.stages if stages is None else stages)
    places = [slot for e in found if isinstance(e.step, ReplaceMembers) for slot in e.step.slots]
    if plan.to is not None and (places or stages is None):
        to = plan.to if not any(each.name.undoes for each in found) else _OTHER[plan.to]
        table = _OFFLINE if plan.way is Way.OFFLINE else _ROLLING
        page = "docs/reference/protocol-on-real-brokers.md"
        return f"{table[to]} (measured with stock settings, {page}), besides your own restarts."
    if gate is Gate.TOGGLE:
        return "one rebalance of the whole group: all partitions rest until each has its owner in Kafka."
    if gate is Gate.REVIEW and not places:
        said = "no member is replaced, so reading does not pause."
    elif not places:
        said = "no member is replaced, so reading does not pause before you are asked again."
    else:
        said = _replaced_text(places)
    if gate is Gate.REVIEW and any(isinstance(each.step, SetMode) for each in found):
        toggled = "one rebalance of the whole group: all partitions rest until each has its owner again."
        return f"{toggled} Besides, {said}" if places else toggled
    return said


_OTHER = {Protocol.CONSUMER: Protocol.CLASSIC, Protocol.CLASSIC: Protocol.CONSUMER}


def _replaced_text(places: Sequence[str]) -> str:
    many = len(set(places))
    members = "1 member is" if many == 1 else f"{many} members are"
    times = f" ({len(places)} replacements in all)" if len(places) != many else ""
    return (
        f"{members} replaced{times}, and each time the group rebalances: partitions rest until the new "
        "member has joined. The report measures the longest time without an owner."
    )


def _checks(migration: Migration, asked: Asked) -> list[str]:
    """What did not pass, in full; what passed as a number. The canary's measurements are always shown."""
    parts = []
    if asked.findings:
        parts += ["### Live findings", checks_text(asked.findings)]
    judged = _last_judgement(migration)
    if judged:
        parts += ["### Last judgement", checks_text(judged)]
    rehearsed = migration.latest(EventKind.REHEARSED)
    again = asked.gate is not Gate.PLAN or voided(migration) is not None
    if again and rehearsed:
        found = findings_from(rehearsed.body["findings"])
        parts += ["### Rehearsal of the rollback", checks_text(found)]
    return [*parts, canary_measured(migration)] if again and canary_measured(migration) else parts


def canary_measured(migration: Migration) -> str:
    """What the canary's watch measured, passed or not; empty where there is nothing."""
    canary = migration.latest(EventKind.JUDGED, StageName.CANARY)
    found = findings_from(canary.body["findings"] if canary else ())
    measured = tuple(each for each in found if each.rule.startswith("K"))
    return f"### What the canary measured\n\n{findings_table(measured)}" if measured else ""


def checks_text(findings: tuple[Finding, ...]) -> str:
    """``55 of 55 checks passed``, with those that did not in a table. What was not asked is no pass."""
    made = tuple(each for each in findings if getattr(each, "asked", True))
    bad = tuple(each for each in made if each.verdict is not Verdict.PASS)
    told = f"{len(made) - len(bad)} of {len(made)} checks passed"
    left = len(findings) - len(made)
    told += f"; {left} were not asked, or could not fail." if left else "."
    return f"{told}\n\n{findings_table(bad)}" if bad else told


def by_hand(stage: str, by_ms: int) -> str:
    """What the buttons do under an instruction for a person."""
    after = "the run looks whether it is so, waits until the group has settled, and proves it."
    then = "and the judge behind it asks what to do."
    if StageName(stage).undoes:
        then = "nobody is asked again, and the rollback stays open."
    stop = f"nothing is deployed for you; this task ends red, {then}"
    options = (
        Option(label=DEPLOYED, choice=Choice.APPROVE, does=f"you did all of it; {after}"),
        Option(label=STOP, choice=Choice.STOP, does=stop, default=True),
    )
    return f"### Your answer\n\nStage `{stage}` waits for you.\n\n{answers_text(options, by_ms)}"


def without_answer(limit_s: float) -> str:
    """What happens under an instruction where no button is: on the command line."""
    return (
        "No answer is needed: the run goes on by itself when it sees that. After "
        f"{limit_s:.0f} s it judges the group as it is."
    )


_EXPANDING = (
    "nobody may consume before the run has reached its verdict: the pause is all that is left of the run."
)


def _run_pause(move: str, now: Sequence[RunStep], *, live: bool | None) -> str:
    """What the steps up to the next question mean for the groups of the cluster; empty where it is not
    known. ``live``: whether commits go on by the plan; None: it does not tell."""
    if move != "downgrade":
        return _EXPANDING if move == "expansion" else ""
    nodes = sum(each.act is RunAct.REPLACE for each in now)
    said = "1 node is replaced" if nodes == 1 else f"{nodes} nodes are replaced, one after the other"
    many = (
        f"{said}; groups look for another coordinator, which takes seconds."
        if nodes
        else "no node is replaced before you are asked again."
    )
    unless = "" if live is not None else "Unless the plan is *live*, "
    nobody = "Commits may go on meanwhile." if live else f"{unless}nobody may commit meanwhile."
    return f"{many} {nobody[0].upper()}{nobody[1:]}"


def _seen(steps: Sequence[RunStep], done: Sequence[RunStep]) -> list[str]:
    """What was checked before a question of a run that changes a cluster: the rules asked for the plan, and
    the steps before it."""
    known = [each.args["checks"] for each in (*done, *steps) if "checks" in each.args]
    told = []
    if known:
        told.append(checks_text(findings_from(known[0])))
        if any(each["verdict"] != Verdict.PASS.value for each in known[0]):
            told.append(
                "None of these keeps the run from beginning: steps of the plan put it right, or warn."
            )
    if done:
        names = ", ".join(f"`{each.key}`" for each in done if each.act in {RunAct.COMPARE, RunAct.PROVE})
        compared = f"; compared or proven on the way: {names}" if names else ""
        told.append(f"{len(done)} of {len(done)} steps before this question are read back{compared}.")
    return ["### Checks", *told] if told else []


def run_text(move: str, steps: Sequence[RunStep], by_ms: int | None, done: Sequence[RunStep] = ()) -> str:
    """What an approval of a run that changes a cluster lets happen; ``steps`` are those that are left, the
    approval first, ``done`` those before it. Without ``by_ms`` the question waits."""
    acts = [each for each in steps[1:] if each.act is not RunAct.APPROVE]
    asks = next((n for n, each in enumerate(steps[1:]) if each.act is RunAct.APPROVE), len(steps) - 1)
    now, later = steps[1 : 1 + asks], steps[1 + asks :]
    lines = [f"{number}. {shown(each.does)}" for number, each in enumerate(now, 1)]
    then = f"Then you are asked again: {shown(later[0].does)}." if later else "Then the run ends."
    many = "1 step" if len(now) == 1 else f"{len(now)} steps"
    yes = f"the run goes on with the {many} above; each is read back before the next one."
    back = f"nothing more is changed and the run stays open: `groupshift {move} back --execute` undoes it."
    no = "nothing was changed and the run ends; another plan may begin." if _is_plan(steps) else back
    options = (
        Option(label=APPROVE, choice=Choice.APPROVE, does=yes),
        Option(label=REJECT, choice=Choice.REJECT, does=no, default=True),
    )
    rows = [
        f"| {shown(each.key)} | {shown(each.does)} | {shown(each.proof) if each.proof else '-'} | "
        f"{shown(each.inverse) if each.inverse else '-'} |"
        for each in acts
    ]
    live = next((bool(each.args["live"]) for each in (*done, *steps) if "live" in each.args), None)
    pause = _run_pause(move, now, live=live)
    return "\n\n".join(
        [
            "### If you approve",
            "\n".join(lines) or "No act is left.",
            *([f"**Pause**: {pause}"] if pause else []),
            then,
            "### Your answer",
            answers_text(options, by_ms),
            *_seen(steps, done),
            "### Plan",
            "\n".join(
                ["| step | what is done | proof before the next | way back |", "|---|---|---|---|", *rows]
            ),
        ]
    )


def _is_plan(steps: Sequence[RunStep]) -> bool:
    """Whether the plan itself is to be approved: a no closes the run (`groupshift.domain.step.ends`)."""
    return steps[0].subject == Gate.PLAN.value


def run_by_hand(move: str, by_ms: int, *, accepting: bool) -> str:
    """What the buttons do under what a person has to do for such a run."""
    seen = "what only you can see counts as seen" if accepting else "your answer accepts nothing by itself"
    options = (
        Option(label=DEPLOYED, choice=Choice.APPROVE, does=f"the run looks again; {seen}."),
        Option(
            label=STOP,
            choice=Choice.STOP,
            does="nothing more is changed and the run stays open: trigger again to go on, or take it back "
            f"with `groupshift {move} back --execute`.",
            default=True,
        ),
    )
    return f"### Your answer\n\n{answers_text(options, by_ms)}"


def _again(lost: Event) -> str:
    """Why an approval is asked again that became void between the intent of an act and the act."""
    changed = "\n".join(f"- {shown(clause)}" for clause in lost.body["changes"])
    return (
        f"The group changed before stage `{lost.stage}` acted, so the approval of the plan is void:\n\n"
        f"{changed}\n\nThis act and those after it are made with the group as it is now."
    )


def _plan_table(plan: Plan) -> str:
    rows = [
        f"| {number} | {shown(stage.name)} | {shown(step_text(stage.step))} | {stage.gate or '-'} | "
        f"{shown(step_text(stage.step.inverse)) if stage.step.inverse else '-'} |"
        for number, stage in enumerate(plan.stages, 1)
    ]
    table = "\n".join(["| # | stage | step | gate | rollback |", "|---|---|---|---|---|", *rows])
    notes = "\n".join(f"- {shown(note)}" for note in plan.notes)
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
        f"| {_marked(f.verdict)} | {shown(f.rule)} | {shown(f.reason)} | {shown(f.hint) if f.hint else '-'} |"
        for f in findings
    ]
    return "\n".join(["| verdict | rule | reason | hint |", "|---|---|---|---|", *rows])


def _last_judgement(migration: Migration) -> tuple[Finding, ...]:
    judged = migration.latest(EventKind.JUDGED)
    return findings_from(judged.body["findings"]) if judged else ()


def _hashes(migration: Migration, mark: Fingerprint) -> str:
    evidence = [f"- evidence {code(item)}: `{digest}`" for item, digest in mark.parts["evidence"].items()]
    plan = f"- plan: `{migration.record.plan_hash}`"
    return "\n".join([plan, *evidence, f"- fingerprint of group and evidence: `{mark.text}`"])


def _marked(verdict: Verdict) -> str:
    """Words, not pictures: not every machine has a font for those."""
    return verdict.value if verdict is Verdict.PASS else f"**{verdict.value.upper()}**"
