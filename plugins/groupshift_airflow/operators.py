"""Operators: each is one call of one use case of `groupshift.bootstrap.App`; XCom carries ids only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from groupshift.adapters.spark_submit.submit import submit_files
from groupshift.domain.evidence import Moment
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.plan import MoveName, MoveRequest, StageName, Until
from groupshift.domain.secrets import without_login
from groupshift.domain.verdict import NOT_ASKED, Finding, Verdict
from groupshift.errors import Fenced, GroupshiftError
from groupshift_airflow import submitting
from groupshift_airflow.hooks import build_app, require_spark, spark_settings
from groupshift_airflow.links import MigrationLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from groupshift.bootstrap import App
    from groupshift.ports.spark_jobs import ProofRequest

PLAN = "plan"
"""Task that makes the migration (``migrate_coordination``) or names it (``roll_back``), with the token."""
TOKEN = "token"
REFUSED = "refused"
"""XCom key of the sentence with which a run was refused."""
_LONGEST = timedelta(minutes=30)
UNKNOWN = "None"
"""What an id renders to when the task that makes it failed."""
_NO_TOKEN = frozenset({"", UNKNOWN})


class UseCase(BaseOperator):
    """Base: which migration, over which connections; ``app()`` is the way to every use case."""

    template_fields: Sequence[str] = ("migration", "token", "kafka_conn_id", "zookeeper_conn_id")
    operator_extra_links = (MigrationLink(),)

    def __init__(
        self,
        *,
        migration: str = "{{ ti.xcom_pull(task_ids='plan') }}",
        token: str = "{{ ti.xcom_pull(task_ids='plan', key='token') }}",  # noqa: S107 - a fencing token
        kafka_conn_id: str = "{{ params.kafka_conn_id }}",
        zookeeper_conn_id: str = "{{ params.get('zookeeper_conn_id', '') }}",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.migration = migration
        self.token = token
        self.kafka_conn_id = kafka_conn_id
        self.zookeeper_conn_id = zookeeper_conn_id

    @contextmanager
    def app(self) -> Iterator[App]:
        """A fresh App, under the claim of this run where it has one: once another run took the migration
        over, this task does and asks nothing, and is skipped with the sentence that says who did."""
        with build_app(self.kafka_conn_id, self.zookeeper_conn_id) as opened:
            try:
                yield opened.under(self.migration, int(self.token)) if self.token not in _NO_TOKEN else opened
            except Fenced as lost:
                raise self.lost(lost) from lost

    def lost(self, fenced: Fenced) -> AirflowException:
        """How this task ends when another run took the migration over; red where it is the one that claims,
        for then there is no later task to tell it."""
        said = str(fenced)
        return AirflowFailException(said) if self.token in _NO_TOKEN else AirflowSkipException(said)

    def require_stage(self, app: App, stage: StageName | str) -> None:
        """Skip this task, and with it the stage, when the plan has no such stage."""
        if not app.has_stage(self.migration, stage):
            raise AirflowSkipException(f"stage {stage} is not part of the plan of {self.migration}")

    def show(self, findings: tuple[Finding, ...]) -> None:
        """Write every finding into the task's log, passed ones included."""
        for finding in findings:
            hint = f" Hint: {finding.hint}" if finding.hint else ""
            level = self.log.info if finding.verdict is Verdict.PASS else self.log.warning
            said = finding.verdict if finding.asked else NOT_ASKED
            level("%-12s %s: %s%s", said, finding.rule, finding.reason, hint)


def move_request(context: Context) -> MoveRequest:
    """What the trigger form asked for."""
    params, run = context["params"], context["dag_run"]
    if "way" in params:
        return _protocol_request(context)
    return MoveRequest(
        group=params["group"],
        driver="" if params["driver"] == "settings" else params["driver"],
        canary=params["canary"],
        canary_share=params["canary_share"],
        canary_watch_s=params["canary_watch_s"],
        soak_s=params["soak_s"],
        until=Until(params["until"]),
        execute=params["execute"],
        actor=requester_of(run),
        run=run_key(run.dag_id, run.run_id),
    )


