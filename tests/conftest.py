"""For all tests: a property is not false because a machine is slow; a helper's assertion shows its values;
what takes minutes begins first."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite(
    *(f"support.{file.stem}" for file in Path(__file__).parent.glob("support/*.py"))
)

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

LONGEST = (
    "test_real_airflow.py",
    "test_real_refusals.py",
    "test_run_move.py",
    "test_migration_report.py",
    "test_offsets_of_the_field.py",
    "test_chaos.py",
    "test_toy_run.py",
    "test_validate.py",
    "test_protocol_move.py",
    "test_expansion_run.py",
    "test_placement.py",
    "test_cluster.py",
    "test_scan_fleet.py",
)
"""Files of more than a minute, the longest first: a part of the suite ends with its last file."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first; all others stay as they are."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
