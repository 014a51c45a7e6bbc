"""The first lines of an expansion's report: what became of the groups in one sentence, and what to do now."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from groupshift.application.expansion_account import (
    ExpansionAccount,
    closed,
    counted,
    deleted,
    made_by_another,
    restored,
)
from groupshift.application.run_account import accepted, compared, trouble, waiting
from groupshift.domain.cluster import COUNT
from groupshift.domain.step import RunAct, Stand
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import RunState
from groupshift.spark.account.headline import Headline

_RUN, _BACK = "groupshift expansion run --execute", "groupshift expansion back --execute"
_WORDS = {
    RunState.OPEN: "under way",
    RunState.GOING_BACK: "not back yet",
    RunState.DONE: "done",
    RunState.TAKEN_BACK: "taken back",
    RunState.ENDED: "nothing changed",
}
_HALT = ("No client may start before it is done, or taken back.", "")
_OVER = frozenset({RunState.DONE, RunState.TAKEN_BACK})


def headline(account: ExpansionAccount) -> Headline:
    """What the journal says, for a person who was just woken up."""
    why, state = trouble(account), account.run.state
    return Headline(
        verdict=_verdict(account, why),
        word="stopped" if why and state is RunState.OPEN else _WORDS[state],
        sentence=_sentence(account, why),
        now=_now(account, why),
    )


def _verdict(account: ExpansionAccount, why: str) -> Verdict:
    """A run that is not over is inconclusive; one that stopped has failed, and so has one that went on by
    somebody's word although something was wrong."""
    if account.run.state in _OVER:
        return Verdict.FAIL if accepted(account) else Verdict.PASS
    return Verdict.FAIL if why and account.run.open else Verdict.INCONCLUSIVE


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
