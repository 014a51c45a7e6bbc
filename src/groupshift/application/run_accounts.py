"""The account of a run of any move that changes a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from groupshift.application import expansion_account
from groupshift.application.run_account import RunAccount
from groupshift.errors import Rejected
from groupshift.ports.journal import ClusterRun, RunStepRecord

_ACCOUNTS: Mapping[str, Callable[[ClusterRun, Mapping[str, RunStepRecord]], RunAccount[Any]]] = {
    "expansion": expansion_account.account_of,
}
"""By the name of the move."""


MOVES = frozenset(_ACCOUNTS)
"""The names of all moves that change a cluster; the id of a run begins with one."""


def account_of(run: ClusterRun, records: Mapping[str, RunStepRecord]) -> RunAccount[Any]:
    """From the journal alone. Raises `Rejected` for a plan of another version and a move that this release
    does not know."""
    found = _ACCOUNTS.get(run.move)
    if found is None:
        raise Rejected(
            f"run {run.run} is of move {run.move!r}, which is not known here; take a newer release"
        )
    return found(run, records)
