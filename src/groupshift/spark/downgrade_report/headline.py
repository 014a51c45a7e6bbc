"""The first lines of a downgrade's report: what became of the brokers in one sentence, and what to do now."""

from __future__ import annotations

from groupshift.application.downgrade_account import DowngradeAccount
from groupshift.application.run_account import accepted, compared, trouble, waiting
from groupshift.domain.foreign_text import shell
from groupshift.domain.step import RunAct, Stand
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import RunState
from groupshift.spark.account.headline import Headline

_RUN, _BACK = "groupshift downgrade run --execute", "groupshift downgrade back --execute"
_NAMED = 10
"""How many groups a sentence names."""
_WORDS = {
    RunState.OPEN: "under way",
    RunState.GOING_BACK: "not back yet",
    RunState.DONE: "done",
    RunState.TAKEN_BACK: "taken back",
    RunState.ENDED: "nothing changed",
}


def headline(account: DowngradeAccount) -> Headline:
    """What the journal says, for a person who was just woken up."""
    why = trouble(account)
    return Headline(
        verdict=_verdict(account, why),
        word="stopped" if why and account.run.state is RunState.OPEN else _WORDS[account.run.state],
        sentence=_sentence(account, why),
        now=_now(account, why),
    )


def _verdict(account: DowngradeAccount, why: str) -> Verdict:
    """A run that is not over is inconclusive; one that stopped at a failed proof has failed, and so has one
    that somebody let go on after it."""
    match account.run.state:
        case RunState.TAKEN_BACK if accepted(account):
            return Verdict.FAIL
        case RunState.DONE | RunState.TAKEN_BACK:
            return Verdict.PASS
        case RunState.OPEN | RunState.GOING_BACK if why:
            return Verdict.FAIL
        case _:
            return Verdict.INCONCLUSIVE


def _sentence(account: DowngradeAccount, why: str) -> str:
    plan, state = account.plan, account.run.state
    where, proven = f"of cluster {plan.cluster_id}", _proven(account)
    match state:
        case RunState.DONE:
            return f"The brokers {where} run {plan.release} now, from {plan.now}. {proven}"
        case RunState.TAKEN_BACK if differing := _differing(account):
            return (
                f"The brokers {where} run {plan.now} again, but not all groups are as they were: {differing}."
            )
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
        case RunState.DONE:
            kept = (
                f"Nothing has to be done now. Keep the files of {plan.now} until nobody wants to go up again."
            )
            return ((kept, ""), check)
        case RunState.TAKEN_BACK if accepted(account):
            kept = "Correct what differs: the offsets of before are in the folder of snapshot C0."
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