def _protocol_request(context: Context) -> MoveRequest:
    params, run = context["params"], context["dag_run"]
    return MoveRequest(
        move=MoveName.PROTOCOL,
        group=params["group"],
        to=Protocol(params["to"]),
        way=Way(params["way"]),
        driver="" if params["driver"] == "settings" else params["driver"],
        canary=params["canary"],
        until=Until(params["until"]),
        soak_s=params["soak_s"],
        clients=tuple(params["clients"]),
        execute=params["execute"],
        actor=requester_of(run),
        run=run_key(run.dag_id, run.run_id),
    )


def requester_of(run: Any) -> str:
    """Who triggered this run of a DAG, as `named` tells it; ``airflow`` where nobody did."""
    return named(getattr(run, "triggering_user_name", None) or "airflow")


def named(user: str) -> str:
    """A user of Airflow. An account of the operating system is told in round brackets: a name that looks like
    one is not taken for one."""
    return user.replace("(uid", "[uid")


def require_execute(context: Context) -> None:
    """Skip this task, and with it what it guards, unless the run was triggered with ``execute``."""
    if not context["params"]["execute"]:
        raise AirflowSkipException("planned only: trigger again with 'execute' to act")


def run_key(dag_id: str, run_id: str) -> str:
    """How the journal names an Airflow run."""
    return f"{dag_id}/{run_id}"


@contextmanager
def telling(context: Context) -> Iterator[None]:
    """Keeps why the beginning of a run was refused, for its tab: there is no migration to show."""
    try:
        yield
    except GroupshiftError as why:
        context["ti"].xcom_push(key=REFUSED, value=str(why))
        raise


def planned() -> EmptyOperator:
    """A leaf behind the plan alone, which no worker runs: the run is red when there is no plan, although
    every later task is skipped."""
    return EmptyOperator(task_id="planned")


class Assess(UseCase):
    """Reads the group and shows what every rule says; changes nothing, refuses nothing."""

    def execute(self, context: Context) -> None:
        """Log the findings; `Plan` refuses a group that is not ready."""
        with telling(context), self.app() as app:
            assessment = app.assess(move_request(context))
        self.show(assessment.findings)
        self.log.info("group %s is %s", assessment.view.group, assessment.readiness)


class Plan(UseCase):
    """Journals the plan, claims it for this run and returns the migration's id."""

    def execute(self, context: Context) -> str:
        """Raises `Rejected` when the group is not ready or has an open migration."""
        request = move_request(context)
        with telling(context), self.app() as app:
            planned = app.plan(request)
            token = app.claim(planned.migration, request.run)
        context["ti"].xcom_push(key=TOKEN, value=token)
        names = ", ".join(stage.name for stage in planned.plan.stages)
        self.log.info("plan %s of %s: %s", planned.plan_hash[:12], planned.migration, names)
        return planned.migration


