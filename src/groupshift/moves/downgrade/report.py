"""What people read of a downgrade: what became of the brokers, what to do now, and its own parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groupshift.domain.foreign_text import command, shell
from groupshift.domain.run import Plan, RunState, Step
from groupshift.domain.verdict import Verdict
from groupshift.engine.move import Run
from groupshift.moves.downgrade.facts import DowngradePorts
from groupshift.ports.runs import EventKind
from groupshift.report.history import History, NodeInterval, StepHistory, compared, node_intervals
from groupshift.report.kept import Kept
from groupshift.report.page import Alarm, Legend, Section, duration, glance, section, spoken, table
from groupshift.report.run_page import PageParts, node_lanes, way_sentence
from groupshift.report.svg import colour

_NAMED = 10
"""How many groups a sentence names."""
_CONVERTS = frozenset({"convert", "convert-empty"})
_NONE = "No hazard was met and no rule asks for anything."


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
    """Return the parts of the page of a run."""
    about = history.about
    return PageParts(
        title=f"Brokers from {about['now']} to {about['release']}",
        sentence=_sentence(history),
        now=_now(history),
        first=[_glance(history), _releases(history)],
        own=[_findings(history)],
    )


def _sentence(history: History) -> str:
    about, state = history.about, history.state
    release, now = about["release"], about["now"]
    where, proven = f"of cluster {about['cluster_id']}", _proven(history)
    over = {RunState.MOVED: f"{release} now", RunState.ROLLED_BACK: f"{now} again"}
    if state in over and (differing := _differing(history)):
        return f"The brokers {where} run {over[state]}, but not all groups are as they were: {differing}."
    match state:
        case RunState.MOVED:
            return f"The brokers {where} run {release} now, from {now}. {proven}"
        case RunState.ROLLED_BACK:
            return f"The brokers {where} run {now} again: everything that can be undone was. {proven}"
        case _:
            way = (f"the brokers {where}", str(release))
            return way_sentence(history, way, _nodes(history), f"back to {now}")


def _differing(history: History) -> str:
    """What was accepted, and by whom."""
    return "; ".join(f"{'; '.join(each.reasons)} (accepted by {each.who})" for each in history.accepted)


def _nodes(history: History) -> str:
    """How many nodes run what now."""
    steps = history.of_kind("replace")
    undone = {each.step.subject for each in history.back if each.step.kind == "replace" and each.done}
    older = sum(each.done and each.step.subject not in undone for each in steps)
    return f"{older} of {len(steps)} nodes run {history.about['release']}"


def _proven(history: History) -> str:
    """How much was compared, and read back."""
    done = [each for each in history.steps if each.done]
    equal = [each for each in compared(history) if each.verdict is Verdict.PASS]
    groups = max((each.groups or 0 for each in equal), default=0)
    said = f"{len(done)} steps were read back"
    if not equal:
        return f"{said}; groups were not compared."
    return f"{said}; {len(equal)} comparisons of {groups} groups found nothing lost and no offset changed."


def _stays(history: History) -> tuple[tuple[str, str], ...]:
    """What taking the brokers back does not undo: members that were restarted as classic ones stay so."""
    converted = (each for each in history.there if each.step.kind in _CONVERTS and each.done)
    groups = sorted({each.step.subject for each in converted})
    if not groups:
        return (("Nothing has to be done now: the brokers are as they were.", ""),)
    more = f" and {len(groups) - _NAMED:,} more" if len(groups) > _NAMED else ""
    said = (
        "The brokers are as they were, but groups stay on the classic protocol: "
        f"{', '.join(groups[:_NAMED])}{more}. To give one its own back:"
    )
    return ((said, f"groupshift protocol run --group {shell(groups[0])} --to consumer"),)


def _now(history: History) -> tuple[tuple[str, str], ...]:
    about, run, why = history.about, history.record.run, history.trouble
    check = ("To prove that nobody changed this evidence since:", f"groupshift verify-evidence {run}")
    go_on = f"groupshift continue {run} --execute"
    back = ("To take it back:", f"groupshift roll-back {run} --execute")
    ends = ("--to", str(about["release"]), "--from", str(about["now"]))
    again = ("To plan it again:", command("groupshift", "downgrade", "run", *ends))
    keep = f"Nothing has to be done now. Keep the files of {about['now']} until nobody wants to go up again."
    after = (f"Once the cause is understood, to go on to {about['release']}:", go_on)
    if history.accepted and history.state in {RunState.MOVED, RunState.ROLLED_BACK}:
        return (("Correct what differs: the offsets of before are in the folder of snapshot C0.", ""), check)
    found: dict[RunState, tuple[tuple[str, str], ...]] = {
        RunState.MOVED: ((keep, ""), check),
        RunState.ROLLED_BACK: (*_stays(history), check),
        RunState.REJECTED: (again,),
        RunState.PREVIEW: (again,),
        RunState.ROLLING_BACK: (("To go on with the rollback:", go_on),),
    }
    return found.get(history.state, (back, after) if why else (("To go on where it stands:", go_on), back))


def _glance(history: History) -> Section:
    about, found = history.about, compared(history)
    done = sum(each.done for each in history.steps)
    equal = sum(each.verdict is Verdict.PASS for each in found)
    live = any(each.step.args.get("live") for each in history.there)
    return glance(
        ("took", duration(history.ended_ms - history.record.created_at_ms)),
        ("from", about["now"]),
        ("to", f"{about['release']}, {about['coordinator']} coordinator"),
        ("nodes", len(history.of_kind("replace"))),
        ("steps read back", f"{done} of {len(history.steps)}"),
        ("comparisons equal", f"{equal} of {len(found)}"),
        ("groups", max((each.groups or 0 for each in found), default=0) or None),
        ("commits went on", "yes" if live else "no"),
    )


def releases(history: History) -> tuple[NodeInterval, ...]:
    """Return the release of each node, from the plan to what was journaled last; nodes in the order of the
    plan."""
    about = history.about

    def ran(step: Step) -> str:
        return str(about["now"] if step.args.get("back") else about["release"])

    return node_intervals(history, "replace", str(about["now"]), ran)


def _releases(history: History) -> Section:
    names = dict.fromkeys((str(history.about["now"]), str(history.about["release"])))
    shades = {each: colour(number) for number, each in enumerate(names)}
    note = (
        "A bar is the release that a node ran, by the journal; grey is the time from the step before it "
        "until it was back and in sync. A sign below is a comparison of all groups."
    )
    title = "Releases of the nodes over time"
    return section(
        "Nodes and their releases",
        note,
        Legend(shades, {str(history.about["release"]): "the older release"}),
        node_lanes(history, title, "node", releases(history), shades),
    )


def _findings(history: History) -> Section:
    """What the rules and the hazard book said when the first broker was about to be touched."""
    title = "Hazards and go or no go"
    asked = history.of_kind("prove")
    keys = _keys(asked)
    looks = [e.body for e in history.events if e.kind is EventKind.CHECKED and e.step in keys]
    results = [each.result for each in asked if "records" in each.result]
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
        listed if said else _NONE,
    )


def _keys(steps: Sequence[StepHistory]) -> frozenset[str]:
    return frozenset(each.step.key for each in steps)
