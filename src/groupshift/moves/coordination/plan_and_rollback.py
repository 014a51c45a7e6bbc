"""From a request and an observed group to a plan, and from what was begun to the rollback. Pure.

The path: canary, roll, toggle, retire; then the group soaks, and the mode node may go for good. Each act has
a snapshot, a comparison and a judge before and after it, and compares with the snapshot behind the act before
it. The toggle is rehearsed and approved by itself: it is the one act that concerns all members at once.

A rollback takes back the acts that were begun, last one first. It does not rely on the journal alone: a mode
node that asks for kafka now is set back, whoever wrote it, and members that are no old ones are replaced
where this run had none to replace. ``steps.toml`` beside this module says what each step does. Source:
docs/reference/zookeeper-coordination.md §9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from groupshift.domain.canary import INTERVALS, canary_places
from groupshift.domain.evidence import Moment
from groupshift.domain.group_rules import leftovers, resets
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.old_members import shares
from groupshift.domain.plan import PhaseName, Until, WayBack
from groupshift.domain.run import (
    APPROVE,
    IRREVERSIBLE,
    JUDGE,
    NOTHING,
    NoUndo,
    OnDifference,
    Plan,
    Step,
    StepRecord,
    StepState,
    make_plan,
    make_rollback,
)
from groupshift.domain.step_table import StepTable
from groupshift.engine.group import places_of, snapshot_name
from groupshift.engine.group_move import (
    ONLINE,
    GroupSteps,
    Undo,
    acts_begun,
    approval,
    members_at,
    replacement,
    soaking,
    taken_back,
    undone,
)
from groupshift.engine.replace_members import REPLACE_MEMBERS
from groupshift.errors import Rejected
from groupshift.moves.coordination.facts import CoordinationRequest, LiveGroup
from groupshift.ports.group import CanaryTerms, GroupTerms

_step = StepTable("moves/coordination/steps.toml").step
SET_MODE = "set_mode"
"""The kind of step that writes the mode node: ``args["to"]`` is the mode."""
DELETE_MODE_NODE = "delete_mode_node"
WATCH = "watch_canary"
"""The kind of step that compares the canary with the old members: ``args`` as of `Series`, and ``slots``."""
REHEARSE = "rehearse"
MANUAL = "manual"
"""The driver of a plan that replaces nobody: no fleet is asked."""
TOGGLE_GATE, FINALISE_GATE = f"{PhaseName.TOGGLE}/approve", f"{PhaseName.FINALISE}/approve"
_REACH = tuple(Until)
_UNDO_TOGGLE = PhaseName.UNDO_TOGGLE


def plan(request: CoordinationRequest, live: LiveGroup) -> Plan:
    """Return the phases that this group still needs, in order, up to ``request.until``: a group whose members
    are all aware starts at the toggle.

    Raises `Rejected` where nothing is left to do, for a canary that is larger than the group, and for a watch
    that could show nothing."""
    view, everywhere = live.facts.view, places_of(live.facts)
    reached = frozenset(_REACH[: _REACH.index(request.until) + 1])
    old = [place for place in everywhere if place.kind is MemberKind.ZOOKEEPER]
    canary = canary_places(view, old, count=request.canary, share=request.canary_share)
    if canary and request.canary > len(view.members):
        raise Rejected(
            f"canary {request.canary} is more than the {len(view.members)} members of group {request.group}"
        )
    first = tuple(place.name for place in canary)
    watch_s = request.canary_watch if canary else 0
    if watch_s:
        _require_watchable(watch_s, first, len(view.of_kind(MemberKind.ZOOKEEPER)), live.canary)
    parts = _Parts(live.terms)
    parts.replaces(PhaseName.CANARY, members_at(first, MemberKind.ZOOKEEPER, MemberKind.AWARE))
    if watch_s:
        parts.add_watch(first, watch_s, live.canary)
    if Until.ROLL in reached:
        rest = [place.name for place in old if place.name not in first]
        parts.replaces(PhaseName.ROLL, members_at(rest, MemberKind.ZOOKEEPER, MemberKind.AWARE))
    if Until.TOGGLE in reached and view.effective_mode is not Mode.KAFKA:
        parts.toggles()
    if Until.RETIRE in reached:
        aware = [place.name for place in everywhere if place.kind is not MemberKind.PLAIN]
        parts.replaces(PhaseName.RETIRE, members_at(aware, MemberKind.AWARE, MemberKind.PLAIN))
    if not parts.latest:
        raise Rejected(
            f"group {request.group} has nothing to move until {request.until} ({len(old)} old members, "
            f"{view.effective_mode} mode); choose a later until, or roll back to undo"
        )
    parts.measured(soaking(request.soak, live.terms))
    if Until.RETIRE in reached:  # before, members need the mode node: it cannot be finalised
        parts.finalises()
    due, partitions = shares(view), len(view.partitions) if canary else 0
    held = sum(due.get(place.member_id or "", 0) for place in canary)
    notes = [*leftovers(view), *resets(view)]
    if watch_s and partitions:
        share = f"{held} of {partitions} partitions ({100 * held // partitions} %)"
        notes.insert(0, f"The canary holds {share}; it is watched for {watch_s} s.")
    about = {
        "group": request.group,
        "driver": live.driver,
        "until": request.until.value,
        "slots": [place.name for place in everywhere],
        "canary": {"watch_s": watch_s, "held": held, "partitions": partitions},
        "notes": notes,
    }
    return make_plan(parts.steps, about)


def _require_watchable(watch_s: int, slots: Sequence[str], old: int, limits: CanaryTerms) -> None:
    """A canary that could never be judged is refused before it is begun: it is watched for too short, or no
    old member is left beside it. Raises `Rejected`."""
    interval_ms = limits.commit_interval_ms
    if watch_s * 1000 < INTERVALS * interval_ms:
        raise Rejected(
            f"canary_watch {watch_s} is less than {INTERVALS} commit intervals "
            f"(thresholds.commit_interval_ms {interval_ms}): nothing could be compared; "
            f"choose at least {-(-INTERVALS * interval_ms // 1000)}, or 0 to watch nothing"
        )
    if len(slots) >= old:
        raise Rejected(
            f"the canary replaces all old members ({', '.join(slots)}): none is left to compare it with; "
            "choose a smaller canary, or canary_watch 0"
        )


def mode_alone(group: str, to: Mode, terms: GroupTerms) -> Plan:
    """Return a plan that sets the mode and judges the group by live rules alone: without a snapshot, and
    without a gate, so that a run of it is approved by whoever begins it."""
    forward = to is Mode.KAFKA
    back = _set_mode(_UNDO_TOGGLE, Mode.ZOOKEEPER, terms)
    act = _set_mode(PhaseName.TOGGLE, to, terms, undo=back) if forward else back
    about = {
        "group": group,
        "driver": MANUAL,
        "until": Until.TOGGLE.value,
        "slots": [],
        "canary": {"watch_s": 0, "held": 0, "partitions": 0},
        "notes": [],
    }
    return make_plan((act, _judge_alone(act, terms)), about)


def is_alone(plan: Plan) -> bool:
    """Return True for a plan of `mode_alone`."""
    return not any(each.kind == APPROVE for each in plan.steps)


def back_alone(there: Plan, records: Mapping[str, StepRecord], number: int, terms: GroupTerms) -> Plan:
    """Return a rollback that only sets the mode back, by live rules alone, if the plan's toggle was begun."""
    acts = [
        _set_mode(_UNDO_TOGGLE, Mode.ZOOKEEPER, terms, undoes=each.key)
        for each in acts_begun(there, records, {SET_MODE})
        if isinstance(each.undo, Step)
    ]
    return make_rollback([step for act in acts for step in (act, _judge_alone(act, terms))], number)


