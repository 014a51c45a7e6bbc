"""The three-way audit of committed offsets: form, two operators; XCom carries a folder name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from groupshift.domain.foreign_text_quoting import without_login
from groupshift_airflow import form
from groupshift_airflow.hooks import evidence_root, submission
from groupshift_airflow.run_tasks import ClusterTask

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context

    from groupshift.audit.offsets import Audit as AuditResult
    from groupshift.bootstrap.audit_jobs import AuditRequest

_SPARK = (
    "Id of a **Spark** connection: a job of it audits, for logs too large for one process. **Empty: the task "
    "itself.**"
)
SHOWN = 50
"""Lines of a kind in a task's log; the evidence holds all."""


def parameters() -> dict[str, Any]:
    """Return the parameters of ``audit_offsets``; by default every group is audited."""
    return {
        **form.clusters(),
        "groups": form.names(
            "Groups", "Names of groups; **empty: every group** that any source has.", form.SCOPE
        ),
        "spark_conn_id": Param("", type="string", title="Spark", section=form.SCOPE, description_md=_SPARK),
        "commit_interval_s": form.number(
            "Commit interval (seconds)", "How long one store may be behind the other.", 5, (0, 86_400)
        ),
    }


class AuditTask(ClusterTask):
    """Base: in which folder an audit is kept, below the evidence of the deployment."""

    template_fields: Sequence[str] = (*ClusterTask.template_fields, "folder")

    def __init__(self, *, folder: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = folder

    def place(self) -> str:
        """Return where this audit is kept."""
        return f"{evidence_root()}/audits/{self.folder}"


class Audit(AuditTask):
    """Audits, keeps every difference as Parquet, and returns the folder's name. With a Spark connection a job
    of it does so. The folder is named by when the run was due: one that is triggered has no logical date."""

    template_fields = (*AuditTask.template_fields, "spark_conn_id")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(folder="{{ dag_run.run_after | ts_nodash }}-{{ ti.try_number }}", **kwargs)
        self.spark_conn_id = "{{ params.spark_conn_id }}"
        self._submitting: SparkSubmitHook | None = None

    def execute(self, context: Context) -> str:
        """Audit, log what is not explained, a line each, and return the folder's name.

        Raises:
            GroupshiftError: a source cannot be read, or the Spark job ended with this error.
        """
        from groupshift.audit.inputs import Terms
        from groupshift.bootstrap.audit_jobs import AuditRequest, run_audit

        settings, params = self.settings(), context["params"]
        request = AuditRequest(
            kafka=settings.kafka,
            zookeeper=settings.zookeeper,
            groups=params["groups"] or None,
            output=self.place(),
            options=Terms(commit_interval_ms=params["commit_interval_s"] * 1000),
        )
        looked = (self._by_spark(request) if self.spark_conn_id else run_audit(request)).looked
        for problem in looked.problems[:SHOWN]:
            self.log.warning("problem: %s", problem)
        for one in looked.suspicious[:SHOWN]:
            said = (one.kind, one.group, one.topic, one.partition, one.answered, one.logged, one.zookeeper)
            self.log.warning("%s: %s %s-%d: coordinator %s, log %s, ZooKeeper %s", *said)
        agree = (looked.agreeing, looked.keys, without_login(str(request.output)))
        self.log.info("%d of %d offsets agree; all differences: %s", *agree)
        return self.folder

    def _by_spark(self, request: AuditRequest) -> AuditResult:
        """Submit the job and wait; its own error, where it ended with one, is the task's."""
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        from groupshift.bootstrap.audit_jobs import handed_over

        with handed_over(request) as handed, submission(self.spark_conn_id) as spark_options:
            arguments, conn_id = list(handed.arguments), self.spark_conn_id
            self._submitting = SparkSubmitHook(
                conn_id=conn_id, name="groupshift audit", application_args=arguments, **spark_options
            )
            try:
                self._submitting.submit(handed.job)
            except AirflowException as failed:
                raise handed.refusal() or failed from None
            return handed.result()

    def on_kill(self) -> None:
        """End the job with the task."""
        if self._submitting is not None:
            self._submitting.on_kill()


class AuditVerdict(AuditTask):
    """The last task: red when a difference is not explained."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(folder="{{ ti.xcom_pull(task_ids='audit') }}", **kwargs)

    def execute(self, context: Context) -> None:  # noqa: ARG002
        """Log how many differences there are of each kind.

        Raises:
            AirflowFailException: a difference is not explained, or not every source told all it has.
        """
        from groupshift.bootstrap.connect import audit_store

        place = self.place()
        summary = audit_store().summary(place)
        for kind, count in summary["kinds"].items():
            self.log.info("%s: %d", kind, count)
        if not summary["clean"]:
            left = summary["weights"]["mismatch"] + summary["weights"]["unknown"]
            what = "not every source told all it has, so that nothing is proven"
            if left:
                of = f"{left} of {summary['keys']} committed offsets"
                what = f"{of} differ between their sources without an explanation"
            raise AirflowFailException(
                f"{what}: see the run's tab 'Groupshift', {place},"
                " and docs/reference/audit-rules.md for each kind"
            )