class BeginRollBack(UseCase):
    """Takes over a migration for the way back and returns its id (DAG ``roll_back``)."""

    template_fields = (*UseCase.template_fields, "to")

    def __init__(self, *, to: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.to = to

    def execute(self, context: Context) -> str:
        """Without ``execute`` only say where the migration stands. Raises `Rejected` when there is
        nothing to take back."""
        run = context["dag_run"]
        with telling(context), self.app() as app:
            (found,) = app.status(self.migration)
            self.log.info("migration %s of group %s is %s", self.migration, found.group, found.phase)
            if not context["params"]["execute"]:
                return self.migration
            token = app.claim(self.migration, run_key(run.dag_id, run.run_id))
            stages = app.begin_roll_back(self.migration, self.to, token)
        context["ti"].xcom_push(key=TOKEN, value=token)
        self.log.info("the way back to %s: %s", self.to, ", ".join(stages) or "nothing to undo")
        return self.migration


class Snapshot(UseCase):
    """Writes the evidence before or after an act; the first one skips a stage the plan lacks."""

    def __init__(self, *, stage: str, moment: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stage = stage
        self.moment = moment

    def execute(self, context: Context) -> None:
        """Skip the stage, or take the snapshot and log what it holds."""
        with self.app() as app:
            if self.moment == Moment.BEFORE:
                require_execute(context)
                self.require_stage(app, self.stage)
            manifest = app.snapshot(self.migration, self.stage, self.moment)
        for entry in manifest.files:
            self.log.info("%s: %d rows", entry.table, entry.rows)


class Validate(UseCase, SparkSubmitOperator):
    """Compares two snapshots in Spark; the job and its arguments come from the App."""

    template_fields = (*SparkSubmitOperator.template_fields, *UseCase.template_fields)

    def __init__(self, *, stage: str, moment: str, **kwargs: Any) -> None:
        own = {
            "name": f"groupshift {stage} {moment}",
            "execution_timeout": _LONGEST,
        }
        super().__init__(**{**own, **kwargs})
        self.stage = stage
        self.moment = moment

    def execute(self, context: Context) -> None:
        """Submit the job over the Spark connection. Raises `Broken` when evidence was altered."""
        master = require_spark(self._conn_id)
        with self.app() as app:
            request = app.proof(self.migration, self.stage, self.moment)
        self.submit(context, request, master)
        self.log.info("evidence and report: %s", without_login(request.output))

    def submit(self, context: Context, request: ProofRequest, master: str) -> None:
        """Run the job to its end; to a cluster go our code and the keys of section ``[spark]``, too."""
        settings = spark_settings()
        self.application = request.job
        self.application_args = list(request.arguments)
        self.env_vars = submitting.environment(settings, master)
        self.conf = {**submitting.jvm(master), **(self.conf or {})}
        with submit_files(settings, master) as files:
            self.py_files, self.properties_file = files.code, files.properties
            super().execute(context)


class Finalise(UseCase):
    """Removes what only the way back needed, if the group no longer depends on it."""

    def execute(self, context: Context) -> None:  # noqa: ARG002
        """Log how it ended."""
        with self.app() as app:
            closing = app.finalise(self.migration, int(self.token))
        self.log.info("%s: %s", closing.phase, closing.reason)


class Keep(UseCase):
    """Keeps the way back open; the run ends green as *moved*."""

    def execute(self, context: Context) -> None:  # noqa: ARG002
        """Log how it ended."""
        with self.app() as app:
            closing = app.keep(self.migration, int(self.token))
        self.log.info("%s: %s", closing.phase, closing.reason)


class WayBack(UseCase):
    """The entrance of the way back inside a run: skips unless a judge has begun it."""

    def execute(self, context: Context) -> None:  # noqa: ARG002
        """Skip when nothing is to be taken back."""
        if self.migration == UNKNOWN:
            raise AirflowSkipException("no plan was made, so nothing is to be taken back")
        with self.app() as app:
            stages = [stage for stage in StageName if stage.undoes and app.has_stage(self.migration, stage)]
        if not stages:
            raise AirflowSkipException("nothing is to be taken back")
        self.log.warning("going back: %s", ", ".join(stages))


class Close(UseCase):
    """The last task of every run: it raises on a bad verdict, for a run is green when its leaf is. Where no
    plan was made the leaf `planned` makes the run red, and the one red task is the one that says why."""

    def lost(self, fenced: Fenced) -> AirflowException:
        """The run ends red here."""
        return AirflowFailException(str(fenced))

    def execute(self, context: Context) -> None:
        """Log phase and reason; fail the run unless what was asked for was reached."""
        if self.migration == UNKNOWN:
            raise AirflowSkipException("no plan was made and nothing was changed: the red task says why")
        if not context["params"]["execute"]:
            self.log.info("nothing was changed: trigger again with 'execute' to act on this plan")
            return
        with self.app() as app:
            closing = app.close(self.migration, int(self.token))
        self.log.info("migration %s is %s: %s", self.migration, closing.phase, closing.reason)
        if closing.verdict is not Verdict.PASS:
            raise AirflowFailException(f"{closing.verdict}: {closing.reason}")
