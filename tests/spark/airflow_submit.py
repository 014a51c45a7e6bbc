"""The task that compares as a worker of Airflow runs it, for the tests of cluster mode.

``python airflow_submit.py JOB OUTPUT ARGUMENT...`` submits over the connection ``spark_default``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from groupshift.domain.run import SparkJob
from groupshift_airflow.run_steps import Compare


def main(job: str, output: str, *arguments: str) -> None:
    """Submit and wait."""
    context, settings = dict[Any, Any](), None
    asked = SparkJob(job=Path(job).stem, arguments=arguments, output=output)
    Compare(task_id="compare").submit(context, asked, settings)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(*sys.argv[1:])
