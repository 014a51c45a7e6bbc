"""Steps of a downgrade that change groups, their configurations, features and the offsets topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.application.downgrade_work import Work
from groupshift.application.run_work import HOLDS, Handler, Look
from groupshift.domain.cluster import ClusterView
from groupshift.domain.facts import sentence_list
from groupshift.domain.group_protocol import Kind
from groupshift.domain.step import RunAct, RunStep, Seen
from groupshift.errors import Conflict, Transient
from groupshift.log.replay import LoadOutcome
from groupshift.moves.downgrade.facts import InventoryGroup, inventory
from groupshift.moves.downgrade.releases import GROUP, SHARE, STREAMS
from groupshift.ports.journal import RunStepRecord

_CHURN_S = 1.0


def _hidden(work: Work, view: ClusterView) -> str:
    """Why brokers may not list all groups now, so that an empty answer proves nothing; empty when they do."""
    loading = [str(each.node_id) for each in view.brokers if each.loading]
    absent = sorted(set(work.plan.brokers) - {each.node_id for each in view.brokers})
    if loading:
        return f"broker {', '.join(loading)} still loads coordinator partitions and lists not all its groups"
    if absent:
        return f"broker {', '.join(map(str, absent))} is not registered, and lists no groups"
    if view.leaderless:
        return f"partition {view.leaderless[0]} of the offsets topic has no leader, its groups are not listed"
    return ""


def _whole_view(work: Work) -> ClusterView:
    """A view in which every broker lists all its groups. Raises `Transient` when there is none in time."""
    end = work.tools.clock.now_ms() + work.terms.patience_s * 1000
    while hidden := _hidden(work, view := work.tools.views.look()):
        if work.tools.clock.now_ms() >= end:
            raise Transient(f"{hidden}; nothing was changed, run it again")
        work.tools.clock.sleep(work.terms.every_s)
    return view


def _listed(view: ClusterView, group: str) -> InventoryGroup | None:
    """The group as the brokers list it."""
    return next((each for each in inventory(view, None) if each.group == group), None)


def _looked(work: Work, group: str) -> tuple[InventoryGroup | None, str]:
    """The group as listed now, and why that may not be all."""
    view = work.tools.views.look()
    return _listed(view, group), _hidden(work, view)


def _convert(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where somebody stopped all members, the group is converted as an empty one."""
    found = _listed(_whole_view(work), step.subject)
    if found is not None and Kind.CONSUMER in found.kinds and found.empty:
        work.tools.cluster.convert_empty(step.subject)
    return {}


def _converted(work: Work, step: RunStep, _record: RunStepRecord) -> Look:
    found, hidden = _looked(work, step.subject)
    if hidden:
        return Look(seen=Seen.NOT_YET, detail=hidden)
    if found is None or Kind.CONSUMER not in found.kinds:
        return HOLDS
    if found.empty:
        return Look(seen=Seen.NOT_YET, detail=f"group {step.subject} is still listed as consumer")
    said = f"group {step.subject} has members and is of type consumer: {step.does}"
    return Look(seen=Seen.PERSON, detail=said)


def _converted_empty(work: Work, step: RunStep, _record: RunStepRecord) -> Look:
    """Classic, and our member is gone again: a process that was cut off may have left it behind."""
    found, hidden = _looked(work, step.subject)
    if hidden:
        return Look(seen=Seen.NOT_YET, detail=hidden)
    if found is None or (found.empty and Kind.CONSUMER not in found.kinds):
        return HOLDS
    left = "has a member still" if not found.empty else "is still listed as consumer"
    return Look(seen=Seen.NOT_YET, detail=f"group {step.subject} {left}")


