"""How replicators that are known write the source offset, and what else they add to a record."""

from __future__ import annotations

import pytest

from groupshift.links.link import Link
from groupshift.links.partition_translation import TranslationRules
from groupshift.links.position_search import HeaderEncoding, OffsetHeader
from groupshift.ports.records import LogRecordView, TimestampType

CREATE = TimestampType.CREATE_TIME


def record(*headers: tuple[str, bytes | None]) -> LogRecordView:
    """A record with these headers."""
    return LogRecordView(offset=0, timestamp_ms=0, value=b"v", headers=headers)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("redpanda-migrator-offset", b"\0\0\0\0\0\0\1\2"),
        ("x-original-offset", b"\2\1\0\0\0\0\0\0"),
        ("our-offset", b"258"),
    ],
)
def test_a_header_of_a_known_replicator_is_read_as_it_writes_it(name: str, value: bytes) -> None:
    """Big-endian by Redpanda's migrator, little-endian by kafka-backup, digits by others."""
    header = OffsetHeader.of(name)
    assert header.source_offset(record((name, value))) == 258
    assert header.source_offset(record((name, b"\xff" * 8))) is None
    assert header.source_offset(record((name, b"\1"))) is None
    assert header.source_offset(record(("another", value))) is None


def test_what_a_replicator_adds_is_no_part_of_the_content() -> None:
    """Else no copy would have the content of its original."""
    link = Link(
        name="dr",
        kind="header",
        source_alias="a",
        target_alias="b",
        provenance_header="redpanda-migrator-offset",
    )
    rules = TranslationRules.of_link(link, "orders", source_timestamps=CREATE, target_timestamps=CREATE)
    assert rules.offset_header == OffsetHeader(name="redpanda-migrator-offset", encoding=HeaderEncoding.INT64)
    assert rules.fingerprint is not None
    assert rules.fingerprint.provenance_headers == {
        "redpanda-migrator-offset",
        "redpanda-migrator-provenance",
    }
    assert OffsetHeader.of("our-offset").added == {"our-offset"}
