"""Brokers to an older release: operators that each do some kinds of steps of one run; XCom carries its id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from groupshift.domain.step import RunAct
from groupshift_airflow import cluster_runs
from groupshift_airflow.cluster_runs import RunTask
from groupshift_airflow.operators import UNKNOWN, telling
from groupshift_airflow.run_places import TIMEOUT_S, place_and_driver

if TYPE_CHECKING:
    from airflow.sdk import Context

    from groupshift.application.downgrade_work import DowngradeTools

CONVERT = frozenset({RunAct.SNAPSHOT, RunAct.CONVERT, RunAct.CONVERT_EMPTY, RunAct.COMPARE})
COMPACT = frozenset({RunAct.QUICKEN, RunAct.COMPACT, RunAct.SETTLE})
LOWER = frozenset({RunAct.DELETE_CONFIGS, RunAct.LOWER})
CHECKPOINT = frozenset({RunAct.AWAIT_SNAPSHOT})
BROKERS = frozenset({RunAct.PROVE, RunAct.COMPARE, RunAct.REPLACE})


@contextmanager
def opened(kafka_conn_id: str) -> Iterator[DowngradeTools]:
    """Every port of a run over this connection. Raises as `place_and_driver`."""
    from groupshift.bootstrap.runs import open_downgrade

    place, driver = place_and_driver(kafka_conn_id, "downgrades")
    with open_downgrade(place, driver, timeout_s=TIMEOUT_S) as tools:
        yield tools


class OfDowngrades(RunTask):
    """What tasks of this DAG open, and which move they drive."""

    def opened(self) -> AbstractContextManager[DowngradeTools]:
        """See `RunTask`."""
        return opened(self.kafka_conn_id)

    def move(self) -> Any:
        """See `RunTask`."""
        from groupshift.application.downgrade_run import MOVE

        return MOVE


class Plan(OfDowngrades):
    """Shows what every rule says and the plan; with ``execute`` journals a run of it, or goes on with the
    cluster's open one, and returns its id."""

    def execute(self, context: Context) -> str:
        """Raises `Rejected` when the run may not begin, or an open one is another than asked for, `Conflict`
        when another one just began."""
        from groupshift.application.downgrade_demands import demand_same
        from groupshift.application.downgrade_run import begin, plan_run

        params = context["params"]
        with telling(context), self.opened() as tools:
            going = tools.runs.open_of(tools.reader.cluster_id())
            if going is not None:
                demand_same(going, _wanted(params))
                self.log.info("run %s of this cluster is open: it is gone on with", going.run)
                return self.take(tools, going.run) if params["execute"] else going.run
            planned = plan_run(tools, _request(params), live=params["live"])
            for finding in planned.judgement.findings:
                self.log.info("%-12s %s: %s", finding.verdict, finding.rule, finding.reason)
            for step in planned.plan.steps:
                self.log.info("%s: %s", step.key, step.does)
            if not params["execute"] and planned.possible:
                return UNKNOWN
            return self.take(tools, begin(tools, planned).run)


def _coordinator(params: Any) -> Any:
    """The one that was chosen, or None for the release's own."""
    from groupshift.log.releases import Coordinator

    chosen = params["coordinator"]
    return None if chosen == "default" else Coordinator(chosen)


def _wanted(params: Any) -> Any:
    from groupshift.application.downgrade_demands import Wanted

    return Wanted(
        release=params["to"],
        now=params["from"],
        coordinator=_coordinator(params),
        live=params["live"],
        brokers_only=params.get("brokers_only", False),
    )


def _request(params: Any) -> Any:
    from groupshift.application.downgrade import DowngradeRequest
    from groupshift.domain.versions import Version
    from groupshift.moves.downgrade.releases import target_of

    return DowngradeRequest(
        target=target_of(params["to"], _coordinator(params)),
        said=Version.parse(params["from"], "from"),
        brokers_only=params.get("brokers_only", False),
    )


class Approval(OfDowngrades, cluster_runs.Approval):
    """See `cluster_runs.Approval`."""


class Walk(OfDowngrades, cluster_runs.Walk):
    """See `cluster_runs.Walk`."""


class Verdict(OfDowngrades, cluster_runs.Verdict):
    """See `cluster_runs.Verdict`."""
