"""What people read of an expansion: what became of the groups, what to do now, and its own parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from groupshift.domain.cluster import COUNT
from groupshift.domain.run import RunState, Step, StepState
from groupshift.domain.verdict import Verdict
from groupshift.engine.move import Run
from groupshift.moves.expansion.load import Mover
from groupshift.moves.expansion.ports import COUNTED, ExpansionPorts, counts_of
from groupshift.moves.expansion.report import movers_table
from groupshift.report.history import (
    History,
    NodeInterval,
    StepHistory,
    compared,
    node_intervals,
    wrong_words,
)
from groupshift.report.kept import Kept
from groupshift.report.page import Legend, Part, Section, duration, glance, section
from groupshift.report.pictures import Row, bars
from groupshift.report.run_page import PageParts, node_lanes
from groupshift.report.svg import colour

UNKNOWN = "not asked yet"
_HALT = ("No client may start before it is done, or taken back.", "")
_OVER = frozenset({RunState.FINALISED, RunState.MOVED, RunState.ROLLED_BACK})


def page(_run: Run[ExpansionPorts], history: History, _kept: Kept | None) -> PageParts:
    """Return the parts of the page of a run."""
    plan = counts_of(history.plan)
    listed = movers_table(_movers(history), f"groupshift report {history.record.run} --json")
    return PageParts(
        title=f"__consumer_offsets from {plan.before} to {plan.to} partitions",
        sentence=_sentence(history),
        now=_now(history),
        first=[_glance(history), _counts(history)],
        own=[section("Groups that move", *_moving(history), listed)],
        wrong=_wrong,
    )


def _movers(history: History) -> tuple[Mover, ...]:
    return tuple(
        Mover(group=str(group), before=int(before), after=int(after))
        for group, before, after in history.about["movers"]
    )


def _wrong(step: Step) -> str:
    """What it means that a step is not as it has to be."""
    match step.kind:
        case "restore" | "rehearse":
            return f"offsets are not as in snapshot {step.subject}"
        case "place":
            return "somebody else gave the topic another count than the plan's"
        case "verify":
            return f"the log is not as snapshot {step.subject}"
        case "audit":
            return "the audit of the whole log found something wrong"
        case _:
            return wrong_words(step)


def counted(history: History) -> int:
    """Return how many partitions brokers are to count: the plan's number, or that of somebody else."""
    return _made_by_another(history) or counts_of(history.plan).to


def _made_by_another(history: History) -> int:
    """How many partitions somebody else gave the topic, where that was accepted, or groups were committed
    again by it in a rollback; else 0."""
    asked = (each for each in history.steps if each.step.kind in {"place", "restore"})
    return next((int(found) for each in asked if (found := each.result.get(COUNTED))), 0)


def _closed(history: History) -> bool:
    """Whether there is only the way forward, as far as the journal can tell: this run made partitions, or a
    broker was to be restarted."""
    plan = counts_of(history.plan)
    made = any(
        each.record is not None and each.record.state in {StepState.ACTED, StepState.DONE}
        for each in history.of_kind("create-partitions")
    )
    restarting = any(each.begun for each in history.of_kind("restart"))
    return restarting or (made and plan.partitions != plan.to)


def _deleted(history: History) -> bool:
    return any(each.begun for each in history.of_kind("delete-groups"))


def _restored(history: History) -> int | None:
    """How many offsets were committed again and read back as they were; None while none were."""
    found = [each for each in history.steps if each.step.kind == "restore" and "equal" in each.result]
    return int(found[-1].result["equal"]) if found else None


def _expiring(history: History) -> int:
    """How many offsets of groups that move had an expiry of their own, which a new commit has not."""
    return sum(int(each.result.get("expiring", 0)) for each in history.of_kind("agree"))


def _away_ms(history: History) -> int | None:
    """How long no client was allowed: from the drain to the end, or so far; None while there was no drain."""
    since = next((each.at_ms for each in history.of_kind("drain") if each.done), 0)
    return history.ended_ms - since if since else None


