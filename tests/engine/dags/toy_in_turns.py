"""
### Change a toy, where the proof is a phase that repeats

`plan → approval → prepare → people → prove (walk ⇄ compare) → the rest → verdict`

As `toy`; the two tasks of `prove` take turns, as they do where a phase repeats for each node.
"""

from airflow.sdk import DAG, chain

from groupshift_airflow import runbook

with DAG(
    dag_id="toy_in_turns",
    description="Changes one SQLite file; the proof is done by two tasks that take turns.",
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
        runbook.nodes("prove"),
        runbook.phase("settle", "act"),
        runbook.phase("go", "act"),
        runbook.approval("approve_burn", phase="go"),
        runbook.phase("burn", "act"),
        runbook.phase("soak", "wait"),
        runbook.going_back(),
        runbook.verdict(),
    )
