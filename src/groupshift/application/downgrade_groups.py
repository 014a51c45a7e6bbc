"""Steps of a downgrade that change groups, their configurations, features and the offsets topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.application.downgrade_work import HOLDS, Handler, Look, Work
from groupshift.domain.coordinator_log.replay_rules import LoadOutcome
from groupshift.domain.downgrade.inventory import InventoryGroup, inventory
from groupshift.domain.downgrade.progress import Seen
from groupshift.domain.downgrade.run_plan import RunAct, RunStep
from groupshift.domain.protocol.model import Kind
from groupshift.errors import Conflict
from groupshift.ports.cluster_runs import RunStepRecord

_CHURN_S = 1.0


def _listed(work: Work, group: str) -> InventoryGroup | None:
    """The group as the brokers list it now."""
    found = inventory(work.tools.views.look(), None)
    return next((each for each in found if each.group == group), None)


def _convert(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where somebody stopped all members, the group is converted as an empty one."""
    found = _listed(work, step.subject)
    if found is not None and Kind.CONSUMER in found.kinds and found.empty:
        work.tools.cluster.convert_empty(step.subject)
    return {}


def _converted(work: Work, step: RunStep, _record: RunStepRecord) -> Look:
    found = _listed(work, step.subject)
    if found is None or Kind.CONSUMER not in found.kinds:
        return HOLDS
    if found.empty:
        return Look(seen=Seen.NOT_YET, detail=f"group {step.subject} is still listed as consumer")
    said = f"group {step.subject} has members and is of type consumer: {step.does}"
    return Look(seen=Seen.PERSON, detail=said)


def _converted_empty(work: Work, step: RunStep, _record: RunStepRecord) -> Look:
    """Classic, and our member is gone again: a process that was cut off may have left it behind."""
    found = _listed(work, step.subject)
    if found is None or (found.empty and Kind.CONSUMER not in found.kinds):
        return HOLDS
    left = "has a member still" if not found.empty else "is still listed as consumer"
    return Look(seen=Seen.NOT_YET, detail=f"group {step.subject} {left}")


def _convert_empty(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises `Conflict` when a member joined since the plan was approved."""
    found = _listed(work, step.subject)
    if found is None or Kind.CONSUMER not in found.kinds:
        return {}
    if not found.empty:
        raise Conflict(
            f"group {step.subject} had no members when the plan was approved and has some now: stop them, "
            "or restart them with group.protocol=classic, then run it again"
        )
    work.tools.cluster.convert_empty(step.subject)
    return {}


def _delete_configs(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    present = work.tools.views.look().group_configs.get(step.subject, {})
    if present:
        work.tools.cluster.configure_group(step.subject, dict.fromkeys(present))
    return {"deleted": dict(present)}


def _configs_gone(work: Work, step: RunStep, _record: RunStepRecord) -> Look:
    left = work.tools.views.look().group_configs.get(step.subject, {})
    return Look(seen=Seen.NOT_YET, detail=f"{', '.join(left)} still told") if left else HOLDS


def _set_configs(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    work.tools.cluster.configure_group(step.subject, step.args["configs"])
    return {}


def _configs_there(work: Work, step: RunStep, _record: RunStepRecord) -> Look:
    told = work.tools.views.look().group_configs.get(step.subject, {})
    same = dict(told) == dict(step.args["configs"])
    return HOLDS if same else Look(seen=Seen.NOT_YET, detail="its configurations are not told yet")


def _level(work: Work, feature: str) -> int:
    return work.tools.views.look().finalised.get(feature, 0)


def _lower(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    if _level(work, step.subject) > step.args["to"]:
        work.tools.cluster.lower_feature(step.subject, step.args["to"])
    return {}


def _raise(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    if _level(work, step.subject) < step.args["to"]:
        work.tools.cluster.raise_feature(step.subject, step.args["to"])
    return {}


def _at_level(work: Work, step: RunStep, _record: RunStepRecord) -> Look:
    level = _level(work, step.subject)
    if level == step.args["to"]:
        return HOLDS
    return Look(seen=Seen.NOT_YET, detail=f"a broker tells {step.subject} at {level}")


def _former(work: Work, step: RunStep) -> Mapping[str, Any]:
    """What the topic is configured with before anything is changed; None: the broker's default."""
    told = work.tools.cluster.topic_configs()
    return {"former": {name: told.get(name) for name in step.args["wanted"]}}


def _quicken(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    work.tools.cluster.configure_topic(step.args["wanted"])
    return {}


def _quickened(work: Work, step: RunStep, _record: RunStepRecord) -> Look:
    return _topic_is(work, step.args["wanted"])


def _topic_is(work: Work, wanted: Mapping[str, str | None]) -> Look:
    told = work.tools.cluster.topic_configs()
    other = [name for name, value in wanted.items() if told.get(name) != value]
    return Look(seen=Seen.NOT_YET, detail=f"{', '.join(other)} not told yet") if other else HOLDS


def _compacted(work: Work, _step: RunStep, _record: RunStepRecord) -> Look:
    """Commits once to every partition, then reads the whole log."""
    work.tools.cluster.churn()
    work.tools.clock.sleep(_CHURN_S)
    log = work.facts().log
    if log is None:
        return Look(seen=Seen.NOT_YET, detail="the log was not read")
    if log.new_types:
        count, types = sum(log.new_types.values()), ", ".join(map(str, log.new_types))
        return Look(seen=Seen.NOT_YET, detail=f"{count} records of types {types} are left in the log")
    lost = sorted(name for name, each in log.verdicts.items() if each.outcome is not LoadOutcome.LOADS)
    if lost:
        return Look(seen=Seen.FAILED, detail=f"compacted, and still lost: {', '.join(lost)}")
    return Look(seen=Seen.HOLDS, result={"records": log.records, "groups": len(log.groups)})


def _settle(work: Work, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    work.tools.cluster.configure_topic(_written_down(work))
    work.tools.cluster.remove_churn()
    return {}


def _settled(work: Work, _step: RunStep, _record: RunStepRecord) -> Look:
    left = sorted(work.tools.cluster.churning())
    if left:
        return Look(seen=Seen.NOT_YET, detail=f"{left[0]} is still listed")
    return _topic_is(work, _written_down(work))


def _written_down(work: Work) -> Mapping[str, str | None]:
    records = work.tools.runs.steps(work.run)
    (quicken,) = (each for each in work.plan.steps if each.act is RunAct.QUICKEN)
    former: Mapping[str, str | None] = records[quicken.key].intent["former"]
    return former


HANDLERS: Mapping[RunAct, Handler] = {
    RunAct.CONVERT: Handler(act=_convert, read_back=_converted),
    RunAct.CONVERT_EMPTY: Handler(act=_convert_empty, read_back=_converted_empty),
    RunAct.DELETE_CONFIGS: Handler(act=_delete_configs, read_back=_configs_gone),
    RunAct.SET_CONFIGS: Handler(act=_set_configs, read_back=_configs_there),
    RunAct.LOWER: Handler(act=_lower, read_back=_at_level),
    RunAct.RAISE: Handler(act=_raise, read_back=_at_level),
    RunAct.QUICKEN: Handler(intend=_former, act=_quicken, read_back=_quickened),
    RunAct.COMPACT: Handler(read_back=_compacted),
    RunAct.SETTLE: Handler(act=_settle, read_back=_settled),
}
"""By what a step does."""
