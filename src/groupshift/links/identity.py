"""Whether the target of a link really has every record at its source offset.

Source: docs/reference/cross-cluster-offsets.md §8, method 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.links.fingerprints import FingerprintRule, fingerprint
from groupshift.ports.records import PartitionReader

SAMPLE = 16
"""Records that are compared at each of the three positions."""
Sample = list[tuple[int, bytes]]
"""Offset and fingerprint of each record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityProof:
    """Whether offsets are the same on both sides, for topics with these ids; ``reason`` is a clause. A proof
    holds for these two topics only: see `holds_for`."""

    is_proven: bool
    reason: str
    source_topic_id: str
    target_topic_id: str
    positions: tuple[int, ...] = ()

    def holds_for(self, source_topic_id: str, target_topic_id: str) -> bool:
        """True if it is proven, and neither topic was made anew since."""
        same = (source_topic_id, target_topic_id) == (self.source_topic_id, self.target_topic_id)
        return self.is_proven and same


def _repeats(content: list[bytes]) -> bool:
    """True if records are equal to those one or more places further on."""
    return any(content[shift:] == content[:-shift] for shift in range(1, len(content) // 2 + 1))


def prove_identity(
    source: PartitionReader,
    target: PartitionReader,
    rule: FingerprintRule,
    *,
    source_topic_id: str,
    target_topic_id: str,
) -> IdentityProof:
    """Compare 16 records at three positions, log starts and log ends of both sides.

    The first, middle and last records that both sides hold must have the same offsets and fingerprints on
    both, and the target may hold nothing that the source has not. Open the target's reader first.
    """
    start, end = max(source.start, target.start), min(source.end, target.end)
    positions = (start, start + (end - start) // 2, end)

    def proof(reason: str, *, is_proven: bool = False) -> IdentityProof:
        return IdentityProof(
            is_proven=is_proven,
            reason=reason,
            source_topic_id=source_topic_id,
            target_topic_id=target_topic_id,
            positions=positions,
        )

    if target.end > source.end:
        return proof(f"the target ends at {target.end}, behind the source, which ends at {source.end}")
    if start >= end:
        both_empty = (source.start, source.end) == (target.start, target.end)
        return proof("the two logs have no offset in common", is_proven=both_empty)
    samples = [
        (_sample(source, rule, position, start, end), _sample(target, rule, position, start, end))
        for position in positions
    ]
    problem = _problem(samples)
    if problem:
        return proof(problem)
    compared = sum(len(sample) for sample, _ in samples)
    return proof(f"{compared} records are the same at their offsets", is_proven=True)


def _problem(samples: list[tuple[Sample, Sample]]) -> str:
    """Why the samples of both sides do not prove that offsets are the same; empty: they do."""
    for ours, theirs in samples:
        if ours != theirs:
            offset = (ours or theirs)[0][0]
            return f"the records from {offset} on are not the same on both sides"
    compared = [ours for ours, _ in samples if ours]
    if not compared:
        return "there is no record to compare"
    if all(_repeats([digest for _, digest in sample]) for sample in compared):
        return "the records repeat, so equal records prove nothing"
    return ""


def _sample(side: PartitionReader, rule: FingerprintRule, position: int, start: int, end: int) -> Sample:
    """Offset and fingerprint of 16 records from a position on, or before it if the logs end there."""
    records = side.before(position, SAMPLE) if position == end else side.read(position, SAMPLE)
    return [(record.offset, fingerprint(record, rule)) for record in records if start <= record.offset < end]
