"""
### Change a toy: the runbook that the vocabulary of the plugin is proven with

`plan → approval → prepare → people → prove → settle → go → approval → burn → finish → soak → verdict`

| you see | it means | what you can do |
|---|---|---|
| only `plan` red | the toy is not ready, nothing was changed | read the sentence in its log |
| a task *Awaiting Input* | a person decides or acts; silence changes nothing | answer: *Required Actions* |
| `prove.judge` red, `undo` running | a proof failed, the rollback runs by itself | wait; the run ends red |
| `verdict` green | as far as asked | keep the evidence |
"""

from airflow.sdk import DAG, chain

from groupshift_airflow import runbook

with DAG(
    dag_id="toy",
    description="Changes one SQLite file, with one step of each kind.",
    doc_md=__doc__,
    params=runbook.form("toy"),
    default_args=runbook.DEFAULT_ARGS,
    schedule=None,
    catchup=False,
    tags=["groupshift"],
):
    chain(
        runbook.plan("toy"),
        runbook.approval("approve_plan", phase="ask"),
        runbook.phase("prepare", "snapshot", "act"),
        runbook.phase("people", "act"),
        runbook.phase("prove", "snapshot", "compare", "judge"),
        runbook.phase("settle", "act", "wait"),
        runbook.phase("go", "act"),
        runbook.approval("approve_burn", phase="go"),
        runbook.phase("burn", "act"),
        runbook.phase("finish", "act"),
        runbook.phase("soak", "wait"),
        runbook.going_back(),
        runbook.verdict(),
    )
