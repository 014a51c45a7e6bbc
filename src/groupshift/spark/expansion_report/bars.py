"""Bars by partition, one row above the other, on one scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groupshift.spark.account.axis import picture
from groupshift.spark.html import Markup, tag

_LEFT, _WIDTH, _HEIGHT, _FOOT = 64, 1000, 110, 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """``values`` by number of the partition."""

    name: str
    values: Sequence[int]
    shade: str


def bars(measure: str, rows: Sequence[Row]) -> Markup:
    """One bar a partition; ``measure`` is what the values count."""
    top = max((value for row in rows for value in row.values), default=0) or 1
    widest = max(len(row.values) for row in rows)
    parts: list[object] = []
    for line, row in enumerate(rows):
        floor = (line + 1) * (_HEIGHT + _FOOT) - _FOOT
        parts += [
            tag("text", f"{top:,}", x=0, y=floor - _HEIGHT + 14),
            tag("text", row.name, x=0, y=floor),
            *(_bar(measure, row, number, top, (widest, floor)) for number in range(len(row.values))),
            *_numbers(len(row.values), widest, floor),
        ]
    name = f"load-{measure.replace(' ', '-')}"
    said = "; ".join(_spoken(row) for row in rows)
    return picture(name, f"{measure} by partition", said, len(rows) * (_HEIGHT + _FOOT), *parts)


def _spoken(row: Row) -> str:
    return f"{row.name}: {sum(row.values):,} in {len(row.values)} partitions, at most {max(row.values):,}"


def _bar(measure: str, row: Row, number: int, top: int, place: tuple[int, int]) -> Markup:
    widest, floor = place
    width = (_WIDTH - _LEFT) / widest
    height = round(row.values[number] / top * (_HEIGHT - 4), 1)
    title = tag("title", f"partition {number} {row.name}: {row.values[number]:,} {measure}")
    shape = {
        "x": round(_LEFT + number * width, 2),
        "y": floor - height,
        "width": round(max(0.4, width * 0.85), 2),
        "height": height,
    }
    return tag("rect", title, fill=row.shade, **shape)


def _numbers(count: int, widest: int, floor: int) -> Iterator[Markup]:
    """The first and the last partition."""
    width = (_WIDTH - _LEFT) / widest
    for number, anchor in {0: "start", count - 1: "end"}.items():
        x = _LEFT + (number + (anchor == "end")) * width
        yield tag("text", number, x=round(x, 1), y=floor + 16, text_anchor=anchor, class_="hint")