def _judge_alone(act: Step, terms: GroupTerms) -> Step:
    """A toggle that fails is taken back; of what was taken back a person may accept how it is."""
    forward = act.phase == PhaseName.TOGGLE
    return _step(
        JUDGE,
        Moment.AFTER.value,
        {"phase": act.phase},
        phase=act.phase,
        args={"moment": Moment.AFTER.value, "compares": []},
        on_difference=OnDifference.STOP if forward else OnDifference.ACCEPTABLE,
        patience_s=terms.patience_s,
    )


class _Parts(GroupSteps):
    """What a coordination has besides: the watch of its canary, the mode node, and its end."""

    def add_watch(self, slots: Sequence[str], watch_s: int, limits: CanaryTerms) -> None:
        """Watch the canary right behind its act; the judge after it judges what was seen, too."""
        args = {"seconds": watch_s, "every_s": limits.every_s, "samples": limits.looks}
        watch = _step(
            WATCH,
            said={"slots": ", ".join(slots), "seconds": watch_s},
            args={"slots": list(slots), **args},
            patience_s=watch_s + limits.looks * limits.every_s + self.terms.settle_s,
        )
        judge = self.steps[-1]
        compares = [*judge.args["compares"], watch.name]
        self.steps[-1] = replace(judge, args={**judge.args, "compares": compares})
        self.steps.insert([each.kind for each in self.steps].index(REPLACE_MEMBERS) + 1, watch)

    def toggles(self) -> None:
        """Write the mode node, behind a rehearsal of what takes it back and an approval of its own."""
        self.add(_step(REHEARSE, patience_s=self.terms.patience_s))
        self.add(approval(PhaseName.TOGGLE, "approve the toggle"))
        self.gate = TOGGLE_GATE
        back = _set_mode(_UNDO_TOGGLE, Mode.ZOOKEEPER, self.terms)
        act = _set_mode(PhaseName.TOGGLE, Mode.KAFKA, self.terms, undo=back)
        self.measured(act)

    def finalises(self) -> None:
        """Remove what only the rollback needed, where somebody wants that."""
        gate = replace(approval(PhaseName.FINALISE, "asks whether the mode node may go"), optional=True)
        patience_s = self.terms.patience_s
        act = _step(
            DELETE_MODE_NODE, optional=True, undo=IRREVERSIBLE, gate=FINALISE_GATE, patience_s=patience_s
        )
        self.steps += [gate, act]


