"""For all tests: a property is not false because a machine is slow; a helper's assertion shows its values;
what takes longest begins first; a process has one Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.register_assert_rewrite(
    *(f"support.{file.stem}" for file in Path(__file__).parent.glob("support/*.py"))
)

from support.longest_first import OneFileAhead, longest_first  # noqa: E402 - it is one of them

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files on real servers begin in the order of their seconds; the others are not in the table."""
    longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneFileAhead | None:
    """With ``--dist loadfile`` a worker gets its next file when its last test is to begin."""
    return OneFileAhead(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One headless Chromium: Playwright starts only once in a process."""
    from support.chromium import launched

    with launched() as opened:
        yield opened
