"""What is refused before any broker is asked, and what is told of single offsets."""

from __future__ import annotations

from groupshift.domain.cluster_rows import OffsetRow


def test_f03_an_offset_of_a_former_topic_reaches_no_broker() -> None:
    """Whoever wants it committed is told, of this offset alone; there is no cluster to ask."""
    from groupshift.adapters.kafka.raw.offset_restoring import commit_rows
    from groupshift.ports.offset_restoring import refusal_of

    former = OffsetRow(group="g", topic="t", partition=1, offset=5, topic_id="former")
    sound = OffsetRow(group="g", topic="t", partition=0, offset=5)
    refused = commit_rows(None, [former])  # type: ignore[arg-type]
    assert refused == {
        "g": "the offset of t-1 is not committed: it belongs to a former topic of that name, and is not "
        "committed to the topic of today"
    }
    assert (refusal_of(refused, former), refusal_of(refused, sound)) == (refused["g"], "")


def test_f09_a_refusal_names_the_offsets_that_were_refused() -> None:
    """Healthy ones of the same group are none; where only the group is told, it is about all of them."""
    from groupshift.ports.offset_restoring import Refusals, refusal_of

    rows = [OffsetRow(group="g", topic="t", partition=number, offset=5) for number in range(3)]
    refused = Refusals()
    refused.add(rows[1], "UNKNOWN_TOPIC_OR_PARTITION (3)")
    assert [bool(refusal_of(refused, row)) for row in rows] == [False, True, False]
    assert [bool(refusal_of({"g": "no"}, row)) for row in rows] == [True] * 3
