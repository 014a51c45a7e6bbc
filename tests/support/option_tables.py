"""Tables of the options of each move for `docs/reference/commands.md`; run it to write them there."""

from __future__ import annotations

from pathlib import Path

from groupshift.cli.requests import markdown
from groupshift.domain.requests import options_of
from groupshift.engine.registry import moves

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/commands.md"
_OURS = ("coordination", "downgrade", "expansion", "protocol")


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
