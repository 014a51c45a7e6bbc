"""The report of a downgrade: what became of the brokers in one sentence, what to do now, its own parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groupshift.application.downgrade_account import DowngradeAccount, intervals
from groupshift.application.run_account import (
    accepted,
    compared,
    headline_of,
    result_of,
    run_data,
    trouble,
    waiting,
)
from groupshift.domain.foreign_text import shell
from groupshift.domain.seal import StoredFile
from groupshift.domain.step import RunAct, Stand
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import RunState
from groupshift.report.page import (
    Alarm,
    Headline,
    Legend,
    Section,
    duration,
    glance,
    section,
    spoken,
    table,
)
from groupshift.report.page import (
    render as render_page,
)
from groupshift.report.runs import RunData, node_lanes, run_page
from groupshift.report.svg import colour

_RUN, _BACK = "groupshift downgrade run --execute", "groupshift downgrade back --execute"
_NAMED = 10
"""How many groups a sentence names."""


def headline(account: DowngradeAccount) -> Headline:
    """What the journal says, for a person who was just woken up."""
    why = trouble(account)
    return headline_of(account, _sentence(account, why), _now(account, why))


def _sentence(account: DowngradeAccount, why: str) -> str:
    plan, state = account.plan, account.run.state
    where, proven = f"of cluster {plan.cluster_id}", _proven(account)
    match state:
        case RunState.DONE | RunState.TAKEN_BACK if differing := _differing(account):
            run = f"{plan.release} now" if state is RunState.DONE else f"{plan.now} again"
            return f"The brokers {where} run {run}, but not all groups are as they were: {differing}."
        case RunState.DONE:
            return f"The brokers {where} run {plan.release} now, from {plan.now}. {proven}"
        case RunState.TAKEN_BACK:
            return f"The brokers {where} run {plan.now} again: everything that can be undone was. {proven}"
        case RunState.ENDED:
            return f"The way of the brokers {where} to {plan.release} was ended before anything was changed."
    step = account.next
    at = f" at step {step.step.key}" if step else ""
    what = f"to {plan.release}" if state is RunState.OPEN else f"back to {plan.now}"
    said = f"The way of the brokers {where} {what} stands{at}; {_nodes(account)}."
    waits = waiting(account)
    return f"{said} It stopped there: {why}." if why else f"{said} It waits: {waits}." if waits else said


def _differing(account: DowngradeAccount) -> str:
    """What was accepted, and by whom."""
    return "; ".join(f"{'; '.join(each.reasons)} (accepted by {each.who})" for each in accepted(account))


def _nodes(account: DowngradeAccount) -> str:
    """How many nodes run what now."""
    steps = [each for each in account.there if each.step.act is RunAct.REPLACE]
    undone = {
        each.step.subject
        for each in account.back
        if each.step.act is RunAct.REPLACE and each.stand is Stand.DONE
    }
    older = sum(each.stand is Stand.DONE and each.step.subject not in undone for each in steps)
    return f"{older} of {len(steps)} nodes run {account.plan.release}"


def _proven(account: DowngradeAccount) -> str:
    """How much was compared, and read back."""
    done = [each for each in account.steps if each.stand is Stand.DONE]
    equal = [each for each in compared(account) if each.verdict is Verdict.PASS]
    groups = max((each.groups or 0 for each in equal), default=0)
    said = f"{len(done)} steps were read back"
    if not equal:
        return f"{said}; groups were not compared."
    return f"{said}; {len(equal)} comparisons of {groups} groups found nothing lost and no offset changed."


def _stays(account: DowngradeAccount) -> tuple[tuple[str, str], ...]:
    """What taking the brokers back does not undo: members that were restarted as classic ones stay so."""
    acts = {RunAct.CONVERT, RunAct.CONVERT_EMPTY}
    groups = sorted(
        {each.step.subject for each in account.there if each.step.act in acts and each.stand is Stand.DONE}
    )
    if not groups:
        return (("Nothing has to be done now: the brokers are as they were.", ""),)
    more = f" and {len(groups) - _NAMED:,} more" if len(groups) > _NAMED else ""
    said = (
        "The brokers are as they were, but groups stay on the classic protocol: "
        f"{', '.join(groups[:_NAMED])}{more}. To give one its own back:"
    )
    return ((said, f"groupshift protocol run --group {shell(groups[0])} --to consumer"),)


def _now(account: DowngradeAccount, why: str) -> tuple[tuple[str, str], ...]:
    plan, run = account.plan, account.run.run
    check = ("To prove that nobody changed this evidence since:", f"groupshift verify-evidence {run}")
    back = ("To take it back:", _BACK)
    go_on = ("To go on where it stands:", _RUN)
    after = (f"Once the cause is understood, to go on to {plan.release}:", _RUN)
    match account.run.state:
        case RunState.DONE | RunState.TAKEN_BACK if accepted(account):
            kept = "Correct what differs: the offsets of before are in the folder of snapshot C0."
            return ((kept, ""), check)
        case RunState.DONE:
            kept = (
                f"Nothing has to be done now. Keep the files of {plan.now} until nobody wants to go up again."
            )
            return ((kept, ""), check)
        case RunState.TAKEN_BACK:
            return (*_stays(account), check)
        case RunState.ENDED:
            again = f"groupshift downgrade run --to {plan.release} --from {plan.now}"
            return (("To plan it again:", again),)
        case RunState.GOING_BACK:
            return (("To go on with the way back:", _BACK),)
        case _:
            return (back, after) if why else (go_on, back)


_NONE = "No hazard was met and no rule asks for anything."
_UNTOLD = "An older groupshift made this run and did not journal what the rules and the hazard book said."


def render(account: DowngradeAccount, files: Sequence[StoredFile] = ()) -> str:
    """The HTML document; ``files`` are those of the run's evidence."""
    run = run_data(account, files)
    title = f"Brokers from {account.plan.now} to {account.plan.release}"
    first = [_glance(account), _releases(account, run)]
    return render_page(run_page(title, headline(account), run, first, [_findings(account)]))


