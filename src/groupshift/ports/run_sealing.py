"""Sealing the evidence of a run that is about to end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from groupshift.ports.cluster_runs import ClusterRun, RunStepRecord

SEALED = "sealed"
"""The name under which the journal of a run keeps what its sealing came to; no step has it."""


class RunSealing(Protocol):
    """Writes the report and the manifest over every file of a run."""

    def __call__(self, run: ClusterRun, steps: Mapping[str, RunStepRecord]) -> Mapping[str, Any]:
        """``run`` as it will have ended, ``steps`` as journaled. Gives what is journaled of the sealing: the
        SHA-256 of the manifest (``digest``) and the number of ``files``; empty: nothing was sealed.

        Raises `Transient` or `Rejected` where the evidence cannot be written."""
        ...


def not_sealed(run: ClusterRun, steps: Mapping[str, RunStepRecord]) -> Mapping[str, Any]:  # noqa: ARG001
    """For runs without a place for evidence."""
    return {}
