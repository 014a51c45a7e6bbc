"""
### Watch an expansion that is over

`watch`

| you see | it means | what you can do |
|---|---|---|
| `watch` green | every group's records lie in its partition, no offset fell below the snapshot | nothing |
| `watch` red | something lies elsewhere, or an offset fell or is gone | `groupshift watch RUN` |
| `watch` skipped | no expansion of this cluster is over | nothing |

Runs on its own (`GROUPSHIFT_WATCH_SCHEDULE`, daily by default) and changes nothing. For as long as offsets
are kept after the move (`offsets.retention.minutes`) a record that was left behind, or a client that
committed at a former coordinator, may show. The log of the task says until when.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG

from groupshift_airflow import form, runbook

with DAG(
    dag_id="watch_offsets_topic",
    dag_display_name="Watch the offsets topic",
    description="Audits placement after an expansion, holds offsets against its snapshot; changes nothing.",
    doc_md=__doc__,
    params=runbook.watch_form(),
    default_args=runbook.DEFAULT_ARGS,
    schedule=form.schedule("WATCH", "@daily"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["groupshift"],
):
    runbook.watch("expansion")
