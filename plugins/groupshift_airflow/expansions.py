"""More partitions of the offsets topic: operators that each do some kinds of steps of one run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from groupshift.domain.step import RunAct
from groupshift_airflow import cluster_runs
from groupshift_airflow.cluster_runs import RunTask
from groupshift_airflow.operators import UNKNOWN, telling
from groupshift_airflow.run_places import TIMEOUT_S, place_and_driver

if TYPE_CHECKING:
    from airflow.sdk import Context

    from groupshift.application.expansion_work import ExpansionTools

DRAIN = frozenset({RunAct.DRAIN})
SNAPSHOT = frozenset({RunAct.SNAPSHOT, RunAct.AGREE})
DELETE = frozenset({RunAct.FENCE, RunAct.COMPARE, RunAct.PROVE, RunAct.REHEARSE, RunAct.DELETE_GROUPS})
CREATE = frozenset({RunAct.CREATE_PARTITIONS})
BROKERS = frozenset({RunAct.RESTART, RunAct.PLACE})
RESTORE = frozenset({RunAct.RESTORE})
VERIFY = frozenset({RunAct.COMPARE, RunAct.VERIFY, RunAct.AUDIT, RunAct.REOPEN})


SCHEDULE_VARIABLE = "GROUPSHIFT_WATCH_SCHEDULE"
"""Environment variable with the schedule (cron or preset); read when the DAG file is parsed."""
_SHOWN = 50


def watch_schedule() -> str:
    """When an expansion that is done is looked at: daily, unless this deployment's environment says
    otherwise."""
    return os.environ.get(SCHEDULE_VARIABLE) or "@daily"


@contextmanager
def opened(kafka_conn_id: str) -> Iterator[ExpansionTools]:
    """Every port of a run over this connection. Raises as `place_and_driver`."""
    from groupshift.bootstrap.runs import open_expansion

    place, driver = place_and_driver(kafka_conn_id, "expansions")
    with open_expansion(place, driver, timeout_s=TIMEOUT_S) as tools:
        yield tools


class OfExpansions(RunTask):
    """What tasks of this DAG open, and which move they drive."""

    def opened(self) -> AbstractContextManager[ExpansionTools]:
        """See `RunTask`."""
        return opened(self.kafka_conn_id)

    def move(self) -> Any:
        """See `RunTask`."""
        from groupshift.application.expansion_run import MOVE

        return MOVE


class Plan(OfExpansions):
    """Shows what every rule says, what the count costs and the plan; with ``execute`` journals a run of it,
    or goes on with the cluster's open one, and returns its id."""

    def execute(self, context: Context) -> str:
        """Raises `Rejected` when the run may not begin, or an open one is to another count, `Conflict` when
        another run of this cluster is open."""
        from groupshift.application.expansion_run import begin, demand_same, plan_run

        params = context["params"]
        with telling(context), self.opened() as tools:
            going = tools.runs.open_of(tools.reader.cluster_id())
            if going is not None:
                demand_same(going, params["to"])
                self.log.info("run %s of this cluster is open: it is gone on with", going.run)
                return self.take(tools, going.run) if params["execute"] else going.run
            planned = plan_run(tools, params["to"])
            for finding in planned.planned.judgement.findings:
                self.log.info("%-12s %s: %s", finding.verdict, finding.rule, finding.reason)
            for cost in planned.planned.costs:
                self.log.info("%d partitions: %d of %d groups move", cost.count, cost.moving, cost.groups)
            for step in planned.plan.steps:
                self.log.info("%s: %s", step.key, step.does)
            if not params["execute"] and planned.possible:
                return UNKNOWN
            return self.take(tools, begin(tools, planned).run)


class Watch(OfExpansions):
    """Holds an expansion that is done against what is now: red where a person has to look, skipped where
    there is none."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"run_id": "{{ params.run }}", **kwargs})

    def execute(self, context: Context) -> None:  # noqa: ARG002 - Airflow calls it so
        """Log every finding."""
        from groupshift.application.expansion_watch import watch_expansion, watched_run
        from groupshift.domain.verdict import Verdict

        with self.opened() as tools:
            run = watched_run(tools.runs, tools.reader.cluster_id(), self.run_id)
            if run is None:
                raise AirflowSkipException("no expansion of this cluster is done: there is nothing to watch")
            found = watch_expansion(tools, run)
        findings = [each for each in found.audit.judgement.findings if each.verdict is not Verdict.PASS]
        said = [each.with_remedy for each in findings] + [each.sentence for each in found.fallen[:_SHOWN]]
        said += [f"group {each!r} moved, and has something elsewhere" for each in found.strays[:_SHOWN]]
        for each in said:
            self.log.info("%s", each)
        until = datetime.fromtimestamp(found.until_ms / 1000, tz=UTC)
        self.log.info("%d offsets of run %s compared; watch until %s", found.compared, run.run, until)
        if not found.clean:
            raise AirflowFailException(
                f"{len(found.fallen)} offsets fell and placement is {found.audit.judgement.verdict}: "
                f"{said[0]}; see: groupshift expansion watch {run.run}"
            )


class Approval(OfExpansions, cluster_runs.Approval):
    """See `cluster_runs.Approval`."""


class Walk(OfExpansions, cluster_runs.Walk):
    """See `cluster_runs.Walk`."""


class Verdict(OfExpansions, cluster_runs.Verdict):
    """See `cluster_runs.Verdict`."""