def _convert_empty(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises `Conflict` when a member joined since the plan was approved."""
    found = _listed(_whole_view(work), step.subject)
    if found is None or Kind.CONSUMER not in found.kinds:
        return {}
    if not found.empty:
        raise Conflict(
            f"group {step.subject} had no members when the plan was approved and has some now: stop them, "
            "or restart them with group.protocol=classic, then run it again"
        )
    work.tools.cluster.convert_empty(step.subject)
    return {}


def _configs_met(work: Work, step: RunStep) -> Mapping[str, Any]:
    """What the group is configured with before anything is deleted: the plan's may be days old."""
    return {"configs": dict(_whole_view(work).group_configs.get(step.subject, {}))}


def _delete_configs(work: Work, step: RunStep, intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Only what is written down. Raises `Conflict` when somebody changed it since."""
    present = dict(_whole_view(work).group_configs.get(step.subject, {}))
    written = intent.get("configs", step.args["configs"])  # begun by a release that wrote nothing down
    new = sorted(name for name, value in present.items() if written.get(name) != value)
    if new:
        raise Conflict(
            f"{', '.join(new)} of group {step.subject} was set while it was being deleted: delete it there, "
            "then run it again"
        )
    if present:
        work.tools.cluster.configure_group(step.subject, dict.fromkeys(present))
    return {"deleted": present}


def _configs_gone(work: Work, step: RunStep, _record: RunStepRecord) -> Look:
    view = work.tools.views.look()
    left = view.group_configs.get(step.subject, {})
    why = f"{', '.join(left)} still told" if left else view.configs_problem or _hidden(work, view)
    return Look(seen=Seen.NOT_YET, detail=why) if why else HOLDS


def _set_configs(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    work.tools.cluster.configure_group(step.subject, _configs_of(work, step))
    return {}


def _configs_of(work: Work, step: RunStep) -> Mapping[str, str]:
    """What the group was configured with when that was deleted; by the plan where nothing was."""
    records = work.tools.runs.steps(work.run)
    for each in work.plan.steps:
        record = records.get(each.key)
        if (each.act, each.subject) == (RunAct.DELETE_CONFIGS, step.subject) and record is not None:
            met: Mapping[str, str] = record.intent.get("configs", step.args["configs"])
            return met
    return dict(step.args["configs"])


def _configs_there(work: Work, step: RunStep, _record: RunStepRecord) -> Look:
    told = work.tools.views.look().group_configs.get(step.subject, {})
    same = dict(told) == dict(_configs_of(work, step))
    return HOLDS if same else Look(seen=Seen.NOT_YET, detail="its configurations are not told yet")


def _level(work: Work, feature: str) -> int:
    return work.tools.views.look().finalised.get(feature, 0)


_SERVED_BY = {GROUP: Kind.CONSUMER, SHARE: Kind.SHARE, STREAMS: Kind.STREAMS}
"""Without this feature no broker serves groups of this type."""


def _lower(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises `Conflict` where a group that needs the feature came since the plan was approved: no broker
    would serve it, and the log would hold its records again."""
    kind = _SERVED_BY.get(step.subject)
    if kind is not None and step.args["to"] == 0:
        came = [each.group for each in inventory(_whole_view(work), None) if kind in each.kinds]
        if came:
            classic = kind is Kind.CONSUMER
            restart = "restart its members with group.protocol=classic, or " if classic else ""
            raise Conflict(
                f"group {sentence_list(sorted(came))} is of type {kind}, and {step.subject} 0 serves none: "
                f"{restart}stop its members and delete it, then run it again"
            )
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


def _compacted(work: Work, _step: RunStep, record: RunStepRecord) -> Look:
    """Commits once to every partition, then reads the whole log. Raises `Conflict` when fenced."""
    work.hold(record)
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
    hidden = _hidden(work, work.tools.views.look())
    if hidden:
        return Look(seen=Seen.NOT_YET, detail=hidden)
    return _topic_is(work, _written_down(work))


def _written_down(work: Work) -> Mapping[str, str | None]:
    records = work.tools.runs.steps(work.run)
    (quicken,) = (each for each in work.plan.steps if each.act is RunAct.QUICKEN)
    former: Mapping[str, str | None] = records[quicken.key].intent["former"]
    return former


HANDLERS: Mapping[RunAct, Handler[Work]] = {
    RunAct.CONVERT: Handler(act=_convert, read_back=_converted),
    RunAct.CONVERT_EMPTY: Handler(act=_convert_empty, read_back=_converted_empty),
    RunAct.DELETE_CONFIGS: Handler(intend=_configs_met, act=_delete_configs, read_back=_configs_gone),
    RunAct.SET_CONFIGS: Handler(act=_set_configs, read_back=_configs_there),
    RunAct.LOWER: Handler(act=_lower, read_back=_at_level),
    RunAct.RAISE: Handler(act=_raise, read_back=_at_level),
    RunAct.QUICKEN: Handler(intend=_former, act=_quicken, read_back=_quickened),
    RunAct.COMPACT: Handler(read_back=_compacted),
    RunAct.SETTLE: Handler(act=_settle, read_back=_settled),
}
"""By what a step does."""
