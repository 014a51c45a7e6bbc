"""The one factory of stages, forward and back: snapshot, prove, judge, act, wait, snapshot, prove, judge.

A judge runs when its measurement succeeded *or failed* (a failed measurement is the verdict
``error``), but not when its stage was skipped or never entered: trigger rule
``all_done_min_one_success`` over the task that opens its half of the stage and the proof.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import TaskGroup, TriggerRule, chain

from groupshift.domain.evidence import Moment
from groupshift.domain.plan import UNDO_OF, UNDO_STAGES, MoveName, StageName
from groupshift_airflow.gates import Act, Judge
from groupshift_airflow.operators import Snapshot, Validate, WayBack
from groupshift_airflow.sensors import Settled, Soak

_TITLES = {
    StageName.CANARY: "one old member is replaced by a migration-aware one",
    StageName.ROLL: "the other old members are replaced",
    StageName.TOGGLE: "the mode node is set to kafka",
    StageName.RETIRE: "migration-aware members are replaced by plain Kafka consumers",
    StageName.SOAK: "nothing is changed; the group is watched",
    StageName.UNDO_RETIRE: "plain consumers are replaced by migration-aware ones",
    StageName.UNDO_TOGGLE: "the mode node is set back to zookeeper",
    StageName.UNDO_MEMBERS: "migration-aware members are replaced by old ones",
}

_PROTOCOL_TITLES = {
    StageName.CANARY: "one member is replaced by one of the wanted protocol",
    StageName.ROLL: "the other members are replaced, one after the other",
    StageName.EMPTY: "all members stop",
    StageName.FILL: "members of the wanted protocol start",
    StageName.SOAK: "nothing is changed; the group is watched",
    StageName.UNDO_FILL: "the members that were started stop",
    StageName.UNDO_EMPTY: "members of the former protocol start",
    StageName.UNDO_MEMBERS: "members are replaced by ones that were there before",
}
_TITLES_OF = {MoveName.COORDINATION: _TITLES, MoveName.PROTOCOL: _PROTOCOL_TITLES}


def stage(
    name: StageName,
    *,
    entered: TriggerRule = TriggerRule.ALL_SUCCESS,
    move: MoveName = MoveName.COORDINATION,
) -> TaskGroup:
    """One stage of a plan; it skips itself when the plan does not have it.

    ``entered`` is the trigger rule of its first task: for stages behind which another may be skipped.
    """
    with TaskGroup(group_id=name.value, tooltip=_TITLES_OF[move][name]) as group:
        first = _measured(name, Moment.BEFORE, entered)
        last = _measured(name, Moment.AFTER, TriggerRule.ALL_SUCCESS)
        waited = Soak(task_id="wait") if name is StageName.SOAK else Settled(task_id="wait", stage=name)
        changed = [] if name is StageName.SOAK else [Act(task_id="act", stage=name)]
        chain(first["judge"], *changed, waited, last["snapshot"])
        first["judge"] >> last["judge"]
    return group


def _measured(name: StageName, moment: Moment, entered: TriggerRule) -> dict[str, Any]:
    """Snapshot, proof and judge of one moment, chained."""
    about = {"stage": name.value, "moment": moment.value}
    tasks = {
        "snapshot": Snapshot(task_id=f"snapshot_{moment}", trigger_rule=entered, **about),
        "validate": Validate(task_id=f"validate_{moment}", **about),
        "judge": Judge(task_id=f"judge_{moment}", trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS, **about),
    }
    chain(*tasks.values())
    tasks["snapshot"] >> tasks["judge"]
    return tasks


def way_back(move: MoveName = MoveName.COORDINATION) -> TaskGroup:
    """The way back of a run whose judge began it: skipped otherwise, whatever happened before."""
    with TaskGroup(
        group_id="way_back", prefix_group_id=False, tooltip="only after a failed judgement"
    ) as group:
        begun = WayBack(task_id="going_back", trigger_rule=TriggerRule.ALL_DONE)
        chain(begun, *undo_stages(move))
    return group


def undo_stages(move: MoveName | None = None) -> list[TaskGroup]:
    """The stages of the way back of a move, or of any, in order; each skips itself when there is nothing to
    undo."""
    wanted = UNDO_OF[move] if move else UNDO_STAGES
    named = [each for each in MoveName if move in {None, each}]
    return [
        stage(name, entered=TriggerRule.NONE_FAILED, move=next(m for m in named if name in UNDO_OF[m]))
        for name in wanted
    ]
