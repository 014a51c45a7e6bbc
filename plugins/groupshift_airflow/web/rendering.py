"""Templates to text, and whole documents to answers that may run and fetch nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_templates = Environment(loader=FileSystemLoader(Path(__file__).with_name("templates")), autoescape=True)


def rendered(template: str, **values: Any) -> str:
    """This template with these values, escaped."""
    return _templates.get_template(template).render(**values)


def sandboxed(text: str) -> Response:
    """A document of its own, shown without any right."""
    policy = f"{POLICY}; frame-ancestors 'self'; sandbox"
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})
