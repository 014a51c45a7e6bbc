"""The one table that says which failure is tried again, for every task of every DAG.

What did not answer is asked again: every step is safe to repeat. What was refused, what somebody else changed
and what broke a promise is not: a person has to look first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

DELAY = timedelta(seconds=5)
ATTEMPTS = 3
POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(
            exception="groupshift.errors.Transient",
            action=RetryAction.RETRY,
            retry_delay=DELAY,
            reason="a dependency did not answer; every step is safe to repeat",
        ),
        RetryRule(
            exception=[
                "groupshift.errors.GroupshiftError",
                "airflow.providers.standard.exceptions.HITLTimeoutError",
            ],
            action=RetryAction.FAIL,
            reason="trying again would not help: a person has to look",
        ),
    ]
)

DEFAULT_ARGS: dict[str, Any] = {"retries": ATTEMPTS - 1, "retry_delay": DELAY, "retry_policy": POLICY}
"""Default arguments of every task. A killed task process counts as one attempt."""
