"""
### Audit committed offsets in three sources

`audit → verdict`

| you see | it means | what you can do |
|---|---|---|
| `verdict` green | every difference is explained (a commit in flight, …) | nothing |
| `verdict` red | offsets differ, or a source could not be read | read the run's tab *Groupshift* |
| `audit` red | a cluster did not answer, or refused | read its sentence |

Runs on its own (`GROUPSHIFT_AUDIT_SCHEDULE`, daily by default) and writes nothing to Kafka or ZooKeeper: what
the group coordinators answer is held against their log `__consumer_offsets` and against ZooKeeper, offset by
offset. Every difference is kept as Parquet below `audits/` of the evidence. `groupshift audit` does the same.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, chain

from groupshift_airflow import audits, form
from groupshift_airflow.retries import DEFAULT_ARGS

with DAG(
    dag_id="audit_offsets",
    dag_display_name="Audit committed offsets",
    description="Holds coordinators' answers, their log and ZooKeeper against each other; changes nothing.",
    doc_md=__doc__,
    params=audits.parameters(),
    default_args=DEFAULT_ARGS,
    schedule=form.schedule("AUDIT", "@daily"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["groupshift"],
):
    chain(audits.Audit(task_id="audit"), audits.AuditVerdict(task_id="verdict"))
