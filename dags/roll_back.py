"""
### Take a migration back, from any stage

`plan → [undo stage: snapshot → proof → judge → act → wait → snapshot → proof → judge]… → verdict`

Of a move of the coordination the mode goes back to ZooKeeper first, then, if asked, the members back to old
consumers; of a move of the protocol the members speak the former one again (no ZooKeeper is needed). Offsets
of the progress made are kept, and each stage is proven. Taking over a migration fences the run that works on
it. There is no gate: triggering with **Execute** is the decision. Without it nothing is changed, the run only
says where the migration stands.
"""

from airflow.sdk import DAG, TriggerRule, chain

from groupshift_airflow import form, operators
from groupshift_airflow.retries import DEFAULT_ARGS
from groupshift_airflow.stages import undo_stages

with DAG(
    dag_id="roll_back",
    dag_display_name="Roll back a migration",
    description="Takes a migration back, as far as to the members that were there before, and proves it.",
    doc_md=__doc__,
    params=form.roll_back(),
    default_args=DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    tags=["groupshift"],
):
    plan = operators.BeginRollBack(
        task_id="plan", migration="{{ params.migration }}", token="", to="{{ params.to }}"
    )
    chain(
        plan,
        *undo_stages(),
        operators.Close(task_id="verdict", trigger_rule=TriggerRule.ALL_DONE),
    )
    plan >> operators.planned()
