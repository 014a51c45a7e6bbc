"""What an event of the journal says, in one line; only known keys, so nothing unexpected is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import Event, EventKind

_SHOWN = ("run", "to", "detail", "verdict", "reason", "because")


def event_text(event: Event) -> str:  # noqa: PLR0911 - one sentence a kind
    """The sentence of an event, empty where its kind says it all."""
    body = event.body
    match event.kind:
        case EventKind.GATE_ANSWERED:
            return f"{body['gate']}: {body['choice']} by {body['who']}"
        case EventKind.VOIDED:
            return f"{body['gate']}: {'; '.join(body['changes'])}"
        case EventKind.GATE_SHOWN:
            return str(body["gate"])
        case EventKind.JUDGED:
            return _judged(f"{body['moment']}: {body['verdict']}", body["findings"])
        case EventKind.REHEARSED | EventKind.SOAK_FAILED:
            return _judged("", body["findings"])
        case EventKind.PLANNED:
            return f"by {body['actor']}: {', '.join(body['stages'])}"
        case EventKind.SNAPSHOT | EventKind.PROOF_REQUESTED:
            return str(body["moment"])
        case EventKind.SEALED:
            signed = "signed" if body["signed"] else "not signed"
            return f"{body['files']} files, {signed}, SHA-256 {str(body['digest'])[:12]}…"
        case EventKind.AUDITED:
            return f"{len(body['files'])} files of the audit of consumption"
        case _:
            return " · ".join(str(body[key]) for key in _SHOWN if body.get(key))


def _judged(lead: str, findings: Iterable[Mapping[str, Any]]) -> str:
    bad = [f"{each['rule']}: {each['reason']}" for each in findings if each["verdict"] != Verdict.PASS.value]
    return " · ".join([lead, *bad] if lead else bad)