def _sentence(history: History) -> str:
    plan, state = counts_of(history.plan), history.state
    topic = f"__consumer_offsets of cluster {history.about['cluster_id']}"
    why, waits = history.trouble, history.waiting
    if state in _OVER:
        wrong = "; ".join(
            f"{_wrong(each.step)}: {'; '.join(each.reasons)} (accepted by {each.who})"
            for each in history.accepted
        )
        proven = f"But not all is as it has to be: {wrong}." if wrong else _proven(history)
        return f"{_ended(history, topic)} {proven}"
    if state in {RunState.REJECTED, RunState.PREVIEW}:
        how = "was only planned" if state is RunState.PREVIEW else "was ended before anything was changed"
        reason = history.status.reason.removesuffix(".")
        said = f"The way of {topic} to {plan.to} partitions {how}"
        return f"{said}: {reason}." if reason else f"{said}."
    step = history.next
    at = f" at step {step.step.key}" if step else ""
    what = "back" if state.goes_back else f"to {plan.to} partitions"
    said = f"The way of {topic} {what} stands{at}; {_brokers(history)}."
    return f"{said} It stopped there: {why}." if why else f"{said} It waits: {waits}." if waits else said


def _ended(history: History, topic: str) -> str:
    """What became of it, without what nobody asked: the count that the topic has after a rollback."""
    plan = counts_of(history.plan)
    if not history.state.goes_back:
        audited = all(each.step.kind != "audit" for each in history.accepted)
        brokers = ", and every broker counts them" if audited else ""
        return f"{topic} has {counted(history)} partitions now, from {plan.before}{brokers}."
    said = f"The way of {topic} to {plan.to} partitions was taken back"
    if other := _made_by_another(history):
        made = f"{other} partitions, which somebody else made and brokers took up"
        return f"{said}: what was deleted is committed again, by {made}."
    return f"{said}: {'what was deleted is committed again' if _deleted(history) else 'nothing was changed'}."


def _brokers(history: History) -> str:
    steps = history.of_kind("restart")
    return f"{sum(each.done for each in steps)} of {len(steps)} brokers are restarted"


def _proven(history: History) -> str:
    """How much was committed again, and compared."""
    equal = [each for each in compared(history) if each.verdict is Verdict.PASS]
    groups = max((each.groups or 0 for each in equal), default=0)
    offsets = _restored(history)
    if offsets is None and not equal:
        return "Groups were not compared."
    said = "" if offsets is None else f"{offsets:,} offsets were committed again and read back; "
    return f"{said}{len(equal)} comparisons of {groups:,} groups found nothing lost and no offset changed."


def _now(history: History) -> tuple[tuple[str, str], ...]:
    run, why = history.record.run, history.trouble
    if history.state in _OVER:
        return _after(history)
    command = f"groupshift continue {run} --execute"
    back, go_on = f"groupshift roll-back {run} --execute", ("To go on where it stands:", command)
    match history.state:
        case RunState.REJECTED | RunState.PREVIEW:
            again = f"groupshift expansion run --to {counts_of(history.plan).to}"
            return (("To plan it again:", again),)
        case RunState.ROLLING_BACK:
            return (("To go on with the rollback:", command),)
        case _ if _closed(history):
            cured = "; once the cause is cured" if why else ""
            return ((f"No client may start yet, and there is only the way forward{cured}:", command),)
        case _:
            halt = (_HALT,) if _deleted(history) else ()
            both = (("To take it back:", back), go_on)
            return (*halt, *(both if why else both[::-1]))


