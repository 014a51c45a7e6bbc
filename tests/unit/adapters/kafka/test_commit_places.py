"""The request for offsets by topic id, which is written by hand, against kio's."""

from __future__ import annotations

import io
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from groupshift.adapters.kafka.commit_places import BY_ID, fetch_by_id
from groupshift.adapters.kafka.wire import Api, fill, request_schema
from groupshift.domain.partitions import grouped
from groupshift.domain.rows import OffsetRow

TOPICS = {"orders": UUID(int=7), "grüße": UUID(int=2**127 + 5), "t" * 200: UUID(int=2**64)}
ROWS = st.lists(
    st.tuples(st.sampled_from(list(TOPICS)), st.integers(0, 2**31 - 1)), unique=True, min_size=1, max_size=200
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), ROWS, max_size=150))
def test_it_is_written_as_kio_would(groups: dict[str, list[tuple[str, int]]]) -> None:
    """Byte by byte, also with names and arrays whose counts take two bytes."""
    rows = {
        group: [OffsetRow(group=group, topic=topic, partition=number, offset=0) for topic, number in places]
        for group, places in groups.items()
    }
    entries = [
        {
            "group_id": group,
            "topics": [
                {"topic_id": TOPICS[topic], "partition_indexes": numbers}
                for topic, numbers in grouped(places).items()
            ],
        }
        for group, places in groups.items()
    ]
    request = fill(request_schema(Api.OFFSET_FETCH, BY_ID), groups=entries, require_stable=True)
    out = io.BytesIO()
    entity_writer(type(request))(out, request)
    assert fetch_by_id(rows, {name: each.bytes for name, each in TOPICS.items()}) == out.getvalue()
