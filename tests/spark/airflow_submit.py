"""The operator `Validate` as a worker of Airflow runs it, for the tests of cluster mode.

``python airflow_submit.py JOB OUTPUT ARGUMENT...`` submits over the connection ``spark_default``."""

from __future__ import annotations

import sys

from groupshift.ports.spark_jobs import ProofRequest
from groupshift_airflow.hooks import require_spark
from groupshift_airflow.operators import Validate


def main(job: str, output: str, *arguments: str) -> None:
    """Submit and wait."""
    operator = Validate(task_id="validate", stage="canary", moment="after", migration="m", token="1")
    request = ProofRequest(job=job, arguments=arguments, output=output)
    operator.submit({}, request, require_spark("spark_default"))


if __name__ == "__main__":
    main(*sys.argv[1:])
