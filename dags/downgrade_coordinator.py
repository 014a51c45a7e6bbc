"""
### Take the brokers of a cluster to an older release

`plan → approval → convert → approval of what is forward only → compact → lower → checkpoint → brokers →
verdict`

| you see | it means | what you can do |
|---|---|---|
| `plan` red | no step answers a rule that does not hold; nothing was changed | read the sentence in its log |
| a gate *Awaiting Input* | a person decides; silence changes nothing | answer under *Required Actions* |
| `convert` *Awaiting Input* | a group has native members | restart them as classic ones, then *Deployed* |
| `compact` green at once | the older release reads the log as it is | nothing |
| `brokers` *Awaiting Input* | a person replaces this node | do what it says, then *Deployed* |
| `brokers` red | a difference, or a node that died; no other node is touched | its log names the way back |
| `verdict` green | every step was read back, groups equal after each node | keep the evidence |

Without **Execute** the run ends after the plan and nothing is changed. A killed task is safe to run again; a
cluster's open run is gone on with, and `groupshift downgrade back` undoes it. Who replaces nodes is in the
file that the environment variable `GROUPSHIFT_NODES` names; without it a person does
(docs/reference/node-drivers.md).
"""

from airflow.sdk import DAG, TriggerRule, chain

from groupshift_airflow import downgrades, form
from groupshift_airflow.operators import planned
from groupshift_airflow.retries import DEFAULT_ARGS

with DAG(
    dag_id="downgrade_coordinator",
    dag_display_name="Downgrade brokers",
    description="Prepares a cluster for an older release, proves it from the log, replaces node after node.",
    doc_md=__doc__,
    params=form.downgrade(),
    default_args=DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["groupshift"],
):
    plan = downgrades.Plan(task_id="plan")
    chain(
        plan,
        downgrades.Approval(task_id="approve_plan"),
        downgrades.Walk(task_id="convert", acts=downgrades.CONVERT),
        downgrades.Approval(task_id="approve_forward_only"),
        downgrades.Walk(task_id="compact", acts=downgrades.COMPACT),
        downgrades.Walk(task_id="lower", acts=downgrades.LOWER),
        downgrades.Walk(task_id="checkpoint", acts=downgrades.CHECKPOINT),
        downgrades.Walk(task_id="brokers", acts=downgrades.BROKERS),
        downgrades.Verdict(task_id="verdict", trigger_rule=TriggerRule.ALL_DONE),
    )
    plan >> planned()
