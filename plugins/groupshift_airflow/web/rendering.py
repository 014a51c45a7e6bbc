"""Templates to text, and whole documents to answers that may run and fetch nothing.

A page runs no script, unless it is asked for with ``look=airflow``, as Airflow's menu and tabs do: then it
has one, known by its hash, that follows Airflow's switch of light and dark. A document never has one: such a
page shows it in a frame, asked for with ``theme=dark`` or ``theme=light``."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader

from groupshift.domain.run import RunState
from groupshift.engine.questions_and_approvers import utc
from groupshift.engine.status import RunStatus
from groupshift.report.page import shown
from groupshift.report.run_history import event_text
from groupshift_airflow.links import AIRFLOW_LOOK

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
REFRESH_S = 15
"""After how many seconds a page about what is still open is read again."""
_FRAMED = f"{POLICY}; frame-ancestors 'self'"
_DARK, _LIGHT = "dark", "light"
_QUERY = "@media (prefers-color-scheme: dark)"
"""What every stylesheet of this project says before its dark colours."""
_ALWAYS = {_DARK: "@media all", _LIGHT: "@media not all"}
_SCHEMES = '<meta name="color-scheme" content="light dark">'


def moment(at_ms: int | None) -> str:
    """Return epoch milliseconds as UTC text, empty for None and for 0."""
    return utc(at_ms) if at_ms else ""


def verdict(now: RunStatus) -> str:
    """Return the verdict of a run, whose colour it has: that of its end, or that it is open."""
    return now.verdict or ("pass" if now.state == RunState.PREVIEW else "inconclusive")


_templates = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")), autoescape=True, finalize=shown
)
_templates.globals |= {"moment": moment, "event_text": event_text, "verdict": verdict}
_SCRIPT = _templates.get_template("page.js").render()
_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()


def rendered(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """Return the page of this template with these values, escaped, in the look that the request asks for."""
    look = request.query_params.get("look") == AIRFLOW_LOOK
    text = _templates.get_template(template).render(look=look, theme=_theme(request), **values)
    policy = f"{_FRAMED}; script-src 'sha256-{_HASH}'; frame-src 'self'" if look else _FRAMED
    return HTMLResponse(text, status_code=status, headers={"Content-Security-Policy": policy})


def framed(request: Request, *, refresh: bool = False) -> Response | None:
    """The page around the document of this address, None where the document itself is asked for."""
    if request.query_params.get("look") != AIRFLOW_LOOK:
        return None
    return rendered(request, "frame.html", refresh=REFRESH_S if refresh else 0)


def sandboxed(request: Request, text: str) -> Response:
    """A document of its own, shown without any right, in the theme that the request asks for: light or dark
    as the browser is without one."""
    return HTMLResponse(
        themed(text, _theme(request)), headers={"Content-Security-Policy": f"{_FRAMED}; sandbox"}
    )


def themed(text: str, theme: str) -> str:
    """A report of this or an earlier release in this theme: only its stylesheet is touched."""
    if theme not in _ALWAYS:
        return text
    head, end, body = text.partition("</style>")
    scheme = _SCHEMES.replace("light dark", theme)
    return f"{head.replace(_QUERY, _ALWAYS[theme]).replace(_SCHEMES, scheme)}{end}{body}"


def slashed(request: Request, name: str) -> str:
    """This address with a slash at its end, relative to itself, so that it is right behind any proxy."""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"./{quote(name, safe='')}/{query}"


def _theme(request: Request) -> str:
    """The theme that is asked for; empty: as the browser is."""
    theme = request.query_params.get("theme", "")
    return theme if theme in _ALWAYS else ""
