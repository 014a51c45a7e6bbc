"""What people read of a downgrade.

Of an assessment: the cluster and its log, and every step of the way. Of a run: what became of the brokers,
what to do now, and its own parts.

A page is made from the journal alone, so it is the same whenever somebody asks for it. What somebody accepted
although it differed comes first: such an end is no success. Its pictures show the release of each node over
time, and what the go or no go said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from groupshift.domain.foreign_text import command, shell
from groupshift.domain.run import Plan, RunState, Step
from groupshift.domain.verdict import Verdict
from groupshift.domain.versions import METADATA
from groupshift.engine import questions
from groupshift.engine.move import Run
from groupshift.moves.downgrade.facts import DowngradeFacts, DowngradePorts, DowngradeRequest
from groupshift.moves.downgrade.plan import inverse, way
from groupshift.moves.downgrade.releases import name_of
from groupshift.ports.runs import EventKind
from groupshift.report.history import History, NodeInterval, compared, node_intervals
from groupshift.report.kept import Kept
from groupshift.report.page import Alarm, Legend, Section, duration, glance, section, spoken, table
from groupshift.report.run_page import PageParts, node_lanes, way_sentence
from groupshift.report.svg import colour

_NAMED = 10
"""How many groups a sentence names."""


def observed(request: DowngradeRequest, facts: DowngradeFacts) -> questions.Observed:
    """Return what was found of the cluster and its log, and every step there, also where a rule forbids it
    now. Each step of the data has what is done (``act``) to what (``subject``), ``does`` and ``proof`` as
    sentences, and ``inverse``: what undoes it (empty: nothing has to)."""
    view, log, groups = facts.view, facts.log, facts.groups
    steps = tuple(way(request, facts))
    data = {
        "to": facts.target.release,
        "coordinator": facts.target.coordinator,
        "brokers": {
            str(each.node_id): {"line": str(each.line or "unknown"), "coordinator": each.coordinator}
            for each in view.brokers
        },
        "quorum": view.quorum,
        "features": view.finalised,
        "group_configs": view.group_configs,
        "path": facts.path,
        "groups": {
            each.group: {"types": each.kinds, "state": each.state, "protocol_type": each.protocol_type}
            for each in groups
        },
        "log": {
            "records": None if log is None else log.records,
            "new_types": {} if log is None else log.new_types,
        },
        "steps": [
            {
                "act": each.kind,
                "subject": each.subject,
                "does": each.does,
                "proof": each.proof,
                "inverse": inverse(each),
            }
            for each in steps
        ],
        "counts": [] if facts.counts is None else facts.counts.rows,
    }
    return questions.Observed(sections=tuple(_sections(facts, steps)), data=data)


def _sections(facts: DowngradeFacts, steps: Sequence[Step]) -> Iterator[questions.Section]:
    """The cluster and its log in one sentence; what each broker counts of its groups beside what it lists,
    where that was asked; the way."""
    levels = (
        f"{name} {name_of(level) if name == METADATA else level}"
        for name, level in sorted(facts.view.finalised.items())
    )
    kinds = Counter("+".join(sorted(each.kinds)) or "unknown" for each in facts.groups)
    read = "not read" if facts.log is None else f"{facts.log.records:,} records read"
    said = f"features: {', '.join(levels) or 'none'}; groups: {_by_type(kinds) or 'none'}"
    yield questions.Section(title="The cluster", sentences=(f"{said}; log of the offsets topic: {read}",))
    if facts.counts is not None:
        rows = tuple(
            (
                str(each["node"]),
                *(str(each[name] or "-") for name in ("release", "coordinator")),
                *(_by_type(each[name] or {}) or "-" for name in ("counted", "listed")),
            )
            for each in facts.counts.rows
        )
        head = ("broker", "release", "coordinator", "counts", "lists")
        yield questions.Section(title="groups by type", head=head, rows=rows)
    if steps:
        shown = tuple(
            (str(number), each.kind, each.subject or "-", each.does, each.proof or "-", inverse(each) or "-")
            for number, each in enumerate(steps, 1)
        )
        heads = ("#", "step", "of", "what is done", "proof before the next", "rollback")
        yield questions.Section(title=f"the way to {facts.target}", head=heads, rows=shown)


def _by_type(counts: Mapping[str, int]) -> str:
    """Counts of groups as a list of ``2 classic``, by type; empty where there are none."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def pause(plan: Plan, ahead: Sequence[Step]) -> str:
    """Return what the steps up to the next question mean for the groups, and whether commits may go on."""
    nodes = sum(each.kind == "replace" for each in ahead)
    said = "1 node is replaced" if nodes == 1 else f"{nodes} nodes are replaced, one after the other"
    many = (
        f"{said}; groups look for another coordinator, which takes seconds."
        if nodes
        else "no node is replaced before you are asked again."
    )
    live = any(each.args.get("live") for each in plan.steps)
    return f"{many} {'Commits may go on' if live else 'Nobody may commit'} meanwhile."


