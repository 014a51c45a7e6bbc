"""Where runs work in this deployment, and who works on its nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupshift.bootstrap.moves import Place
    from groupshift.settings import Settings

NODES_VARIABLE = "GROUPSHIFT_NODES"
"""Environment variable that names the file of who replaces or restarts nodes
(docs/reference/node-drivers.md); without it a person does."""
TIMEOUT_S = 30.0


def run_place(settings: Settings) -> Place:
    """Return where runs of the engine work, of these settings."""
    from groupshift.bootstrap.moves import Place

    file = os.environ.get(NODES_VARIABLE)
    return Place(settings=settings, nodes=Path(file) if file else None, timeout_s=TIMEOUT_S)
