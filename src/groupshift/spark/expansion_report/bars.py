"""Bars by partition, one row above the other, on one scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groupshift.spark.account.axis import picture
from groupshift.spark.html import Markup, tag

_LEFT, _WIDTH, _HEIGHT, _HEAD, _FOOT = 64, 1000, 106, 20, 26
_NARROW = 180
"""Where the labels of the first and the last partition would lie over each other."""

_ROW = _HEAD + _HEIGHT + _FOOT


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
        floor = line * _ROW + _HEAD + _HEIGHT
        parts += [
            tag("text", f"0 to {top:,} {measure}", x=_LEFT, y=floor - _HEIGHT - 6, class_="hint"),
            tag("line", x1=_LEFT, x2=_WIDTH, y1=floor, y2=floor, class_="grid"),
            tag("text", row.name, x=0, y=floor),
            *(_bar(measure, row, number, top, (widest, floor)) for number in range(len(row.values))),
            *_numbers(len(row.values), widest, floor),
        ]
    name = f"load-{measure.replace(' ', '-')}"
    said = "; ".join(_spoken(row) for row in rows)
    return picture(name, f"{measure} by partition", said, len(rows) * _ROW, *parts)


def _spoken(row: Row) -> str:
    return f"{row.name}: {sum(row.values):,} in {len(row.values)} partitions, at most {max(row.values):,}"


def _bar(measure: str, row: Row, number: int, top: int, place: tuple[int, int]) -> Markup:
    widest, floor = place
    width = (_WIDTH - _LEFT) / widest
    height = round(row.values[number] / top * _HEIGHT, 1)
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
    if count * width < _NARROW:
        text = f"partitions 0 to {count - 1}" if count > 1 else "partition 0"
        yield tag("text", text, x=_LEFT, y=floor + 16, class_="hint")
        return
    for number, anchor in {0: "start", count - 1: "end"}.items():
        x = _LEFT + (number + (anchor == "end")) * width
        yield tag(
            "text", f"partition {number}", x=round(x, 1), y=floor + 16, text_anchor=anchor, class_="hint"
        )
