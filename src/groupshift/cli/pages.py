"""Reports that verbs write: where else, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Output = Annotated[
    Path | None,
    typer.Option("--output", help="Write the page here too (one HTML file).", show_default=False),
]


def write_page(path: Path, text: str) -> None:
    """Write beside the target, then rename onto it. Raises `Rejected` or `Transient` where that cannot be."""
    from groupshift.adapters.parquet.writing import unwritable

    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise unwritable(f"--output {path}", error) from error
