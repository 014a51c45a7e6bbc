"""The journal of one migration as JSON, so that its evidence can be read without a database."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from groupshift.application.records import Migration
from groupshift.ports.journal import Event


def exported(found: Migration) -> str:
    """Record, plan, events and steps as the text of ``journal.json``."""
    record = found.record
    data = {
        "version": 1,
        **asdict(record),
        "phase": record.phase.value,
        "events": events_data(found.events),
        "steps": {
            name.value: {"state": step.state.value, "intent": step.intent, "result": step.result}
            for name, step in found.steps.items()
        },
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def events_data(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Events as plain values."""
    return [{**asdict(e), "kind": e.kind.value, "stage": e.stage.value if e.stage else None} for e in events]
