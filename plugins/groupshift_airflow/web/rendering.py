"""Templates to text, and whole documents to answers that may run and fetch nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader

from groupshift.domain.foreign_text import visible

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def _seen(value: Any) -> Any:
    """What a template shows: text from outside with every character seen (Jinja escapes it afterwards)."""
    if isinstance(value, str) and value and not hasattr(value, "__html__"):
        return visible(value)
    return value


_templates = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")), autoescape=True, finalize=_seen
)


def rendered(template: str, **values: Any) -> str:
    """This template with these values, escaped."""
    return _templates.get_template(template).render(**values)


def sandboxed(text: str) -> Response:
    """A document of its own, shown without any right."""
    policy = f"{POLICY}; frame-ancestors 'self'; sandbox"
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})
