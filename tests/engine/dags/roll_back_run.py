"""
### Roll a run back, of any move, from any step before its point of no return

`plan → undo → verdict`

The plan of a rollback is made when it begins, from the steps that were begun and from what is met. The tasks
of `undo` are entered again until no step is left. There is no gate: triggering with **Execute** is the
decision. Without it the run only shows what would be undone. A run that somebody holds is not taken over
without **Take over**.
"""

from airflow.sdk import DAG, chain

from groupshift_airflow import runbook

with DAG(
    dag_id="roll_back_run",
    dag_display_name="Roll back a run",
    description="Undoes what a run of any move has begun, last step first.",
    doc_md=__doc__,
    params=runbook.roll_back_form(),
    default_args=runbook.DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    tags=["groupshift"],
):
    chain(runbook.roll_back(), runbook.undo(), runbook.verdict(back=True))
