"""What must hold before a process goes on with the run of a downgrade that lies in the journal."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.application.downgrade_plan import from_json
from groupshift.application.run_demands import demand_move
from groupshift.errors import Rejected
from groupshift.log.releases import Coordinator
from groupshift.ports.journal import ClusterRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What somebody asks for who may mean a run that is open; what is empty or None was not said."""

    release: str = ""
    now: str = ""
    coordinator: Coordinator | None = None
    live: bool = False
    brokers_only: bool = False


def demand_same(run: ClusterRun, wanted: Wanted) -> None:
    """An open run goes on by its own plan. Raises `Conflict` for a run of another move, `Rejected`, naming
    what differs, where another is asked for."""
    demand_move(run, "downgrade")
    plan = from_json(run.plan)
    differs = {
        f"to {wanted.release}": wanted.release not in {"", plan.release},
        f"from {wanted.now}": wanted.now not in {"", plan.now},
        f"with the {wanted.coordinator} coordinator": wanted.coordinator not in {None, plan.coordinator},
        "with live commits": wanted.live and not plan.live,
        "of brokers only": wanted.brokers_only and not plan.brokers_only,
    }
    other = [said for said, differ in differs.items() if differ]
    if other:
        of = " of brokers only" if plan.brokers_only else ""
        raise Rejected(
            f"{' and '.join(other)} was asked for, and run {run.run}{of} from {plan.now} to {plan.release} "
            f"with the {plan.coordinator} coordinator is open: go on with it, or take it back with: "
            "groupshift downgrade back --execute"
        )
