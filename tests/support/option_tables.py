"""Tables of the options of each move for `docs/reference/commands.md`; run it to write them there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from groupshift.cli.requests import bounds_of, default_of
from groupshift.domain.foreign_text_quoting import markdown as escaped
from groupshift.domain.requests import Option, options_of
from groupshift.engine.installed_moves import moves

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/commands.md"
_OURS = ("coordination", "downgrade", "expansion", "protocol")


def markdown(options: Iterable[Option]) -> str:
    """A Markdown table of options: how each is spelled, what it is, its default."""
    rows = [("option", "value", "what it is", "default"), ("---", "---", "---", "---")]
    for each in options:
        value = " ".join(each.choices) or {"flag": "yes or no", "text": "text"}.get(each.kind, "number")
        default = "required" if each.required else escaped(default_of(each)) if default_of(each) else "-"
        bounds = "" if each.minimum is None and each.maximum is None else f" {bounds_of(each)}."
        several = " May be given several times." if each.many else ""
        rows.append((f"`{each.flag}`", escaped(value), escaped(f"{each.help}{bounds}{several}"), default))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def with_tables(page: str) -> str:
    """The page with the table of each of our moves below its heading ``### move``."""
    installed = moves()
    for name in _OURS:
        table = markdown(options_of(installed[name].request))
        before, _, after = page.partition(f"### {name}\n\n")
        _, _, rest = f"\n{after}".partition("\n\n") if after.startswith("|") else ("", "", after)
        page = f"{before}### {name}\n\n{table}\n\n{rest}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
