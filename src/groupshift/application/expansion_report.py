"""The report of an expansion: what became of the groups in one sentence, what to do now, its own parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from groupshift.application.expansion_account import (
    UNKNOWN,
    ExpansionAccount,
    away_ms,
    closed,
    counted,
    deleted,
    expiring,
    intervals,
    made_by_another,
    restored,
)
from groupshift.application.expansion_plan import ExpansionPlan
from groupshift.application.run_account import (
    accepted,
    compared,
    headline_of,
    result_of,
    run_data,
    trouble,
    waiting,
)
from groupshift.application.run_engine import StepStatus
from groupshift.domain.cluster import COUNT
from groupshift.domain.seal import StoredFile
from groupshift.domain.step import RunAct, Stand
from groupshift.domain.verdict import Verdict
from groupshift.moves.expansion.report import movers_table
from groupshift.ports.journal import RunState
from groupshift.report.page import (
    Headline,
    Legend,
    Part,
    Section,
    duration,
    glance,
    section,
)
from groupshift.report.page import (
    render as render_page,
)
from groupshift.report.pictures import Row, bars
from groupshift.report.runs import RunData, node_lanes, run_page
from groupshift.report.svg import colour

_RUN, _BACK = "groupshift expansion run --execute", "groupshift expansion back --execute"
_HALT = ("No client may start before it is done, or taken back.", "")
_OVER = frozenset({RunState.DONE, RunState.TAKEN_BACK})


def headline(account: ExpansionAccount) -> Headline:
    """What the journal says, for a person who was just woken up."""
    why = trouble(account)
    return headline_of(account, _sentence(account, why), _now(account, why))


def _sentence(account: ExpansionAccount, why: str) -> str:
    plan, state = account.plan, account.run.state
    topic = f"__consumer_offsets of cluster {plan.cluster_id}"
    if state in _OVER:
        wrong = "; ".join(
            f"{each.what}: {'; '.join(each.reasons)} (accepted by {each.who})" for each in accepted(account)
        )
        proven = f"But not all is as it has to be: {wrong}." if wrong else _proven(account)
        return f"{_ended(account, topic)} {proven}"
    waits = waiting(account)
    waited = f" It waited: {waits}." if waits else ""
    if state is RunState.ENDED:
        return f"The way of {topic} to {plan.to} partitions was ended before anything was changed.{waited}"
    step = account.next
    at = f" at step {step.step.key}" if step else ""
    what = f"to {plan.to} partitions" if state is RunState.OPEN else "back"
    said = f"The way of {topic} {what} stands{at}; {_brokers(account)}."
    return f"{said} It stopped there: {why}." if why else f"{said}{waited}"


def _ended(account: ExpansionAccount, topic: str) -> str:
    """What became of it, without what nobody asked: the count that the topic has after a way back."""
    plan = account.plan
    if account.run.state is RunState.DONE:
        audited = all(each.act is not RunAct.AUDIT for each in accepted(account))
        brokers = ", and every broker counts them" if audited else ""
        return f"{topic} has {counted(account)} partitions now, from {plan.before}{brokers}."
    said = f"The way of {topic} to {plan.to} partitions was taken back"
    if other := made_by_another(account):
        made = f"{other} partitions, which somebody else made and brokers took up"
        return f"{said}: what was deleted is committed again, by {made}."
    return f"{said}: {'what was deleted is committed again' if deleted(account) else 'nothing was changed'}."


def _brokers(account: ExpansionAccount) -> str:
    steps = account.of_act(RunAct.RESTART)
    done = sum(each.stand is Stand.DONE for each in steps)
    return f"{done} of {len(steps)} brokers are restarted"


def _proven(account: ExpansionAccount) -> str:
    """How much was committed again, and compared."""
    equal = [each for each in compared(account) if each.verdict is Verdict.PASS]
    groups = max((each.groups or 0 for each in equal), default=0)
    offsets = restored(account)
    if offsets is None and not equal:
        return "Groups were not compared."
    said = "" if offsets is None else f"{offsets:,} offsets were committed again and read back; "
    return f"{said}{len(equal)} comparisons of {groups:,} groups found nothing lost and no offset changed."


def _now(account: ExpansionAccount, why: str) -> tuple[tuple[str, str], ...]:
    if account.run.state in _OVER:
        return _after(account)
    back, go_on = ("To take it back:", _BACK), ("To go on where it stands:", _RUN)
    match account.run.state:
        case RunState.ENDED:
            return (("To plan it again:", f"groupshift expansion run --to {account.plan.to}"),)
        case RunState.GOING_BACK:
            return (("To go on with the way back:", _BACK),)
        case _ if closed(account):
            cured = "; once the cause is cured" if why else ""
            return ((f"No client may start yet, and there is only the way forward{cured}:", _RUN),)
        case _:
            halt = (_HALT,) if deleted(account) else ()
            return (*halt, back, go_on) if why else (*halt, go_on, back)


def _after(account: ExpansionAccount) -> tuple[tuple[str, str], ...]:
    """What to do when a run is over."""
    check = (
        "To prove that nobody changed this evidence since:",
        f"groupshift verify-evidence {account.run.run}",
    )
    other = made_by_another(account)
    if wrong := {each.act for each in accepted(account)}:
        return (*_corrected(wrong, other), check)
    if account.run.state is RunState.TAKEN_BACK:
        started = "Clients may start" if other else "Clients may start: every group is where it was"
        return ((f"{started}.", ""), *_corrected(wrong, other), check)
    look = "For as long as offsets are kept, look for commits that came late, and for offsets that fell:"
    return (("Clients may start.", ""), (look, "groupshift expansion watch"), check)


def _corrected(wrong: Collection[RunAct], other: int) -> Iterator[tuple[str, str]]:
    """What has to be cured of what steps of these kinds found wrong, and of another count than the plan's;
    the log first."""
    if RunAct.AUDIT in wrong:
        yield "Restart no broker and start no client before this is clean:", "groupshift audit placement"
    if other:
        yield f"Set {COUNT}={other} in the file of every broker.", ""
    if set(wrong) - {RunAct.AUDIT, RunAct.PLACE}:
        yield "Correct what differs before its clients start: the offsets of before are in snapshot S.", ""


def render(account: ExpansionAccount, files: Sequence[StoredFile] = ()) -> str:
    """The HTML document; ``files`` are those of the run's evidence."""
    run, plan = run_data(account, files), account.plan
    title = f"__consumer_offsets from {plan.before} to {plan.to} partitions"
    first = [_glance(account), _counts(account, run)]
    listed = movers_table(plan.movers, "groupshift expansion status --json")
    moving = section("Groups that move", *_moving(plan), listed)
    return render_page(run_page(title, headline(account), run, first, [moving]))