def page(_run: Run[DowngradePorts], history: History, _kept: Kept | None) -> PageParts:
    """Return the parts of the page of a run: figures, the releases of its nodes over time, and what the rules
    and the hazard book said."""
    about, comparisons = history.about, compared(history)
    equal = [each for each in comparisons if each.verdict is Verdict.PASS]
    groups = max((each.groups or 0 for each in comparisons), default=0)
    figures = glance(
        ("took", duration(history.ended_ms - history.record.created_at_ms)),
        ("from", about["now"]),
        ("to", f"{about['release']}, {about['coordinator']} coordinator"),
        ("nodes", len(history.of_kind("replace"))),
        ("steps read back", f"{sum(each.done for each in history.steps)} of {len(history.steps)}"),
        ("comparisons equal", f"{len(equal)} of {len(comparisons)}"),
        ("groups", groups or None),
        ("commits went on", "yes" if any(each.step.args.get("live") for each in history.there) else "no"),
    )
    names = dict.fromkeys((str(about["now"]), str(about["release"])))
    shades = {each: colour(number) for number, each in enumerate(names)}
    lanes = section(
        "Nodes and their releases",
        "A bar is the release that a node ran, by the journal; grey is the time from the step before it "
        "until it was back and in sync. A sign below is a comparison of all groups.",
        Legend(shades, {str(about["release"]): "the older release"}),
        node_lanes(history, "Releases of the nodes over time", "node", releases(history), shades),
    )
    return PageParts(
        title=f"Brokers from {about['now']} to {about['release']}",
        sentence=_sentence(history),
        now=_now(history),
        first=[figures, lanes],
        own=[_findings(history)],
    )


def _sentence(history: History) -> str:
    """What became of the brokers, and how much was compared; what was accepted stands in its place."""
    about, steps = history.about, history.of_kind("replace")
    release, now, where = about["release"], about["now"], f"of cluster {history.about['cluster_id']}"
    over = {RunState.MOVED: f"{release} now", RunState.ROLLED_BACK: f"{now} again"}
    if history.state not in over:
        undone = {each.step.subject for each in history.back if each.step.kind == "replace" and each.done}
        older = sum(each.done and each.step.subject not in undone for each in steps)
        progress = f"{older} of {len(steps)} nodes run {release}"
        return way_sentence(history, (f"the brokers {where}", str(release)), progress, f"back to {now}")
    said = f"The brokers {where} run {over[history.state]}"
    if history.accepted:
        who = [f"{'; '.join(each.reasons)} (accepted by {each.who})" for each in history.accepted]
        return f"{said}, but not all groups are as they were: {'; '.join(who)}."
    more = f", from {now}" if history.state is RunState.MOVED else ": everything that can be undone was"
    said = f"{said}{more}. {sum(each.done for each in history.steps)} steps were read back"
    equal = [each for each in compared(history) if each.verdict is Verdict.PASS]
    if not equal:
        return f"{said}; groups were not compared."
    groups = max(each.groups or 0 for each in equal)
    return f"{said}; {len(equal)} comparisons of {groups} groups found nothing lost and no offset changed."


