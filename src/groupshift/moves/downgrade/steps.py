"""Steps of a downgrade that change groups, their configurations, features and the offsets topic."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.domain.facts import sentence_list
from groupshift.domain.group_protocol import Kind
from groupshift.domain.run import PASSED, Checked, Instruction, Json, Outcome, Step, StepRecord
from groupshift.engine.move import Handler
from groupshift.errors import Conflict
from groupshift.log.replay import LoadOutcome
from groupshift.moves.downgrade.facts import InventoryGroup, inventory
from groupshift.moves.downgrade.ports import DowngradePorts, Downgrading, hidden
from groupshift.moves.downgrade.releases import GROUP, SHARE, STREAMS
from groupshift.moves.downgrade.views import look_at

_CHURN_S = 1.0
_SERVED_BY = {GROUP: Kind.CONSUMER, SHARE: Kind.SHARE, STREAMS: Kind.STREAMS}
"""Without this feature no broker serves groups of this type."""


def _waits(why: str, *, again: bool = False) -> Checked:
    return Checked(outcome=Outcome.WAIT, detail=why, act_again=again)


class _Listed(Handler[DowngradePorts]):
    """A step that needs a list of all groups: an empty one proves nothing while a broker loads."""

    def allowed(self, run: Downgrading, step: Step) -> Checked:
        """Whether every broker lists all its groups."""
        why = hidden(run, run.ports.views.look())
        return _waits(why) if why else PASSED

    def listed(self, run: Downgrading, step: Step) -> tuple[InventoryGroup | None, str]:
        """Return the group as listed now, and why that may not be all."""
        view = run.ports.views.look()
        found = next((each for each in inventory(view, None) if each.group == step.subject), None)
        return found, hidden(run, view)


class Convert(_Listed):
    """A person restarts the members as classic ones; where somebody stopped all of them, the group is
    converted as an empty one."""

    alters = True

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json | Instruction:
        """See `Handler`."""
        found, why = self.listed(run, step)
        if why or found is None or Kind.CONSUMER not in found.kinds:
            return {}
        if not found.empty:
            return Instruction(text=self._members(step))
        run.hold(step)
        run.ports.cluster.convert_empty(step.subject)
        return {}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        found, why = self.listed(run, step)
        if why:
            return _waits(why)
        if found is None or Kind.CONSUMER not in found.kinds:
            return PASSED
        if found.empty:
            return _waits(f"group {step.subject} is still listed as consumer", again=True)
        return Checked(outcome=Outcome.PERSON, detail=self._members(step))

    def _members(self, step: Step) -> str:
        return f"group {step.subject} has members and is of type consumer: {step.does}"


class ConvertEmpty(_Listed):
    """One classic member joins an empty group and leaves it, without committing."""

    alters = True

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """See `Handler`. Raises `Conflict` when a member joined since the plan was approved."""
        found, why = self.listed(run, step)
        if why or found is None or Kind.CONSUMER not in found.kinds:
            return {}
        if not found.empty:
            raise Conflict(
                f"group {step.subject} had no members when the plan was approved and has some now: stop "
                "them, or restart them with group.protocol=classic, then run it again"
            )
        run.hold(step)
        run.ports.cluster.convert_empty(step.subject)
        return {}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """Classic, and our member is gone again: a process that was cut off may have left it behind."""
        found, why = self.listed(run, step)
        if why:
            return _waits(why, again=True)
        if found is None or (found.empty and Kind.CONSUMER not in found.kinds):
            return PASSED
        left = "still has a member" if not found.empty else "is still listed as consumer"
        return _waits(f"group {step.subject} {left}", again=found.empty)


class DeleteConfigs(_Listed):
    """Deletes the configurations of a group: the older release knows none."""

    def intend(self, run: Downgrading, step: Step) -> Json:
        """What the group is configured with now: the plan's may be days old."""
        return {"configs": dict(run.ports.views.look().group_configs.get(step.subject, {}))}

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """Only what is written down. Raises `Conflict` when somebody changed it since."""
        view = run.ports.views.look()
        present = dict(view.group_configs.get(step.subject, {}))
        new = sorted(name for name, value in present.items() if intent["configs"].get(name) != value)
        if new:
            raise Conflict(
                f"{', '.join(new)} of group {step.subject} was set while it was being deleted: delete it "
                "there, then run it again"
            )
        if present:
            run.hold(step)
            run.ports.cluster.configure_group(step.subject, dict.fromkeys(present))
        return {"deleted": present}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        view = run.ports.views.look()
        left = view.group_configs.get(step.subject, {})
        still = f"brokers still tell {', '.join(left)} of group {step.subject}" if left else ""
        why = still or view.configs_problem or hidden(run, view)
        return _waits(why) if why else PASSED


class SetConfigs(Handler[DowngradePorts]):
    """Sets again what was deleted."""

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """See `Handler`."""
        run.hold(step)
        run.ports.cluster.configure_group(step.subject, dict(self._deleted(run, step)))
        return {}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        found = run.ports.views.look().group_configs.get(step.subject, {})
        same = dict(found) == dict(self._deleted(run, step))
        return PASSED if same else _waits(f"brokers do not tell all of {step.subject}'s configurations yet")

    def _deleted(self, run: Downgrading, step: Step) -> Mapping[str, str]:
        """What the group was configured with when that was deleted."""
        configs: Mapping[str, str] = run.records[step.undoes].intent["configs"]
        return configs


