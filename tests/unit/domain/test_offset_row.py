"""An offset with the id of its topic."""

from __future__ import annotations

from dataclasses import asdict, replace

from groupshift.domain.rows import OffsetRow


def test_the_id_of_its_topic_changes_nothing_else() -> None:
    """Field by field: two rows are equal whatever their ids are."""
    row = OffsetRow(group="g", topic="t", partition=3, offset=7, leader_epoch=2, metadata="m", topic_id="old")
    assert asdict(row.of_topic("new")) == asdict(replace(row, topic_id="new"))
    assert row.topic_id == "old"
