"""The replay lint against the coordinators of every release that runs here: each loads the log it judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.log.releases import Coordinator
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import CONSUMER_PROTOCOL
from support.replayed_log import replay

OLD, NEW = Coordinator.OLD, Coordinator.NEW


@pytest.mark.parametrize(
    ("release", "coordinator", "rules"),
    [
        ("3.4.0", OLD, {"L0", "O1", "O2"}),
        ("3.4.1", OLD, {"L0", "O4"}),
        ("3.9.2", OLD, {"L0", "O4"}),
        ("3.7.2", NEW, {"L0", "N1", "N3", "N5", "N6", "N8", "X1"}),
        ("3.9.2", NEW, {"L0", "N1", "N2", "N3", "N4", "N5", "N6", "N8", "X1"}),
        ("4.0.2", NEW, {"L0", "N1", "N2", "N3", "N4", "N6", "N8", "X1"}),
        ("4.1.2", NEW, {"L0", "N1", "N2", "N3", "N4", "N6", "N8", "X1"}),
        ("4.3.1", NEW, {"L0", "N1", "N2", "N3", "N4", "N6", "N8", "X1"}),
    ],
)
@pytest.mark.timeout(900)
def test_the_lint_agrees_with_the_coordinator(
    tmp_path: Path, release: str, coordinator: Coordinator, rules: set[str]
) -> None:
    """What loads, what is lost and which shards fail, for every order of records in `replayed_log`."""
    wanted = CONSUMER_PROTOCOL if coordinator is NEW and release.startswith("3.") else {}
    found = replay(Home(tmp_path / "h").create(), release, coordinator, wanted)
    assert {story: one for story, one in found.items() if not one.agrees} == {}
    assert {one.verdict.rule for one in found.values()} == rules
