"""
### Give the offsets topic more partitions

`plan → drain → snapshot → approval → delete → create → brokers → restore → verify → verdict`

| you see | it means | what you can do |
|---|---|---|
| `plan` red | a rule forbids it; nothing was changed | read the sentence in its log |
| `drain` running | somebody still consumes | its log names the groups: stop them, Connect and Streams too |
| `drain` red | somebody did not stop in time; nothing was changed | start the others again, try later |
| `approve_plan` *Awaiting Input* | all groups are empty, offsets are kept | answer: *Required Actions* |
| `delete` red | somebody committed since the snapshot; nothing was deleted | `groupshift expansion back` |
| `brokers` *Awaiting Input* | a person restarts this broker | do what it says, then *Deployed* |
| `brokers` red | a broker did not come up | bring it up, trigger again: there is no way back from here |
| `restore` *Awaiting Input* | a client came too early and committed | stop it, set the offset, *Deployed* |
| `verdict` green | every offset is as before, every broker counts alike | start the clients |

Without **Execute** the run ends after the plan and nothing is changed. Nobody may consume from `drain` to
`verdict`. A killed task is safe to run again; a cluster's open run is gone on with. Who restarts brokers is
in the file that the environment variable `GROUPSHIFT_NODES` names; without it a person does
(docs/reference/node-drivers.md).
"""

from airflow.sdk import DAG, TriggerRule, chain

from groupshift_airflow import expansions, form
from groupshift_airflow.operators import planned
from groupshift_airflow.retries import DEFAULT_ARGS

with DAG(
    dag_id="expand_offsets_topic",
    dag_display_name="Expand the offsets topic",
    description="Drains, keeps every offset, makes partitions, restarts brokers, commits again, proves.",
    doc_md=__doc__,
    params=form.expansion(),
    default_args=DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["groupshift"],
):
    plan = expansions.Plan(task_id="plan")
    chain(
        plan,
        expansions.Walk(task_id="drain", acts=expansions.DRAIN, patience="drain_s"),
        expansions.Walk(task_id="snapshot", acts=expansions.SNAPSHOT),
        expansions.Approval(task_id="approve_plan"),
        expansions.Walk(task_id="delete", acts=expansions.DELETE, accepting=False),
        expansions.Walk(task_id="create", acts=expansions.CREATE),
        expansions.Walk(task_id="brokers", acts=expansions.BROKERS),
        expansions.Walk(task_id="restore", acts=expansions.RESTORE, accepting=False),
        expansions.Walk(task_id="verify", acts=expansions.VERIFY, accepting=False),
        expansions.Verdict(task_id="verdict", trigger_rule=TriggerRule.ALL_DONE),
    )
    plan >> planned()