def _now(history: History) -> tuple[tuple[str, str], ...]:
    """What to do now: words, and the command (empty: none)."""
    about, run, state = history.about, history.record.run, history.state
    go_on, back = f"groupshift continue {run} --execute", f"groupshift roll-back {run} --execute"
    check = ("To prove that nobody changed this evidence since:", f"groupshift verify-evidence {run}")
    if state in {RunState.MOVED, RunState.ROLLED_BACK}:
        return (_over(history), check)
    match state:
        case RunState.REJECTED | RunState.PREVIEW:
            ends = ("--to", str(about["release"]), "--from", str(about["now"]))
            return (("To plan it again:", command("groupshift", "downgrade", "run", *ends)),)
        case RunState.ROLLING_BACK:
            return (("To go on with the rollback:", go_on),)
        case _ if history.trouble:
            after = f"Once the cause is understood, to go on to {about['release']}:"
            return (("To take it back:", back), (after, go_on))
        case _:
            return (("To go on where it stands:", go_on), ("To take it back:", back))


def _over(history: History) -> tuple[str, str]:
    """What to do when a run is over. Taking brokers back does not undo a conversion: members that were
    restarted as classic ones stay so."""
    if history.accepted:
        return "Correct what differs: the offsets of before are in the folder of snapshot C0.", ""
    if history.state is RunState.MOVED:
        keep = f"Keep the files of {history.about['now']} until nobody wants to go up again."
        return f"Nothing has to be done now. {keep}", ""
    converts = (*history.of_kind("convert"), *history.of_kind("convert-empty"))
    groups = sorted({each.step.subject for each in converts if each.done})
    if not groups:
        return "Nothing has to be done now: the brokers are as they were.", ""
    more = f" and {len(groups) - _NAMED:,} more" if len(groups) > _NAMED else ""
    stay = f"groups stay on the classic protocol: {', '.join(groups[:_NAMED])}{more}"
    said = f"The brokers are as they were, but {stay}. To give one its own back:"
    return said, f"groupshift protocol run --group {shell(groups[0])} --to consumer"


def releases(history: History) -> tuple[NodeInterval, ...]:
    """Return the release of each node, from the plan to what was journaled last; nodes in the order of the
    plan."""
    about = history.about

    def ran(step: Step) -> str:
        return str(about["now"] if step.args.get("back") else about["release"])

    return node_intervals(history, "replace", str(about["now"]), ran)


def _findings(history: History) -> Section:
    """What the rules and the hazard book said when the first broker was about to be touched."""
    title = "Hazards and go or no go"
    proofs = history.of_kind("prove")
    keys = {each.step.key for each in proofs}
    looks = [e.body for e in history.events if e.kind is EventKind.CHECKED and e.step in keys]
    results = [each.result for each in proofs if "records" in each.result]
    results += [each["result"] for each in looks[-1:] if "records" in each.get("result", {})]
    if not results:
        return section(title, "The go or no go was not asked yet.")
    result = results[-1]
    said: Sequence[Mapping[str, Any]] = [e for e in result["findings"] if e["verdict"] != Verdict.PASS]
    against = looks[-1]["findings"] if looks else ()
    listed = table(
        said,
        {
            "rule": "rule",
            "severity": lambda each: spoken(Verdict(each["verdict"])),
            "what was found": "reason",
            "what to do": "hint",
        },
        caption="Findings that ask for attention",
    )
    release = history.about["release"]
    return section(
        title,
        f"{result['records']:,} records of the offsets topic were replayed as {release} would.",
        *(Alarm(lead="No go:", text=each["reason"]) for each in against if each["verdict"] != Verdict.PASS),
        listed if said else "No hazard was met and no rule asks for anything.",
    )