def _set_mode(
    phase: PhaseName, to: Mode, terms: GroupTerms, *, undo: Step | NoUndo = NOTHING, undoes: str = ""
) -> Step:
    """The step that writes the mode node: ``undo`` on the way there, ``undoes`` (the key of a step) in a
    rollback."""
    texts, args = {"to": to}, {"to": to.value}
    return _step(
        SET_MODE, "", texts, phase=phase, args=args, undo=undo, undoes=undoes, patience_s=terms.settle_s
    )


def roll_back_plan(
    there: Plan, records: Mapping[str, StepRecord], number: int, live: LiveGroup, to: WayBack
) -> Plan:
    """Return the inverses of the acts that ``records`` has, last one first; canary and roll are one.

    A mode node that asks for kafka now is set back, whoever wrote it; where the plan replaced nobody by aware
    members, because all were, a rollback to old members covers every place that holds none. An inverse that
    an earlier rollback made is only measured again, by live rules alone where a scan made it."""
    steps: list[Step] = []
    for each, around in undone(tuple(_undone(there, records, live, to)), there, records, live.terms):
        before = f"{each.act.phase}/snapshot {snapshot_name(Moment.BEFORE, each.act.phase)}"
        if not each.keys or f"back {each.keys[0]}" not in records:
            steps += around
        elif any(key.endswith(before) and one.state is StepState.DONE for key, one in records.items()):
            steps += around[around.index(each.act) :]
        else:  # a scan made it, and took no snapshot: there is nothing to compare with
            steps += [each.act, _judge_alone(each.act, live.terms)]
    return make_rollback(steps, number)


def _undone(there: Plan, records: Mapping[str, StepRecord], live: LiveGroup, to: WayBack) -> Iterable[Undo]:
    """The acts of a rollback, last one of the way there first, each with the acts that it takes back."""
    terms, facts = live.terms, live.facts
    acts_done = acts_begun(there, records, {REPLACE_MEMBERS, SET_MODE})
    begun = {PhaseName(each.phase): each for each in acts_done}

    def together(phases: Sequence[PhaseName]) -> Iterable[Undo]:
        """Yield one inverse for the begun acts of these phases, over all their places; nothing where none
        was begun."""
        acts = [begun[each] for each in phases if each in begun]
        slots = sorted(slot for each in acts for slot in each.args["slots"])
        return (taken_back(acts, slots, terms),) if acts else ()

    yield from together([PhaseName.RETIRE])
    if toggled := begun.get(PhaseName.TOGGLE):
        act = _set_mode(_UNDO_TOGGLE, Mode.ZOOKEEPER, terms, undoes=toggled.key)
        yield Undo(act=act, keys=(toggled.key,))
    elif facts.view.mode.requested is Mode.KAFKA:
        yield Undo(act=_set_mode(_UNDO_TOGGLE, Mode.ZOOKEEPER, terms))
    if to is not WayBack.OLD_MEMBERS:
        return
    yield from together([PhaseName.CANARY, PhaseName.ROLL])
    replaced = any(each.phase in ONLINE for each in there.steps)
    slots = [each.name for each in places_of(facts) if each.kind is not MemberKind.ZOOKEEPER]
    if slots and not replaced:
        members = {**members_at(slots, MemberKind.AWARE, MemberKind.ZOOKEEPER), "takes_back": []}
        yield Undo(act=replacement(PhaseName.UNDO_MEMBERS, members, terms))
