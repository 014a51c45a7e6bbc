"""Owners over time in the page of an audit of consumption."""

from __future__ import annotations

from typing import Any

from groupshift.report.pictures import lanes
from groupshift.report.svg_and_time_axis import axis_of, palette
from groupshift.spark.consumption_report import _partition_lanes


def tenure(member: str, start: int, end: int, gap: int | None, kind: str = "aware") -> dict[str, Any]:
    """One row of the view ``hand_overs``."""
    return {
        "topic": "orders", "partition": 0, "member": member, "kind": kind, "giver_kind": kind,
        "known_by": "owner node",
        "start_ms": start, "end_ms": end, "records": 1, "unowned_ms": gap, "released_ms": start - (gap or 0),
    }  # fmt: skip


def test_time_without_owner_is_marked() -> None:
    """A gap between owners is red, one next to a plain consumer pale, a seamless hand-over has no mark."""
    axis, colours = axis_of([0, 1000]), palette(["a", "b", "p"])
    rows = [
        tenure("a", 0, 300, None),
        tenure("b", 350, 600, 50),
        tenure("a", 600, 700, 0),
        tenure("p", 900, 990, 200, "plain"),
    ]
    shown = _partition_lanes(rows, axis, colours)
    svg = lanes("Owners", "said", shown, axis, name="o", modes=[(500, "kafka")])
    assert (svg.count('class="unowned"'), svg.count('class="silent"')) == (1, 1)
    assert "orders-0 had no owner for 50 ms" in svg
    assert "mode kafka" in svg


def test_who_delivers_while_another_owns_is_drawn_over_the_owner() -> None:
    """An overlap is what an audit is there to show, however short it is."""
    axis, colours = axis_of([0, 100_000]), palette(["a", "p"])
    rows = [tenure("a", 0, 90_000, None), tenure("p", 5_000, 5_001, None, "plain")]
    svg = lanes("Owners", "said", _partition_lanes(rows, axis, colours), axis, name="o")
    assert svg.index(f'fill="{colours["a"]}"') < svg.index(f'fill="{colours["p"]}"')
