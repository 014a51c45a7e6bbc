"""How long a member may deliver."""

from __future__ import annotations

from groupshift.domain.modes import Mode
from groupshift.domain.reconcile import Lease


def test_nothing_may_be_delivered_before_the_first_proof() -> None:
    """A fresh lease does not hold."""
    assert not Lease().holds(0.0)


def test_a_proof_counts_from_the_moment_it_was_asked_for() -> None:
    """And no longer than a session."""
    lease = Lease().prove_zookeeper(10.0, 6.0)
    assert lease.holds(15.9)
    assert not lease.holds(16.0)


def test_silence_stops_at_once_and_only_a_new_proof_resumes() -> None:
    """Whatever was proven before."""
    lease = Lease().prove_zookeeper(10.0, 6.0).suspend()
    assert not lease.holds(10.1)
    assert lease.prove_zookeeper(11.0, 6.0).holds(16.9)


def test_an_older_proof_never_shortens_the_lease() -> None:
    """Answers may arrive out of order."""
    lease = Lease().prove_zookeeper(10.0, 6.0).prove_zookeeper(8.0, 6.0)
    assert lease.holds(15.0)


def test_kafka_counts_in_kafka_mode_only() -> None:
    """Membership that was lost stops delivery there, and nowhere else."""
    lease = Lease().prove_zookeeper(10.0, 60.0).prove_kafka(10.0, 10.0)
    assert lease.follow(Mode.KAFKA).holds(19.0)
    assert not lease.follow(Mode.KAFKA).holds(20.0)
    assert not lease.follow(Mode.KAFKA).lose_kafka(10.5).holds(11.0)
    assert lease.lose_kafka(10.5).holds(11.0)


def test_what_was_asked_before_the_membership_was_lost_proves_nothing() -> None:
    """Its answer may be noted later."""
    lease = Lease().prove_zookeeper(10.0, 60.0).follow(Mode.KAFKA).lose_kafka(11.0)
    assert not lease.prove_kafka(10.9, 10.0).holds(11.5)
    assert lease.prove_kafka(11.1, 10.0).holds(11.5)
