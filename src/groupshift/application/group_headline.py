"""The first lines of a report: what became of the group in one sentence, and what to do now."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.application.account import Account
from groupshift.domain.books import BOOKS
from groupshift.domain.foreign_text import shell
from groupshift.domain.group_protocol import Way
from groupshift.domain.plan import MoveName, Phase, Until
from groupshift.domain.verdict import Verdict, counted
from groupshift.report.page import Headline

_MOVED: Mapping[Until, str] = {
    Until.CANARY: "the canary runs migration-aware consumers, and ZooKeeper still coordinates the group",
    Until.ROLL: "all members are migration-aware consumers, and ZooKeeper still coordinates the group",
    Until.TOGGLE: "Kafka coordinates the group now, and its members can still go back",
    Until.RETIRE: "the group runs plain Kafka consumers now",
}
_WORDS = {
    Phase.PREVIEW: "planned only",
    Phase.PLANNED: "waiting for approval",
    Phase.APPROVED: "approved, not begun",
    Phase.RUNNING: "under way",
    Phase.MOVED: "moved",
    Phase.FINALISED: "finalised",
    Phase.ROLLING_BACK: "not back yet",
    Phase.ROLLED_BACK: "taken back",
    Phase.REJECTED: "nothing changed",
}


def headline(account: Account) -> Headline:
    """What the journal says, for a person who was just woken up."""
    status = account.status
    return Headline(
        verdict=_verdict(account),
        word=_WORDS[status.phase],
        sentence=_sentence(account),
        now=_now(account),
    )


def _verdict(account: Account) -> Verdict:
    """A migration that is not over is inconclusive; one on its way back that is not proven has failed."""
    match account.status.phase:
        case Phase.PREVIEW | Phase.PLANNED | Phase.APPROVED:
            return Verdict.INCONCLUSIVE
        case Phase.ROLLING_BACK:
            return Verdict.FAIL
        case Phase.RUNNING:
            said = account.status.verdict
            return said if said not in {None, Verdict.PASS} else Verdict.INCONCLUSIVE
        case _:
            return account.status.verdict or Verdict.INCONCLUSIVE


def _sentence(account: Account) -> str:
    status = account.status
    group, reason = f"Group {status.group}", status.reason
    match status.phase:
        case Phase.MOVED | Phase.FINALISED if status.verdict is Verdict.PASS:
            tail = "" if status.phase is Phase.MOVED else "; the mode node is gone, so there is no way back"
            return f"{group} was moved: {_moved(account)}{tail}. {_proven(account)}"
        case Phase.ROLLED_BACK if status.verdict is Verdict.PASS:
            return f"{group} is back where it came from ({reason}). {_proven(account)}"
        case Phase.ROLLED_BACK:
            why = _trimmed(reason).removeprefix("rolled back: ")
            return f"{group} was taken back to where it came from, and that is proven. The reason: {why}."
        case Phase.ROLLING_BACK:
            return (
                f"{group} is on its way back and not proven to be there: {_trimmed(reason or 'under way')}."
            )
        case Phase.RUNNING:
            return f"{group} is under way to {status.until}: {_trimmed(reason or _stage(account))}."
        case _:
            return f"{group}: {_trimmed(reason or _WORDS[status.phase])}. Nothing was changed."


def _moved(account: Account) -> str:
    plan = account.plan
    return _MOVED[plan.until] if plan.move is MoveName.COORDINATION else BOOKS[plan.move].reached(plan)


def _trimmed(reason: str) -> str:
    return reason.removesuffix(".")


def _stage(account: Account) -> str:
    begun = [each.stage.name for each in account.status.stages if each.began_at_ms is not None]
    return f"stage {begun[-1]} was begun last" if begun else "no stage has begun"


def _proven(account: Account) -> str:
    """How much was compared, and what became of the committed offsets."""
    after = [each for each in account.compared if each.counts]
    asked = [finding for each in account.compared for finding in each.findings]
    lost = sum(each.counts.get("lost", 0) for each in after)
    back = sum(each.counts.get("regressed", 0) for each in after)
    said = counted(asked, f"findings of {len(account.compared)} judgements")
    offsets = (
        f"{lost} committed offsets were lost and {back} went back"
        if lost or back
        else ("no committed offset was lost or went back")
    )
    return f"{said}; {offsets}." if after else f"{said}."


def _now(account: Account) -> tuple[tuple[str, str], ...]:
    status = account.status
    me = status.migration
    back = ("To take it back:", f"groupshift roll-back {me} --execute")
    check = ("To prove that nobody changed this evidence since:", f"groupshift verify-evidence {me}")
    stopped = ("A person stopped it here. The group consumes; decide whether it stays.", "")
    kept = ("Nothing has to be done now. The way back stays open.", "")
    go_on = ("To go on where it stopped:", f"groupshift run --migration {me} --execute")
    start = ("To run it:", f"groupshift run --migration {me} --execute")
    once = "" if status.verdict is Verdict.PASS else ", once the findings below are understood"
    ready = (f"To try again{once}:", _verb(account, "assess"))
    correct = (
        "Correct what the first finding below names, then run this again:",
        f"groupshift roll-back {me} --execute",
    )
    moved = (kept, back, check) if status.verdict is Verdict.PASS else (stopped, back)
    return {
        Phase.MOVED: moved,
        Phase.FINALISED: (("Nothing has to be done: the move is over.", ""), check),
        Phase.ROLLED_BACK: (
            *_left_behind(account),
            ready,
            check,
        ),
        Phase.ROLLING_BACK: (correct,),
        Phase.RUNNING: (go_on, back),
        Phase.PLANNED: (start,),
        Phase.APPROVED: (start,),
    }.get(status.phase, (("To plan it again:", _verb(account, "run")),))


def _left_behind(account: Account) -> tuple[tuple[str, str], ...]:
    """What a rollback left in Kafka and the command that removes it."""
    found = account.leftover
    if found is None:
        return (("Nothing has to be done now: the group is as it was.", ""),)
    return ((f"Members and ZooKeeper are as they were. {found.sentence}. To remove them:", found.command),)


def _verb(account: Account, verb: str) -> str:
    """What to type for this group and this move."""
    plan, group = account.plan, account.status.group
    if plan.move is not MoveName.PROTOCOL:
        return f"groupshift {verb} --group {shell(group)}"
    offline = " --offline" if plan.way is Way.OFFLINE else ""
    return f"groupshift protocol {verb} --group {shell(group)} --to {plan.to}{offline}"