def _after(history: History) -> tuple[tuple[str, str], ...]:
    """What to do when a run is over."""
    run = history.record.run
    check = ("To prove that nobody changed this evidence since:", f"groupshift verify-evidence {run}")
    other = _made_by_another(history)
    if wrong := {each.step.kind for each in history.accepted}:
        return (*_corrected(wrong, other), check)
    if history.state.goes_back:
        started = "Clients may start" if other else "Clients may start: every group is where it was"
        return ((f"{started}.", ""), *_corrected(wrong, other), check)
    look = "For as long as offsets are kept, look for commits that came late, and for offsets that fell:"
    return (("Clients may start.", ""), (look, f"groupshift watch {run}"), check)


def _corrected(wrong: Collection[str], other: int) -> Iterator[tuple[str, str]]:
    """What has to be cured of what steps of these kinds found wrong, and of another count than the plan's;
    the log first."""
    if "audit" in wrong:
        yield "Restart no broker and start no client before this is clean:", "groupshift audit placement"
    if other:
        yield f"Set {COUNT}={other} in the file of every broker.", ""
    if set(wrong) - {"audit", "place"}:
        yield "Correct what differs before its clients start: the offsets of before are in snapshot S.", ""


def _glance(history: History) -> Section:
    plan, found, away = counts_of(history.plan), compared(history), _away_ms(history)
    offsets, audits = _restored(history), history.of_kind("audit")
    return glance(
        ("partitions before", plan.before),
        ("partitions to be", counted(history)),
        ("nobody consumed for", duration(away) if away is not None else None),
        ("brokers", len(plan.brokers)),
        ("groups", max((each.groups or 0 for each in found), default=0) or None),
        ("groups that move", f"{len(plan.moving):,}"),
        ("offsets committed again", None if offsets is None else f"{offsets:,}"),
        ("of them with an expiry of their own, which is lost", _expiring(history) or None),
        ("comparisons equal", f"{sum(each.verdict is Verdict.PASS for each in found)} of {len(found)}"),
        ("records in the log at the end", _records(audits)),
        ("steps read back", f"{sum(each.done for each in history.steps)} of {len(history.steps)}"),
    )


def _records(audits: tuple[StepHistory, ...]) -> str | None:
    """As the last audit read them."""
    found = audits[-1].result.get("records") if audits else None
    return None if found is None else f"{found:,}"


def count_lanes(history: History) -> tuple[NodeInterval, ...]:
    """Return the count by which each broker coordinates, from the plan to what was journaled last; the one
    that is restarted first is the first. What a broker counts after its restart is known when each was asked
    (`UNKNOWN` before)."""
    asked = history.of_kind("place")
    after = str(counted(history)) if all(each.done for each in asked) else UNKNOWN
    return node_intervals(history, "restart", str(counts_of(history.plan).before), lambda _step: after)


def _counts(history: History) -> Section:
    plan = counts_of(history.plan)
    counts = dict.fromkeys((str(plan.before), str(plan.to), str(counted(history))))
    shades = {count: colour(number) for number, count in enumerate(counts)}
    note = (
        "A bar is the count of partitions by which a broker finds groups, by the journal; grey is the time "
        "from the step before its restart until it was back and in sync, and until each broker was asked "
        "which count it uses. A sign below is a comparison of all groups."
    )
    title, every = "Counts of the brokers over time", {**shades, UNKNOWN: "#999"}
    return section(
        "Brokers and their counts",
        note,
        Legend(shades, {str(plan.to): "partitions"}),
        node_lanes(history, title, "broker", count_lanes(history), every),
    )


def _moving(history: History) -> Iterator[Part]:
    """How many groups leave each partition, and how many come."""
    plan, movers = counts_of(history.plan), _movers(history)
    if movers:
        leave = Counter(each.before for each in movers)
        come = Counter(each.after for each in movers)
        shades = {"leave": colour(0), "come": colour(1)}
        rows = [
            Row(name="leave", values=[leave[number] for number in range(plan.before)], shade=shades["leave"]),
            Row(name="come", values=[come[number] for number in range(plan.to)], shade=shades["come"]),
        ]
        yield Legend(shades)
        yield bars("groups that move", rows)
