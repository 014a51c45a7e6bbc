"""Steps of an expansion that wait for groups, prove that it may begin, keep clients out, and take groups
away.

Groups that move are deleted at their coordinators of now, because what stayed there would be answered by an
OLD coordinator, or listed twice. The snapshot is the only copy from then on. So three things come first:
brokers and the log agree about every offset, the same offsets were committed once as a rehearsal, and nothing
changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from groupshift.domain.run import PASSED, Checked, Json, Outcome, Step, StepRecord, StepState
from groupshift.domain.verdict import against
from groupshift.engine.gates import differences
from groupshift.engine.move import Aspects, Handler, Standing
from groupshift.errors import Conflict, Rejected
from groupshift.moves.expansion.facts import listed
from groupshift.moves.expansion.logged_offsets import held
from groupshift.moves.expansion.plan_and_rollback import aspects
from groupshift.moves.expansion.ports import (
    SNAPSHOT,
    Expanding,
    ExpansionPorts,
    counts_of,
    facts_now,
    hidden,
    kept,
    live_in_log,
    movers_now,
    naming,
    require_drained,
    sized,
    undrained,
)
from groupshift.moves.expansion.restore import agreement, demand_answers, key_of, unlike
from groupshift.moves.expansion.rules import ask
from groupshift.ports.driver import ClientFence

_SAID = 10
"""How many sentences are journaled."""
_REFUSED = (
    "stop the members where it says 68, let this login delete groups where it says 29 or 30; where it says "
    "-1 or 10 its coordinator could not write the tombstones: read its log, and max.message.bytes of the "
    "offsets topic"
)


def waits(why: str) -> Checked:
    """Return a look that has to be repeated."""
    return Checked(outcome=Outcome.WAIT, detail=why)


def back(run: Expanding) -> str:
    """Return the command that rolls the run back."""
    return f"groupshift roll-back {run.name} --execute"


class Drain(Handler[ExpansionPorts]):
    """Waits until nobody uses a group. Nothing is changed here: whoever was stopped may start again."""

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """Whether nobody uses a group, as every broker lists it, and no transaction writes offsets."""
        left = undrained(run, run.ports.views.look())
        return waits(f"{left} (nothing was changed: clients may also start again)") if left else PASSED


class Agree(Handler[ExpansionPorts]):
    """Compares what brokers answered with what the log has."""

    def act(self, run: Expanding, step: Step, intent: Json) -> Json:
        """Compare snapshot and log offset by offset, and count the offsets with an expiry of their own:
        these are lost when they are committed again. Returns numbers and the first sentences."""
        taken, plan = run.snapshot(SNAPSHOT), counts_of(run.there)
        rows = run.ports.store.offsets(Path(taken.folder), taken.manifest_sha256)
        known = plan.moving | {each.group for each in listed(run.ports.views.look().cluster)}
        log = held(run.ports.log, plan.before)
        moving = {row.group for row in rows} & plan.moving
        # a group that no broker lists and that stays was not asked for: rule X15 warned of it
        differing = [said for group, said in agreement(rows, log) if group in known]
        expiring = [group for group in log.expiring if group in moving]
        return {
            "offsets": len(rows),
            "groups_that_move": len(moving),
            "differing": len(differing),
            "expiring": len(expiring),
            "of": sorted(set(expiring))[:_SAID],
            "reasons": differing[:_SAID],
        }

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """Whether both sources agree. Where they do not, no copy can be trusted: only a rollback helps."""
        if not record.result["differing"]:
            return PASSED
        said = "; ".join(record.result["reasons"])
        detail = (
            f"{record.result['differing']} offsets differ between brokers and log: {said}; take the run back "
            f"({back(run)}), look with groupshift audit placement, begin anew"
        )
        return Checked(outcome=Outcome.FAIL, detail=detail, only_rollback_helps=True)


class Prove(Handler[ExpansionPorts]):
    """The go/no-go: whether each step before it was done, the plan is still that of the cluster, all topics
    are in sync, and the controller would make the partitions: before anything is taken away."""

    def act(self, run: Expanding, step: Step, intent: Json) -> Json:
        """See `Handler`. Raises `Rejected` in the controller's words."""
        facts, plan = facts_now(run), counts_of(run.there)
        then: Aspects = run.there.about["met"]
        void, busy = differences(then, aspects(facts)), undrained(run, facts.view)
        said = [*(each.with_remedy for each in against(ask(facts))), *void, *unproven(run, step)]
        said += [busy] if busy else []
        if lacks := run.ports.topic.cluster_lacks(plan.brokers):
            said.append(f"{lacks}: brokers will be stopped one after the other; cure that first")
        if facts.view.count != plan.to:
            run.ports.topic.check(plan.to)
        return {"against": said[:_SAID], "void": bool(void)}

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """No go with everything that speaks against it; what made the approval void is a rollback's."""
        said, void = record.result["against"], record.result["void"]
        if not said:
            return PASSED
        anew = f"; take the run back with {back(run)}, and plan anew" if void else ""
        return Checked(
            outcome=Outcome.FAIL, detail=f"no go: {'; '.join(said)}{anew}", only_rollback_helps=void
        )


