"""Every policy on every line of releases that has one: predicted, and given by a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.domain.protocol.answers import Outcome
from groupshift.domain.protocol.broker import POLICY, Policy
from groupshift.sandbox.home import Home
from groupshift.sandbox.kraft import CONSUMER_PROTOCOL, KraftOptions, start_kraft
from groupshift.sandbox.processes import marked, stop
from protocol_story import story

LIVE = "native, live classic"
ADMITTED = "classic, live consumer"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("release", ["3.9.2", "4.0.2", "4.1.2", "4.3.1", "4.4.0"])
def test_the_coordinator_answers_as_predicted(release: str, policy: Policy, tmp_path: Path) -> None:
    """All events of the story; and the two cells in which releases differ by name (KAFKA-18134, 20640)."""
    home = Home(tmp_path / "home").create()
    enabled = CONSUMER_PROTOCOL if release.startswith("3.") else {}
    options = KraftOptions(release=release, heap="320m", properties={**enabled, POLICY: policy.value})
    try:
        with story(start_kraft(home, options).bootstrap) as told:
            given = {each.name: each for each in told.events()}
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)
    for each in given.values():
        each.check()
    assert len(given) >= 10
    assert (given[LIVE].code == 0) is policy.upgrades
    refused = policy is Policy.DISABLED and release in {"4.3.1", "4.4.0"}
    assert given[ADMITTED].code == (23 if refused else 0)
    if policy.upgrades:
        data = given["native, assignor with data"].predicted.outcome
        assert data is (Outcome.CONVERTS if release == "3.9.2" else Outcome.REFUSED)