def _glance(account: DowngradeAccount) -> Section:
    plan, found = account.plan, compared(account)
    done = sum(each.stand is Stand.DONE for each in account.steps)
    equal = sum(each.verdict is Verdict.PASS for each in found)
    return glance(
        ("took", duration(account.ended_ms - account.run.created_at_ms)),
        ("from", plan.now),
        ("to", f"{plan.release}, {plan.coordinator} coordinator"),
        ("nodes", len(account.of_act(RunAct.REPLACE))),
        ("steps read back", f"{done} of {len(account.steps)}"),
        ("comparisons equal", f"{equal} of {len(found)}"),
        ("groups", max((each.groups or 0 for each in found), default=0) or None),
        ("commits went on", "yes" if plan.live else "no"),
    )


def _releases(account: DowngradeAccount, run: RunData) -> Section:
    plan = account.plan
    shades = {each: colour(number) for number, each in enumerate(dict.fromkeys((plan.now, plan.release)))}
    note = (
        "A bar is the release that a node ran, by the journal; grey is the time from the step before it "
        "until it was back and in sync. A sign below is a comparison of all groups."
    )
    return section(
        "Nodes and their releases",
        note,
        Legend(shades, {plan.release: "the older release"}),
        node_lanes(run, "Releases of the nodes over time", "node", intervals(account), shades),
    )


def _findings(account: DowngradeAccount) -> Section:
    """What the rules and the hazard book said when the first broker was about to be touched."""
    title = "Hazards and go or no go"
    results = [result_of(each) for each in account.of_act(RunAct.PROVE) if "against" in result_of(each)]
    if not results:
        return section(title, "The go or no go was not asked yet.")
    result = results[-1]
    said: Sequence[Mapping[str, Any]] = result.get("findings", ())
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
    nothing = _NONE if "findings" in result else _UNTOLD
    return section(
        title,
        f"{result['records']:,} records of the offsets topic were replayed as {account.plan.release} would.",
        *(Alarm(lead="No go:", text=each) for each in result["against"]),
        listed if said else nothing,
    )