class Fence(Handler[ExpansionPorts]):
    """Keeps clients out (step ``fence``), or lets them in again (``reopen``). The programs say so themselves;
    that nobody is there is asked of every broker before each step."""

    def act(self, run: Expanding, step: Step, intent: Json) -> Json:
        """See `Handler`. Raises `Rejected` where the plan has a fence, and this process none."""
        run.hold(step)
        fence = run.ports.nodes
        if not isinstance(fence, ClientFence):
            raise Rejected("this run keeps clients out by the [fence] of a file: name that file with --nodes")
        if step.kind == "reopen":
            fence.let_in(run.name)
            return {"let_in": True}
        fence.keep_out(run.name)
        return {"kept_out": True}

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        return PASSED


class Listed(Handler[ExpansionPorts]):
    """A step for which every broker has to list all its groups."""

    def allowed(self, run: Expanding, step: Step) -> Checked:
        """Whether every broker lists all its groups now; else the step waits."""
        why = hidden(run, run.ports.views.look())
        return waits(why) if why else PASSED


class DeleteGroups(Listed):
    """Deletes the groups that move, and only what the snapshot has."""

    touches = True

    def stands(self, run: Expanding, step: Step, record: StepRecord) -> Standing:
        """A deletion that was written down may have been made; it is looked for and made again."""
        return Standing.OTHER if record.state is StepState.INTENDED else Standing.MADE

    def act(self, run: Expanding, step: Step, intent: Json) -> Json:
        """See `Handler`. Raises `Conflict`, having deleted nothing now, when a group committed since, has
        members, or came since and would move."""
        plan, view = counts_of(run.there), run.ports.views.look()
        require_drained(run, view)
        there = {key_of(row): row for row in kept(run)}
        state = run.ports.reader.take(sorted(plan.moving | movers_now(run, view)))
        demand_answers(state)
        changed = {
            row.group
            for row in state.offsets  # a group that answers nothing is deleted already
            if (known := there.get(key_of(row))) is None or unlike(row, known)
        }
        if changed:
            raise Conflict(
                f"offsets of {naming(changed)} changed since snapshot {SNAPSHOT}: nothing was deleted now; "
                f"take the run back with {back(run)}, and begin anew"
            )
        refused: dict[str, str] = {}
        for groups in sized(sorted(plan.moving), there.values()):
            refused |= run.ports.restoring.delete(groups, partial(run.hold, step))
        return {"refused": sorted(refused.values())[:_SAID]}

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """Whether they are gone everywhere: no broker lists one, none answers an offset of one, and the
        log as all replicas have it holds nothing live of one."""
        if record.result["refused"]:
            said = "; ".join(record.result["refused"])
            return Checked(outcome=Outcome.FAIL, detail=f"{said}; {_REFUSED}, then run it again")
        view, moving = run.ports.views.look(), counts_of(run.there).moving
        if why := hidden(run, view):
            return waits(why)
        if left := moving & {each.group for each in listed(view.cluster)}:
            return waits(f"still listed: {naming(left)}")
        if answering := run.ports.views.answering(tuple(sorted(moving))):
            return waits(f"still answering: {naming(answering)}")
        logged = moving & live_in_log(run, view)
        return waits(f"tombstones are not on all replicas yet: {naming(logged)}") if logged else PASSED


_ACCEPTABLE = frozenset({"rehearse", "restore", "verify"})
"""Kinds of steps of which a person may let go as they are: the journal shows who did."""
_SHOWS: Mapping[str, Callable[[Json], bool]] = {
    "approve": lambda result: bool(result.get("by")),
    "snapshot": lambda result: bool(result.get("folder")) and not result.get("problems"),
    "agree": lambda result: result.get("differing") == 0,
    "fence": lambda result: result.get("kept_out") is True,
    "compare": lambda result: bool(result.get("folder")) and "outcome" in result,
    "prove": lambda result: result.get("against") == [],
    "rehearse": lambda result: result.get("left") == 0,
    "delete-groups": lambda result: result.get("refused") == [],
    "restore": lambda result: result.get("left") == 0,
    "verify": lambda result: result.get("verdict") == "pass",
}
"""Whether what is journaled of a step shows that it was done, by its kind. Partitions, restarts and counts
are asked of the brokers themselves at the end."""


def unproven(run: Expanding, before: Step) -> Iterator[str]:
    """Yield a sentence for each step of the walked plan ahead of ``before`` that the journal does not show to
    be done, with what it came to."""
    records = run.records
    for step in run.plan.steps:
        if step.key == before.key:
            return
        record, shows = records.get(step.key), _SHOWS.get(step.kind)
        result = record.result if record is not None and record.state is StepState.DONE else {}
        accepted = step.kind in _ACCEPTABLE and result.get("accepted_by")
        if shows is not None and not (accepted or shows(result)):
            yield f"the journal does not show that step {step.key} was done: {step.does}"
