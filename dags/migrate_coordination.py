"""
### Move a consumer group from ZooKeeper to Kafka coordination

`assess → plan → approval → [snapshot → proof → judge → act → wait → snapshot → proof → judge]…
→ soak → last gate → verdict`

| you see | it means | what you can do |
|---|---|---|
| only `plan` red | the group is not ready, nothing was changed | read the sentence in its log |
| a gate *Awaiting Input* | a person decides; silence changes nothing | answer under *Required Actions* |
| a gate red | not approved, expired, or the group changed | trigger again; *Clear* asks again |
| a judge *Awaiting Input* | not proven, or not clearly | go on, roll back, or stop here |
| a judge red, `undo_…` running | a proof failed, the way back runs by itself | wait; the run ends red |
| `verdict` green | as far as asked; the way back is open unless finalised | `roll_back` takes it back |

Without **Execute** the run ends after the plan and nothing is changed. A killed task is safe to run again.
"""

from airflow.sdk import DAG, TriggerRule, chain

from groupshift.domain.plan import Gate, StageName
from groupshift_airflow import form, gates, operators
from groupshift_airflow.retries import DEFAULT_ARGS
from groupshift_airflow.stages import stage, way_back

LATER = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS

with DAG(
    dag_id="migrate_coordination",
    dag_display_name="Migrate coordination: ZooKeeper → Kafka",
    description="Moves a consumer group from ZooKeeper to Kafka coordination, proves it, can take it back.",
    doc_md=__doc__,
    params=form.migrate(),
    default_args=DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    tags=["groupshift"],
):
    plan = operators.Plan(task_id="plan")
    approved = gates.Approval(task_id="approve_plan", gate=Gate.PLAN)
    rolled = stage(StageName.ROLL, entered=LATER)
    rehearsed = gates.Rehearse(task_id="rehearse", trigger_rule=LATER)
    retired = stage(StageName.RETIRE, entered=LATER)
    soaked = stage(StageName.SOAK, entered=LATER)
    choose = gates.LastGate(task_id="last_gate", finalise="finalise", keep="keep")
    ends = [operators.Finalise(task_id="finalise"), operators.Keep(task_id="keep")]
    verdict = operators.Close(task_id="verdict", trigger_rule=TriggerRule.ALL_DONE)

    chain(
        operators.Assess(task_id="assess"),
        plan,
        approved,
        stage(StageName.CANARY),
        rolled,
        rehearsed,
        gates.Approval(task_id="approve_toggle", gate=Gate.TOGGLE),
        stage(StageName.TOGGLE),
        retired,
        soaked,
        choose,
        ends,
        way_back(),
        verdict,
    )
    plan >> operators.planned()
    # A stage that the plan lacks is skipped: it was not asked for, or the group has come that far before.
    approved >> [rolled, rehearsed, retired, soaked]
