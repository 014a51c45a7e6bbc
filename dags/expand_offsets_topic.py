"""
### Give the offsets topic more partitions

`plan → drain → snapshot → approval → delete → create → restart → place → restore → prove → verdict`

| you see | it means | what you can do |
|---|---|---|
| `plan` red | a rule forbids it; nothing was changed | read the sentence in its log |
| `drain` waiting | somebody still consumes | its log names the groups: stop them, Connect and Streams too |
| `drain` red | somebody did not stop in time; nothing was changed | start the others again, try later |
| `approve_plan` *Awaiting Input* | all groups are empty, offsets are kept | answer: *Required Actions* |
| `delete` red | somebody committed since the snapshot; nothing was deleted | the DAG `roll_back` |
| `restart` *Awaiting Input* | a person restarts this broker | do what it says, then *Done* |
| `restart` red | a broker did not come up | bring it up, clear `walk` and `compare`: there is no rollback |
| `restore` *Awaiting Input* | a client committed too early | stop it, set the offset, *Look again* |
| `verdict` green | every offset is as before, every broker uses the same count | start the clients |

Without **Execute** the run ends after the plan and nothing is changed. Nobody may consume from `drain` to
`verdict`. A killed task is safe to run again; a cluster's open run is gone on with. Before `restart` the DAG
`roll_back` takes it back. Who restarts brokers is in the file that the environment variable
`GROUPSHIFT_NODES` names; without it a person does (docs/reference/node-drivers.md).
"""

from airflow.sdk import DAG, TriggerRule, chain

from groupshift_airflow import runbook

NEXT = TriggerRule.ALL_SUCCESS

with DAG(
    dag_id="expand_offsets_topic",
    dag_display_name="Expand the offsets topic",
    description="Drains, keeps every offset, makes partitions, restarts brokers, commits again, proves.",
    doc_md=__doc__,
    params=runbook.form("expansion"),
    default_args=runbook.DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["groupshift"],
):
    chain(
        runbook.plan("expansion"),
        runbook.phase("drain", "wait", entered=NEXT),
        runbook.phase("snapshot", "act", entered=NEXT),
        runbook.approval("approve_plan", phase="approve", entered=NEXT),
        runbook.nodes("delete", entered=NEXT),  # one claim does all that is asked right before, and deletes
        runbook.phase("create", "act", "wait", entered=NEXT),
        runbook.nodes("restart", entered=NEXT),
        runbook.phase("place", "act", "wait", entered=NEXT),
        runbook.phase("restore", "act", "wait", entered=NEXT),
        runbook.nodes("prove", entered=NEXT),
        runbook.phase("reopen", "act", entered=NEXT),
        runbook.going_back(),
        runbook.verdict(),
    )
