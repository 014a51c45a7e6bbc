"""
### Move a consumer group from ZooKeeper to Kafka coordination

`plan → approval → [snapshot → compare → judge → act → wait → snapshot → compare → judge]…
→ soak → last gate → verdict`

| you see | it means | what you can do |
|---|---|---|
| only `plan` red | the group is not ready, nothing was changed | read the sentence in its log |
| a gate *Awaiting Input* | a person decides; silence changes nothing | answer under *Required Actions* |
| a gate red | not approved, or expired; nothing more is changed | trigger again |
| another one *Awaiting Input* | not clearly proven, or a person has to act | answer, or do what it says |
| a task red, `undo_…` running | a proof failed, the rollback runs by itself | wait; the run ends red |
| `verdict` green | as far as asked; the rollback is open unless finalised | `roll_back` takes it back |

Without **Execute** the run ends after the plan and nothing is changed. A killed task is safe to run again; a
group's open run is gone on with.
"""

from airflow.sdk import DAG, TriggerRule, chain

from groupshift_airflow import runbook

NEXT, LATER = TriggerRule.ALL_SUCCESS, TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS

with DAG(
    dag_id="migrate_coordination",
    dag_display_name="Migrate coordination: ZooKeeper → Kafka",
    description="Moves a consumer group from ZooKeeper to Kafka coordination, proves it, can take it back.",
    doc_md=__doc__,
    params=runbook.form("coordination", zookeeper=True),
    default_args=runbook.DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    tags=["groupshift"],
):
    approved = runbook.approval("approve_plan", phase="plan", entered=NEXT)
    rolled = runbook.phase("roll", entered=LATER)
    rehearsed = runbook.rehearsal("rehearse", phase="toggle", entered=LATER)
    retired = runbook.phase("retire", entered=LATER)
    soaked = runbook.phase("soak", *runbook.WITHOUT_ACT, entered=LATER)

    chain(
        runbook.plan("coordination"),
        approved,
        runbook.phase("canary", entered=NEXT),
        rolled,
        rehearsed,
        runbook.approval("approve_toggle", phase="toggle", entered=NEXT),
        runbook.phase("toggle", entered=NEXT),
        retired,
        soaked,
        runbook.last_gate("last_gate", phase="finalise", finalise="finalise.act", keep="keep"),
        [runbook.phase("finalise", "act", "wait", entered=NEXT), runbook.keep()],
        runbook.going_back("undo_retire", "undo_toggle", "undo_members"),
        runbook.verdict(),
    )
    # A phase that the plan lacks is skipped: it was not asked for, or the group has come that far before.
    approved >> [rolled, rehearsed, retired, soaked]