def _glance(account: ExpansionAccount) -> Section:
    plan, found, away = account.plan, compared(account), away_ms(account)
    offsets, audits = restored(account), account.of_act(RunAct.AUDIT)
    equal = sum(each.verdict is Verdict.PASS for each in found)
    done = sum(each.stand is Stand.DONE for each in account.steps)
    return glance(
        ("partitions before", plan.before),
        ("partitions to be", counted(account)),
        ("nobody consumed for", duration(away[1] - away[0]) if away else None),
        ("brokers", len(plan.brokers)),
        ("groups", max((each.groups or 0 for each in found), default=0) or None),
        ("groups that move", f"{len(plan.movers):,}"),
        ("offsets committed again", None if offsets is None else f"{offsets:,}"),
        ("of them with an expiry of their own, which is lost", expiring(account) or None),
        ("comparisons equal", f"{equal} of {len(found)}"),
        ("records in the log at the end", _records(audits)),
        ("steps read back", f"{done} of {len(account.steps)}"),
    )


def _records(audits: Sequence[StepStatus]) -> str | None:
    """As the last audit read them."""
    found = result_of(audits[-1]).get("records") if audits else None
    return None if found is None else f"{found:,}"


def _counts(account: ExpansionAccount, run: RunData) -> Section:
    plan = account.plan
    counts = dict.fromkeys((str(plan.before), str(plan.to), str(counted(account))))
    shades = {count: colour(number) for number, count in enumerate(counts)}
    note = (
        "A bar is the count of partitions by which a broker finds groups, by the journal; grey is the time "
        "from the step before its restart until it was back and in sync, and until each broker was asked "
        "which count it uses. A sign below is a comparison of all groups."
    )
    return section(
        "Brokers and their counts",
        note,
        Legend(shades, {str(plan.to): "partitions"}),
        node_lanes(
            run, "Counts of the brokers over time", "broker", intervals(account), {**shades, UNKNOWN: "#999"}
        ),
    )


def _moving(plan: ExpansionPlan) -> Iterator[Part]:
    """How many groups leave each partition, and how many come."""
    if plan.movers:
        leave = Counter(each.before for each in plan.movers)
        come = Counter(each.after for each in plan.movers)
        shades = {"leave": colour(0), "come": colour(1)}
        rows = [
            Row(name="leave", values=[leave[number] for number in range(plan.before)], shade=shades["leave"]),
            Row(name="come", values=[come[number] for number in range(plan.to)], shade=shades["come"]),
        ]
        yield Legend(shades)
        yield bars("groups that move", rows)
