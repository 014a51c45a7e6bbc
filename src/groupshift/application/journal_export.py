"""The journal of one migration as JSON, so that its evidence can be read without a database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from groupshift.application.records import Migration
from groupshift.domain.evidence import MANIFEST
from groupshift.ports.journal import EventKind


def exported(found: Migration) -> str:
    """Record, plan, events and steps as the text of ``journal.json``."""
    record = found.record
    data = {
        "version": 1,
        **asdict(record),
        "phase": record.phase.value,
        "events": [
            {**asdict(e), "kind": e.kind.value, "stage": e.stage.value if e.stage else None}
            for e in found.events
        ],
        "steps": {
            name.value: {"state": step.state.value, "intent": step.intent, "result": step.result}
            for name, step in found.steps.items()
        },
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def snapshots_in(data: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 by path of each snapshot's manifest, as an exported journal has it: a migration's tells the
    events, that of a run on a whole cluster the paths."""
    of_cluster = {str(path): str(digest) for path, digest in data.get("snapshots", {}).items()}
    return of_cluster | {
        f"{event['stage']}/{event['body']['moment']}/{MANIFEST}": str(event["body"]["digest"])
        for event in data["events"]
        if event["kind"] == EventKind.SNAPSHOT.value
    }
