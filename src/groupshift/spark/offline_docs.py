"""Data Docs of Great Expectations without the network: one file a page, with a style of our own.

Great Expectations' pages load Bootstrap, jQuery, fonts and logos from five hosts, and two of their tables are
filled in by script. Here scripts, foreign styles and pictures are taken out of the finished pages, and the
tables are written into them. What was lost: filters, sorting, and parts that open at a click (they are open).
"""

from __future__ import annotations

import ast
import re
import shutil
from html import escape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

from groupshift.spark.html import POLICY

_GONE = frozenset({"script", "style", "svg", "iframe", "object", "video", "audio"})
"""Elements that go with all that is in them."""
_VOID_GONE = frozenset({"link", "img", "embed", "base", "source"})
_TABLE = re.compile(r"columns:\s*(\[.*?\]),\s*\n\s*data:\s*(\[.*?\]),\s*\n\s*toolbar:", re.DOTALL)
_REMOTE = re.compile(r"url\(|@import|//", re.IGNORECASE)


def make_offline(folder: Path) -> None:
    """Rewrite every page below ``folder`` in place; the site's shared styles, fonts and pictures go."""
    style = files("groupshift.spark").joinpath("offline_docs.css").read_text(encoding="utf-8")
    for page in sorted(folder.rglob("*.html")):
        page.write_text(without_network(page.read_text(encoding="utf-8"), style), encoding="utf-8")
    shutil.rmtree(folder / "static", ignore_errors=True)


def without_network(page: str, style: str) -> str:
    """The page with this style and nothing that a browser would load or run."""
    made = _Page(style)
    made.feed(page)
    made.close()
    return "".join(made.parts)


class _Page(HTMLParser):
    """Writes down what it is fed but for what goes; a script that fills a table becomes the table."""

    def __init__(self, style: str) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []
        self._style = style
        self._inside: list[str] = []

    def handle_decl(self, decl: str) -> None:
        """The document type."""
        self.parts.append(f"<!{decl}>")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Opens an element, or begins to leave one out."""
        if tag in _GONE:
            self._inside.append(tag)
        elif not self._inside and tag not in _VOID_GONE and not _is_directive(tag, attrs):
            self.parts.append(f"<{tag}{''.join(map(_attribute, filter(_is_kept, attrs)))}>")
            if tag == "head":
                self.parts.append(POLICY)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without an end."""
        if tag not in _GONE:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Closes an element; the style goes in front of the end of the head."""
        if self._inside:
            if tag == self._inside[-1]:
                self._inside.pop()
        elif tag not in _VOID_GONE:
            self.parts.append(f"<style>{self._style}</style></head>" if tag == "head" else f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Text; of a script only the table that it would have filled in."""
        if not self._inside:
            self.parts.append(data)
        elif self._inside == ["script"]:
            self.parts.append(_table(data))

    def handle_entityref(self, name: str) -> None:
        """A named character."""
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        """A numbered character."""
        self.handle_data(f"&#{name};")


def _is_directive(tag: str, attributes: list[tuple[str, str | None]]) -> bool:
    """Whether a ``meta`` of the page would tell the browser to do something (to go elsewhere, above all)."""
    told = dict(attributes).get("http-equiv")
    return tag == "meta" and told is not None and told.lower() != "content-type"


def _is_kept(attribute: tuple[str, str | None]) -> bool:
    """Whether an attribute neither runs nor loads anything."""
    name, value = attribute
    if name.startswith("on") or name in {"src", "srcset", "poster", "background", "integrity", "crossorigin"}:
        return False
    return name != "style" or not _REMOTE.search(value or "")


def _attribute(attribute: tuple[str, str | None]) -> str:
    name, value = attribute
    return f" {name}" if value is None else f' {name}="{escape(value)}"'


def _table(script: str) -> str:
    """The table that this script would have made, else nothing. A row's link is in its first cell."""
    found = _TABLE.search(script)
    if found is None:
        return ""
    columns, rows = (ast.literal_eval(part) for part in found.groups())
    head = "".join(f"<th>{escape(str(column['title']))}</th>" for column in columns)
    lines = (_line([column["field"] for column in columns], row) for row in rows)
    return f'<table class="table"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _line(fields: list[str], row: dict[str, Any]) -> str:
    told = {**row, "validation_success": escape(str(row.get("_validation_success_text", "")))}
    cells = [without_network(str(told.get(field, "")), "") for field in fields]
    if link := row.get("_table_row_link_path"):
        cells[0] = f'<a href="{escape(str(link))}">{cells[0]}</a>'
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
