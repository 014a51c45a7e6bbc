"""For all tests: a property is not false because a machine is slow; a helper's assertion shows its values."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite(
    *(f"support.{file.stem}" for file in Path(__file__).parent.glob("support/*.py"))
)

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
