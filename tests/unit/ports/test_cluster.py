"""What the tool's identities lack becomes a finding that names user, operation and server."""

from __future__ import annotations

from groupshift.domain.verdict import Verdict
from groupshift.ports.cluster import Identity, Server, findings


def test_an_identity_that_lacks_nothing_passes():
    """One finding of each server, ZooKeeper first as I01."""
    found = findings([Identity(server=each, who="user 'operator'") for each in Server])
    assert [(each.rule, each.verdict) for each in found] == [("I01", Verdict.PASS), ("I02", Verdict.PASS)]
    assert found[0].reason == "user 'operator' may do at ZooKeeper what the move needs"
    assert found[0].hint == ""


def test_what_is_missing_fails_and_says_where_to_look():
    """All of it in one sentence."""
    lacking = Identity(server=Server.KAFKA, who="user 'x'", missing=("Describe group g", "Describe topic t"))
    (found,) = findings([lacking])
    assert found.verdict is Verdict.FAIL
    assert found.reason == "user 'x' may not Describe group g, Describe topic t at Kafka"
    assert "docs/safety/rights.md" in found.hint
