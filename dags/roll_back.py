"""
### Roll a run back, of any move, from any step before its point of no return

`plan → [undo phase: snapshot → compare → judge → act → wait → snapshot → compare → judge]… → undo → verdict`

The plan of a rollback is made when it begins, from the steps that were begun and from what is met. A group
goes back phase by phase (`undo_…`): its members, its mode; each is proven, and the offsets of the progress
made are kept. Whatever else a move has to undo is done in `undo`, whose tasks are entered again until no step
is left. Triggering with **Execute** is the decision: a group goes back without a gate, while a move of a
whole cluster asks once more before what it undoes. Without it the run only shows what would be undone. A run
that somebody holds is not taken over without **Take over**.
"""

from airflow.sdk import DAG, TriggerRule, chain

from groupshift_airflow import runbook

PHASES = ("undo_retire", "undo_toggle", "undo_fill", "undo_empty", "undo_members")

with DAG(
    dag_id="roll_back",
    dag_display_name="Roll back a run",
    description="Undoes what a run of any move has begun, last step first, and proves it.",
    doc_md=__doc__,
    params=runbook.roll_back_form(),
    default_args=runbook.DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    tags=["groupshift"],
):
    chain(
        runbook.roll_back(),
        *[runbook.phase(each, back=True) for each in PHASES],
        runbook.undo(entered=TriggerRule.NONE_FAILED),
        runbook.verdict(back=True),
    )
