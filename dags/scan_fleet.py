"""
### Scan every group of an ensemble

`scan → report → waves`

| you see | it means | what you can do |
|---|---|---|
| `report` green | every group was looked at; its log has the differences | read it, or `groupshift scan` |
| `waves` skipped | nobody asked for a toggle | nothing |
| `waves` red | a group failed, the brake is pulled, or the error budget is used up | read its sentence |

Runs on its own (`GROUPSHIFT_SCAN_SCHEDULE`, hourly by default) and changes nothing. **Toggle what is ready**
with **Execute** sends groups that are fully migrated and at rest to kafka mode, in waves; **Take back** sends
groups back to zookeeper mode to relieve stress. For scheduled runs the Airflow variable `groupshift_scan`
holds such values as JSON. `groupshift brake --pull` stops everything before the next group.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, chain

from groupshift_airflow import form, scans
from groupshift_airflow.retries import DEFAULT_ARGS

with DAG(
    dag_id="scan_fleet",
    dag_display_name="Scan the fleet",
    description="Looks at every consumer group, keeps the history, and toggles in waves on request.",
    doc_md=__doc__,
    params=scans.parameters(),
    default_args=DEFAULT_ARGS,
    schedule=form.schedule("SCAN", "@hourly"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["groupshift"],
):
    chain(scans.Scan(task_id="scan"), scans.Report(task_id="report"), scans.Waves(task_id="waves"))
