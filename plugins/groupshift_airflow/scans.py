"""Scanning a whole ensemble: form, and three operators; XCom carries the scan's number only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from groupshift.errors import Rejected
from groupshift.scan.group_state import Life
from groupshift.scan.ports import ToggleRecord, ToggleState
from groupshift.scan.waves import WaveRules
from groupshift_airflow import form
from groupshift_airflow.run_tasks import ClusterTask

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from airflow.sdk import Context

    from groupshift.scan.scan import FleetScans

SCAN, ENSEMBLE = "scan", "ensemble"
"""The id of the task that scans, and the key under which it pushes the ensemble's name."""
OPTIONS_VARIABLE = "groupshift_scan"
"""Airflow variable with JSON that replaces defaults of the form in scheduled runs; read by the tasks."""
SHOWN = 50
"""Lines of a kind in a task's log; the journal holds all."""

_RULES = WaveRules()


def parameters() -> dict[str, Any]:
    """Return the parameters of ``scan_fleet``; their defaults look and change nothing."""
    return {
        **form.clusters(),
        "toggle": form.flag(
            "Toggle what is ready",
            "After the scan, groups that are **fully migrated and at rest** go to kafka mode.",
            form.HOW,
        ),
        "take_back": form.names(
            "Take back", "Groups, or patterns with `*`, that go **back to zookeeper mode** instead.", form.HOW
        ),
        "stable_s": form.number(
            "At rest (seconds)", "How long a group must not have changed.", _RULES.stable_s, (0, 2_592_000)
        ),
        "wave": form.number("Wave size", "Groups toggled at once.", _RULES.size, (1, 1000)),
        "error_budget": form.number(
            "Error budget", "Failures after which nothing more is started.", _RULES.budget, (1, 1000)
        ),
        "at_most": form.number("At most", "Groups toggled in one run; 0: all.", _RULES.limit, (0, 100_000)),
        "execute": form.flag(
            "Execute", "**Off: waves are planned, nothing is changed.** On: they are toggled.", form.ACT
        ),
    }


def options(context: Context) -> dict[str, Any]:
    """Return what the form says; in a scheduled run with what the Airflow variable ``groupshift_scan`` says.

    Raises:
        Rejected: the variable is no JSON object, or has a key that the form has not.
    """
    params = dict(context["params"])
    if context["dag_run"].run_type != "scheduled":
        return params
    stored = Variable.get(OPTIONS_VARIABLE, default={}, deserialize_json=True)
    if not isinstance(stored, Mapping) or not set(stored) <= set(params):
        raise Rejected(
            f"Airflow variable {OPTIONS_VARIABLE!r} is {stored!r}; write a JSON object with keys of "
            f"{', '.join(sorted(params))}"
        )
    return {**params, **stored}


class FleetTask(ClusterTask):
    """Base: ``scans()`` is the way to every use case of an ensemble."""

    def scans(self) -> AbstractContextManager[FleetScans]:
        """Fresh use cases, for a ``with`` statement. Raises as `ClusterTask.settings`."""
        from groupshift.bootstrap.moves import build_scans

        return build_scans(self.settings())


class Scan(FleetTask):
    """Looks at every group once and returns the scan's number; pushes the name of the ensemble."""

    def execute(self, context: Context) -> int:
        """Log progress and totals."""
        with self.scans() as scans:
            report = scans.scan(partial(self.log.info, "%d of %d groups"))
        totals = ", ".join(f"{name} {count}" for name, count in sorted(report.record.totals.items()))
        self.log.info("scan %d of %s: %s", report.record.number, report.record.ensemble, totals)
        context["ti"].xcom_push(key=ENSEMBLE, value=report.record.ensemble)
        return report.record.number


class Report(FleetTask):
    """What a scan found different, who uses nothing any more, and who is ready for a toggle."""

    template_fields: Sequence[str] = (*FleetTask.template_fields, "number")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = "{{ ti.xcom_pull(task_ids='scan') }}"

    def execute(self, context: Context) -> None:
        """Log it, a line each."""
        stable_s = options(context)["stable_s"]
        with self.scans() as scans:
            for change in islice(scans.changes(int(self.number)), SHOWN):
                said = (change.group, change.aspect, change.before or "-", change.after or "-")
                self.log.info("changed: %s, %s: %s -> %s", *said)
            for state in islice((s for s in scans.states() if s.life is not Life.ACTIVE), SHOWN):
                self.log.warning("%s group: %s", state.life, state.group)
            fit = scans.fit(WaveRules(stable_s=stable_s))
        self.log.info("fit to be toggled: %s", ", ".join(fit[:SHOWN]) or "none")


class Waves(FleetTask):
    """The last task: toggles what is fit, or takes back what is named, in waves; else it skips."""

    def execute(self, context: Context) -> None:
        """Log every step of every group.

        Raises:
            AirflowFailException: a group failed, or the waves were stopped.
            AirflowSkipException: nobody asked for a toggle.
        """
        wanted = options(context)
        if not wanted["toggle"] and not wanted["take_back"]:
            raise AirflowSkipException("neither 'toggle' nor 'take_back' was asked for")
        numbers = {"size": "wave", "budget": "error_budget", "stable_s": "stable_s", "limit": "at_most"}
        rules = WaveRules(**{name: wanted[key] for name, key in numbers.items()})
        back, execute = wanted["take_back"], wanted["execute"]
        with self.scans() as scans:
            if back:
                waves = scans.take_back(back, rules, self._shown, execute=execute)
            else:
                waves = scans.toggle(scans.last(), rules, self._shown, execute=execute)
        if not execute:
            self.log.info("planned only: run with 'execute' to toggle %d groups", len(waves.toggles))
        failed = [each for each in waves.toggles if each.state is ToggleState.FAILED]
        if failed or waves.stopped:
            said = [f"{len(failed)} groups failed ({failed[0].group}: {failed[0].reason})"] if failed else []
            said += [f"{waves.stopped}; {len(waves.left)} groups were not started"] if waves.stopped else []
            raise AirflowFailException("; ".join(said))

    def _shown(self, toggle: ToggleRecord) -> None:
        """Log one step of one group."""
        level = self.log.warning if toggle.state is ToggleState.FAILED else self.log.info
        said = (toggle.wave, toggle.group, toggle.to, toggle.state, toggle.reason)
        level("wave %d: %s to %s: %s %s", *said)
