"""
### Take the brokers of a cluster to an older release

`plan → approval → prepare → convert → approval of what is forward only → compact → features → go → replace
→ soak → verdict`

| you see | it means | what you can do |
|---|---|---|
| `plan` red | no step answers a rule that does not hold; nothing was changed | read the sentence in its log |
| a gate *Awaiting Input* | a person decides; silence changes nothing | answer under *Required Actions* |
| `convert.walk` *Awaiting Input* | a group has native members | restart them as classic ones, then *Done* |
| `compact.act` green at once | the older release reads the log as it is | nothing |
| `features.wait` *Awaiting Input* | only a person sees a node's metadata snapshot | look, then *Done* |
| `replace.walk` *Awaiting Input* | a person replaces this node | do what it says, then *Done* |
| `replace.walk` red | a difference, or a dead node; no other one is touched | its log names the rollback |
| `verdict` green | every step was read back, groups equal after each node | keep the evidence |

Without **Execute** the run ends after the plan and nothing is changed. A killed task is safe to run again; a
cluster's open run is gone on with, and the DAG `roll_back` undoes it. Who replaces nodes is in the file that
the environment variable `GROUPSHIFT_NODES` names; without it a person does (docs/reference/node-drivers.md).
"""

from airflow.sdk import DAG, TriggerRule, chain

from groupshift_airflow import runbook

NEXT = TriggerRule.ALL_SUCCESS

with DAG(
    dag_id="downgrade_coordinator",
    dag_display_name="Downgrade brokers",
    description="Prepares a cluster for an older release, proves it from the log, replaces node after node.",
    doc_md=__doc__,
    params=runbook.form("downgrade"),
    default_args=runbook.DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["groupshift"],
):
    chain(
        runbook.plan("downgrade"),
        runbook.approval("approve_plan", phase="approve", subject="plan", entered=NEXT),
        runbook.phase("prepare", "snapshot", entered=NEXT, passes=True),
        runbook.nodes("convert", entered=NEXT, passes=True),
        runbook.approval(
            "approve_forward_only", phase="compact", subject="forward-only", entered=NEXT, passes=True
        ),
        runbook.phase("compact", "act", "wait", entered=NEXT, passes=True),
        runbook.phase("features", "act", "wait", entered=NEXT, passes=True),
        runbook.nodes("go", entered=NEXT, passes=True),
        runbook.nodes("replace", entered=NEXT, passes=True),
        runbook.phase("soak", "wait", entered=NEXT, passes=True),
        runbook.going_back(),
        runbook.verdict(),
    )
