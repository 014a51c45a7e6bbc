"""For all tests: a property is not false because a machine is slow; a helper's assertion shows its values;
what takes longest begins first."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite(
    *(f"support.{file.stem}" for file in Path(__file__).parent.glob("support/*.py"))
)

from support.longest_first import longest_first  # noqa: E402 - it is one of them

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files on real servers begin in the order of their seconds; the others are not in the table."""
    longest_first(items)
