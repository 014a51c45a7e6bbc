"""Sensors: one look each poke, the slot is free in between (mode ``reschedule``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

from groupshift.domain.plan import StageName
from groupshift.domain.planning import MAX_WATCH_S
from groupshift.errors import Transient
from groupshift_airflow.operators import UseCase
from groupshift_airflow.retries import LATE

if TYPE_CHECKING:
    from airflow.sdk import Context

    from groupshift.bootstrap import App
    from groupshift.domain.judgement import StageStatus

POKE_S = 5.0
PATIENCE_S = 900.0


class Settled(UseCase, BaseSensorOperator):
    """Waits until what the act of a stage started has settled in the live group."""

    def __init__(self, *, stage: str, **kwargs: Any) -> None:
        patience_s = PATIENCE_S + (MAX_WATCH_S if stage == StageName.CANARY else 0)
        waiting = {"mode": "reschedule", "poke_interval": POKE_S, "timeout": patience_s, "retries": LATE}
        super().__init__(**{**waiting, **kwargs})
        self.stage = stage

    def look(self, app: App) -> StageStatus:
        """What is waited for; `Soak` replaces it."""
        return app.watch(self.migration, self.stage)

    def poke(self, context: Context) -> bool:  # noqa: ARG002
        """One look; a dependency that does not answer is looked at again until the time is over."""
        try:
            with self.app() as app:
                status = self.look(app)
        except Transient as error:
            self.log.warning("%s", error)
            return False
        self.log.info("%s", status.detail)
        return status.settled


class Soak(Settled):
    """Waits for the soak to end, or to fail early; the judge behind it says which."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(stage=StageName.SOAK, **{"timeout": 7 * 86400.0, **kwargs})

    def look(self, app: App) -> StageStatus:
        """One look of the soak."""
        return app.soak(self.migration)
