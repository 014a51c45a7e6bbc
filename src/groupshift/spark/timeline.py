"""Owners over time as inline SVG: one lane a partition, one bar a tenure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupshift.spark.account.axis import labels_above
from groupshift.spark.html import Markup, duration, moment_utc, tag

Rows = Sequence[Mapping[str, Any]]

_LEFT, _WIDTH, _TOP, _BOTTOM = 96, 1000, 26, 22
_SHORTEST_GAP_MS = 1
_MOST_LANES = 120
_MOST_CHARACTERS = 13
"""What fits left of the lanes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Times to pixels: ``from_ms`` is at the left edge of the lanes, ``to_ms`` at the right one."""

    from_ms: int
    to_ms: int

    def x(self, at_ms: int) -> float:
        """The pixel of a time, clipped to the lanes."""
        span = max(1, self.to_ms - self.from_ms)
        share = (min(max(at_ms, self.from_ms), self.to_ms) - self.from_ms) / span
        return round(_LEFT + share * (_WIDTH - _LEFT), 1)


def owners_over_time(
    tenures: Rows, modes: Sequence[tuple[int, str]], scale: Scale, colours: Mapping[str, str]
) -> Markup:
    """`tenures` are rows of the view ``hand_overs``; `modes` are (time, text) of writes of the mode node.

    Time without owner is marked red, pale next to a plain consumer (there it is the time between
    deliveries); hovering a bar tells who, when, and how many records.
    """
    lanes = sorted({(row["topic"], row["partition"]) for row in tenures})[:_MOST_LANES]
    height = max(8, min(24, 480 // max(1, len(lanes))))
    bottom = _TOP + len(lanes) * (height + 3)
    parts: list[Markup] = []
    for line, lane in enumerate(lanes):
        top = _TOP + line * (height + 3)
        if height >= 12 or line % 5 == 0:  # noqa: PLR2004 - the least height of a readable label
            name = f"{lane[0]}-{lane[1]}"
            short = name if len(name) <= _MOST_CHARACTERS else f"…{name[1 - _MOST_CHARACTERS :]}"
            title = tag("title", name)
            parts.append(tag("text", short, title, x=0, y=top + height * 0.7, class_="soft"))
        for row in tenures:
            if (row["topic"], row["partition"]) == lane:
                parts.extend(_bar(row, top, height, scale, colours))
    parts.extend(_mode_marks(modes, bottom, scale))
    parts.extend(_axis(bottom, scale))
    total = bottom + _BOTTOM
    return tag(
        "svg",
        tag("title", "Owners over time"),
        *parts,
        viewBox=f"0 0 {_WIDTH} {total}",
        width=_WIDTH,
        height=total,
        role="img",
    )


def _bar(
    row: Mapping[str, Any], top: float, height: float, scale: Scale, colours: Mapping[str, str]
) -> list[Markup]:
    left, right = scale.x(row["start_ms"]), scale.x(row["end_ms"])
    until = moment_utc(row["end_ms"]) if row["end_ms"] <= scale.to_ms else "the end"
    label = (
        f"{row['topic']}-{row['partition']}: {row['member']} ({row['kind']}) from "
        f"{moment_utc(row['start_ms'])} to {until}, {row['records']} records; known by {row['known_by']}"
    )
    size = {"y": round(top, 1), "height": round(height, 1)}
    bar = tag(
        "rect",
        tag("title", label),
        x=left,
        width=max(0.8, round(right - left, 1)),
        fill=colours.get(row["member"], "#888"),
        rx=2,
        **size,
    )
    gap = row["unowned_ms"]
    if gap is None or gap < _SHORTEST_GAP_MS or row["released_ms"] < scale.from_ms:
        return [bar]
    begin = scale.x(row["released_ms"])
    note = f"{row['topic']}-{row['partition']} had no owner for {duration(gap)}"
    width = max(1.2, round(left - begin, 1))
    sort = "silent" if "plain" in {row["kind"], row["giver_kind"]} else "unowned"
    return [bar, tag("rect", tag("title", note), x=begin, width=width, class_=sort, **size)]


def _mode_marks(modes: Sequence[tuple[int, str]], bottom: float, scale: Scale) -> list[Markup]:
    marks: list[Markup] = []
    shown = sorted((at_ms, text) for at_ms, text in modes if scale.from_ms <= at_ms <= scale.to_ms)
    texts = [(scale.x(at_ms), f"mode: {text}") for at_ms, text in shown]
    for at_ms, _ in shown:
        x = scale.x(at_ms)
        marks.append(tag("line", x1=x, x2=x, y1=_TOP - 8, y2=bottom, class_="mode"))
    return [*marks, *labels_above(texts, _LEFT, _TOP - 12)]


def _axis(bottom: float, scale: Scale) -> list[Markup]:
    ticks = 5
    parts = [tag("line", x1=_LEFT, x2=_WIDTH, y1=bottom, y2=bottom, class_="grid")]
    for index in range(ticks + 1):
        at_ms = scale.from_ms + (scale.to_ms - scale.from_ms) * index // ticks
        anchor = "start" if index == 0 else "end" if index == ticks else "middle"
        seconds = f"+{(at_ms - scale.from_ms) / 1000:.1f} s"
        text = moment_utc(at_ms)[11:19] + " UTC" if index == 0 else seconds
        parts.append(tag("text", text, x=scale.x(at_ms), y=bottom + 15, text_anchor=anchor, class_="soft"))
    return parts
