"""
### Change the rebalance protocol of a consumer group: classic ⇄ consumer (KIP-848)

`plan → approval → [snapshot → compare → judge → act → wait → snapshot → compare → judge]… → soak → verdict`

| you see | it means | what you can do |
|---|---|---|
| only `plan` red | the group is not ready, nothing was changed | read the sentence in its log |
| a gate *Awaiting Input* | a person decides; silence changes nothing | answer under *Required Actions* |
| a gate red | not approved, or expired; nothing more is changed | trigger again |
| another one *Awaiting Input* | not clearly proven, or a person has to act | answer, or do what it says |
| a task red, `undo_…` running | a proof failed, the rollback runs by itself | wait; the run ends red |
| `verdict` green | all members speak the wanted protocol; the rollback is open | `roll_back` takes it back |

*Online* replaces members one after the other (`canary`, `roll`), *offline* stops all of them first (`empty`,
`fill`). Without **Execute** the run ends after the plan and nothing is changed. A killed task is safe to run
again; a group's open run is gone on with.
"""

from airflow.sdk import DAG, TriggerRule, chain

from groupshift_airflow import runbook

NEXT, LATER = TriggerRule.ALL_SUCCESS, TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS

with DAG(
    dag_id="migrate_protocol",
    dag_display_name="Migrate protocol: classic ⇄ consumer",
    description="Moves the members of a group to the other rebalance protocol, proves it, can take it back.",
    doc_md=__doc__,
    params=runbook.form("protocol"),
    default_args=runbook.DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    tags=["groupshift"],
):
    approved = runbook.approval("approve_plan", phase="plan", entered=NEXT)
    emptied = runbook.phase("empty", entered=LATER)
    soaked = runbook.phase("soak", *runbook.WITHOUT_ACT, entered=LATER)

    chain(
        runbook.plan("protocol"),
        approved,
        runbook.phase("canary", entered=NEXT),
        runbook.phase("roll", entered=NEXT),
        emptied,
        runbook.phase("fill", entered=NEXT),
        soaked,
        runbook.keep(),
        runbook.going_back("undo_fill", "undo_empty", "undo_members"),
        runbook.verdict(),
    )
    approved >> [emptied, soaked]  # online nothing is emptied, offline nothing is rolled
