"""Steps of a downgrade that have the offsets topic compacted.

The topic's configurations let the cleaner run soon, until nothing is left that the older release cannot read.
Then they are put back as they were."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.domain.run import PASSED, Checked, Json, Outcome, Step, StepRecord
from groupshift.engine.move import Handler
from groupshift.log.replay import LoadOutcome
from groupshift.moves.downgrade.facts import DowngradePorts, Downgrading, hidden, look_at
from groupshift.moves.downgrade.steps import waits

_CHURN_S = 1.0


def _topic_is(run: Downgrading, wanted: Mapping[str, str | None]) -> Checked:
    """Whether the offsets topic itself is configured so; None: by no value of its own."""
    configs = run.ports.cluster.topic_configs()
    other = [name for name, value in wanted.items() if configs.get(name) != value]
    return waits(f"brokers do not tell {', '.join(other)} yet") if other else PASSED


class QuickenCompaction(Handler[DowngradePorts]):
    """Lets the offsets topic be compacted soon."""

    def intend(self, run: Downgrading, step: Step) -> Json:
        """What the topic is configured with before anything is changed; None: the broker's default."""
        configs = run.ports.cluster.topic_configs()
        known = run.records.get(step.key)
        former = known.intent.get("former") if known is not None else None
        return {"former": former or {name: configs.get(name) for name in step.args["wanted"]}}

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """Set what makes segments roll and the cleaner run soon: ``args["wanted"]``."""
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
        run.ports.cluster.force_compaction()
        run.tools.clock.sleep(_CHURN_S)
        if (log := look_at(run.ports.views, run.ports.log, run.request).log) is None:
            return waits("the log was not read")
        if log.new_types:
            count, types = sum(log.new_types.values()), ", ".join(map(str, log.new_types))
            return waits(f"{count} records of types {types} are left in the log")
        lost = sorted(name for name, each in log.verdicts.items() if each.outcome is not LoadOutcome.LOADS)
        if lost:
            return Checked(outcome=Outcome.FAIL, detail=f"compacted, and still lost: {', '.join(lost)}")
        return Checked(outcome=Outcome.PASS, result={"records": log.records, "groups": len(log.groups)})


class SettleCompaction(Handler[DowngradePorts]):
    """Sets the offsets topic back, and deletes groupshift's own groups."""

    def act(self, run: Downgrading, step: Step, intent: Json) -> Json:
        """Set every configuration back to what it was, and delete the groups that `Compact` committed
        with."""
        run.hold(step)
        run.ports.cluster.configure_topic(dict(self._former(run)))
        run.ports.cluster.remove_churn()
        return {}

    def check(self, run: Downgrading, step: Step, record: StepRecord) -> Checked:
        """Whether no broker lists groups of ours any more, and the topic is configured as it was."""
        left = sorted(run.ports.cluster.churning())
        why = f"{left[0]} is still listed" if left else hidden(run, run.ports.views.look())
        return waits(why) if why else _topic_is(run, self._former(run))

    def _former(self, run: Downgrading) -> Mapping[str, str | None]:
        """What the topic was configured with before compaction was quickened: the intent of that step has
        it."""
        (quicken,) = (each for each in run.there.steps if each.kind == "quicken-compaction")
        former: Mapping[str, str | None] = run.records[quicken.key].intent["former"]
        return former
