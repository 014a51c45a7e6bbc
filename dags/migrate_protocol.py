"""
### Change the rebalance protocol of a consumer group: classic ⇄ consumer (KIP-848)

`assess → plan → approval → [snapshot → proof → judge → act → wait → snapshot → proof → judge]…
→ soak → verdict`

| you see | it means | what you can do |
|---|---|---|
| `plan` red | the group is not ready, nothing was changed | read the sentence in its log |
| a gate *Awaiting Input* | a person decides; silence changes nothing | answer under *Required Actions* |
| a gate red | not approved, expired, or a member joined or left | trigger again; *Clear* asks again |
| a judge *Awaiting Input* | not proven, or not clearly | go on, roll back, or stop here |
| a judge red, `undo_…` running | a proof failed, the way back runs by itself | wait; the run ends red |
| `verdict` green | all members speak the wanted protocol; the way back is open | `roll_back` takes it back |

*Online* replaces members one after the other (`canary`, `roll`), *offline* stops all of them first (`empty`,
`fill`). Without **Execute** the run ends after the plan and nothing is changed. A killed task is safe to run
again.
"""

from airflow.sdk import DAG, TriggerRule, chain

from groupshift.domain.plan import Gate, MoveName, StageName
from groupshift_airflow import form, gates, operators
from groupshift_airflow.retries import DEFAULT_ARGS
from groupshift_airflow.stages import stage, way_back

PROTOCOL, LATER = MoveName.PROTOCOL, TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS

with DAG(
    dag_id="migrate_protocol",
    dag_display_name="Migrate protocol: classic ⇄ consumer",
    description="Moves the members of a group to the other rebalance protocol, proves it, can take it back.",
    doc_md=__doc__,
    params=form.protocol(),
    default_args=DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    tags=["groupshift"],
):
    plan = operators.Plan(task_id="plan")
    approved = gates.Approval(task_id="approve_plan", gate=Gate.PLAN)
    emptied = stage(StageName.EMPTY, entered=LATER, move=PROTOCOL)
    soaked = stage(StageName.SOAK, entered=LATER, move=PROTOCOL)

    chain(
        operators.Assess(task_id="assess"),
        plan,
        approved,
        stage(StageName.CANARY, move=PROTOCOL),
        stage(StageName.ROLL, move=PROTOCOL),
        emptied,
        stage(StageName.FILL, move=PROTOCOL),
        soaked,
        operators.Keep(task_id="keep"),
        way_back(PROTOCOL),
        operators.Close(task_id="verdict", trigger_rule=TriggerRule.ALL_DONE),
    )
    plan >> operators.planned()
    approved >> [emptied, soaked]  # online nothing is emptied, offline nothing is rolled