class _Level(_Listed):
    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """Whether every broker tells the level."""
        level = self.level(run, step)
        return PASSED if level == step.args["to"] else _waits(f"a broker tells {step.subject} at {level}")

    def level(self, run: Downgrading, step: Step) -> int:
        """Return the finalised level now, 0 for none."""
        return run.ports.views.look().finalised.get(step.subject, 0)


class Lower(_Level):
    """Lowers a feature."""

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """See `Handler`. Raises `Conflict` where a group that needs the feature came since the plan was
        approved: no broker would serve it, and the log would hold its records again."""
        kind = _SERVED_BY.get(step.subject)
        if kind is not None and step.args["to"] == 0:
            self._require_unused(run, step, kind)
        if self.level(run, step) > step.args["to"]:
            run.hold(step)
            run.ports.cluster.lower_feature(step.subject, step.args["to"])
        return {}

    def _require_unused(self, run: Downgrading, step: Step, kind: Kind) -> None:
        came = [each.group for each in inventory(run.ports.views.look(), None) if kind in each.kinds]
        if came:
            restart = "restart its members with group.protocol=classic, or " if kind is Kind.CONSUMER else ""
            raise Conflict(
                f"group {sentence_list(sorted(came))} is of type {kind}, and {step.subject} 0 serves none: "
                f"{restart}stop its members and delete it, then run it again"
            )


class Raise(_Level):
    """Raises a feature again."""

    def allowed(self, run: Downgrading, step: Step) -> Checked:
        """It needs no list of groups."""
        return PASSED

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """See `Handler`."""
        if self.level(run, step) < step.args["to"]:
            run.hold(step)
            run.ports.cluster.raise_feature(step.subject, step.args["to"])
        return {}


def _topic_is(run: Downgrading, wanted: Mapping[str, str | None]) -> Checked:
    found = run.ports.cluster.topic_configs()
    other = [name for name, value in wanted.items() if found.get(name) != value]
    return _waits(f"brokers do not tell {', '.join(other)} yet") if other else PASSED


class QuickenCompaction(Handler[DowngradePorts]):
    """Lets the offsets topic be compacted soon."""

    def intend(self, run: Downgrading, step: Step) -> Json:
        """What the topic is configured with before anything is changed; None: the broker's default."""
        found = run.ports.cluster.topic_configs()
        known = run.records.get(step.key)
        former = known.intent.get("former") if known is not None else None
        return {"former": former or {name: found.get(name) for name in step.args["wanted"]}}

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """See `Handler`."""
        run.hold(step)
        run.ports.cluster.configure_topic(dict(step.args["wanted"]))
        return {}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        return _topic_is(run, step.args["wanted"])


class Compact(Handler[DowngradePorts]):
    """Commits to every partition until the cleaner is through; there is no way to undo it, and none is
    needed."""

    alters = True

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """Commit once to every partition, then read the whole log. Raises `Fenced`."""
        run.hold(step)
        run.ports.cluster.churn()
        run.tools.clock.sleep(_CHURN_S)
        log = look_at(run.ports.views, run.ports.log, run.request).log
        if log is None:
            return _waits("the log was not read")
        if log.new_types:
            count, types = sum(log.new_types.values()), ", ".join(map(str, log.new_types))
            return _waits(f"{count} records of types {types} are left in the log")
        lost = sorted(name for name, each in log.verdicts.items() if each.outcome is not LoadOutcome.LOADS)
        if lost:
            return Checked(outcome=Outcome.FAIL, detail=f"compacted, and still lost: {', '.join(lost)}")
        return Checked(outcome=Outcome.PASS, result={"records": log.records, "groups": len(log.groups)})


class SettleCompaction(Handler[DowngradePorts]):
    """Sets the offsets topic back, and deletes groupshift's own groups."""

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """See `Handler`."""
        run.hold(step)
        run.ports.cluster.configure_topic(dict(self._former(run)))
        run.ports.cluster.remove_churn()
        return {}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        left = sorted(run.ports.cluster.churning())
        why = f"{left[0]} is still listed" if left else hidden(run, run.ports.views.look())
        return _waits(why) if why else _topic_is(run, self._former(run))

    def _former(self, run: Downgrading) -> Mapping[str, str | None]:
        (quicken,) = (each for each in run.there.steps if each.kind == "quicken-compaction")
        former: Mapping[str, str | None] = run.records[quicken.key].intent["former"]
        return former


HANDLERS: Mapping[str, Handler[DowngradePorts]] = {
    "convert": Convert(),
    "convert-empty": ConvertEmpty(),
    "delete-configs": DeleteConfigs(),
    "set-configs": SetConfigs(),
    "lower": Lower(),
    "raise": Raise(),
    "quicken-compaction": QuickenCompaction(),
    "compact": Compact(),
    "settle-compaction": SettleCompaction(),
}
"""By the kind of a step."""
