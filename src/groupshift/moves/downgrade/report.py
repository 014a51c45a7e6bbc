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

from groupshift.domain.facts import sentence_list
from groupshift.domain.foreign_text_quoting import command, shell
from groupshift.domain.run import Plan, RunState, Step
from groupshift.domain.verdict import Verdict
from groupshift.domain.versions import METADATA
from groupshift.engine import questions_and_approvers as questions
from groupshift.engine.move import Run
from groupshift.moves.downgrade.facts import DowngradeFacts, DowngradePorts, DowngradeRequest
from groupshift.moves.downgrade.plan_and_rollback import inverse, way
from groupshift.moves.downgrade.releases import name_of
from groupshift.ports.runs import EventKind
from groupshift.report.kept_evidence import Kept
from groupshift.report.page import Alarm, Section, duration, section, spoken, table
from groupshift.report.run_history import History, NodeInterval, node_intervals
from groupshift.report.run_page import ClusterWords, PageParts, cluster_page

_NAMED = 10
"""How many groups a sentence names."""


def observed(request: DowngradeRequest, facts: DowngradeFacts) -> questions.Observed:
    """Return what was found of the cluster and its log, and every step there, also where a rule forbids it
    now. Each step of the data has what is done (``act``) to what (``subject``), ``does`` and ``proof`` as
    sentences, and ``inverse``: what undoes it (empty: nothing has to)."""
    view, log, groups = facts.view, facts.log, facts.groups
    steps = [
        {
            "act": each.kind,
            "subject": each.subject,
            "does": each.does,
            "proof": each.proof,
            "inverse": inverse(each),
        }
        for each in way(request, facts)
    ]
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
        "steps": steps,
        "counts": [] if facts.counts is None else facts.counts.rows,
    }
    return questions.Observed(sections=tuple(_sections(facts, steps)), data=data)


def _sections(facts: DowngradeFacts, steps: Sequence[Mapping[str, str]]) -> Iterator[questions.Section]:
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
            (str(number), *(text or "-" for text in each.values())) for number, each in enumerate(steps, 1)
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
    about, nodes = history.about, history.of_kind("replace")
    release, now, brokers = str(about["release"]), str(about["now"]), f"brokers of {history.record.target}"
    undone = {each.step.subject for each in history.back if each.step.kind == "replace" and each.done}
    older = sum(each.done and each.step.subject not in undone for each in nodes)
    over = f"run {release} now, from {now}"
    if history.state.goes_back:
        over = f"run {now} again: everything that can be undone was"
    live = any(each.step.args.get("live") for each in history.there)
    words = ClusterWords(
        title=f"Brokers from {now} to {release}",
        what=f"the {brokers}",
        aim=release,
        progress=f"{older} of {len(nodes)} nodes run {release}",
        over=f"The {brokers} {over}",
        again=command("groupshift", "downgrade", "run", "--to", release, "--from", now),
        after=(_over(history),),
        figures=(
            ("took", duration(history.ended_ms - history.record.created_at_ms)),
            ("from", now),
            ("to", f"{release}, {about['coordinator']} coordinator"),
            ("nodes", len(nodes)),
            ("commits went on", "yes" if live else "no"),
        ),
        lanes="Releases of the nodes over time",
        node="node",
        intervals=releases(history),
        own=[_findings(history)],
    )
    return cluster_page(history, words)


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
    stay = f"groups stay on the classic protocol: {sentence_list(groups, _NAMED)}"
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
