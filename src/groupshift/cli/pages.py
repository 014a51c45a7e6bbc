"""Reports that verbs write: where else, and how."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from groupshift.errors import Rejected

Output = Annotated[
    Path | None,
    typer.Option("--output", help="Write the page here too (one HTML file).", show_default=False),
]


def write_page(path: Path, text: str) -> None:
    """Write beside the target, then rename onto it. Raises `Rejected` or `Transient` where that cannot be."""
    from groupshift.adapters.parquet.evidence import unwritable
    from groupshift.foreign_files import made_anew

    try:
        part = path.with_name(f"{path.name}.part")
        made_anew(part)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise unwritable(f"--output {path}", error) from error
    except ValueError as error:
        raise Rejected(f"--output {path} cannot be written ({error}): name a file") from error
