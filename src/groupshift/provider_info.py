"""What Airflow's provider entry point asks for: our connection types and their forms.

They lie in ``provider_info.toml``. Nothing here imports Airflow.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider description (schema: Airflow's provider_info; entry point in pyproject.toml)."""
    return tomllib.loads(files("groupshift").joinpath("provider_info.toml").read_text(encoding="utf-8"))
