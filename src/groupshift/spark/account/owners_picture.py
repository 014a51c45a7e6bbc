"""Who owned which partition when: one lane a partition, one colour a member, no more than pixels can show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from groupshift.domain.ownership_history import Tenure, hand_overs
from groupshift.domain.partitions import TopicPartition
from groupshift.spark.account.axis import Axis, lane_label, mode_marks, picture, ticks
from groupshift.spark.html import Markup, duration, moment_utc, tag

_TOP = 22
_MOST_LANES = 240
_MOST_TITLES = 1500
"""Up to so many bars each tells who, when and how long; beyond, bars of a member are one path."""
_LEAST_LABEL_PX = 12
_PIXEL, _SEEN = 1.0, 3.0
"""The least width of a bar among many, and where there is room for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    """A tenure (or a time without owner: ``member`` empty) in pixels."""

    left: float
    right: float
    member: str
    tenure: Tenure


def owners_picture(
    tenures: Sequence[Tenure], modes: Iterable[tuple[int, str]], axis: Axis, colours: Mapping[str, str]
) -> Markup:
    """The picture; partitions that changed hands most where there are more than fit."""
    counts = hand_overs(tenures)
    lanes = sorted(sorted(counts, key=lambda at: (-counts[at], at))[:_MOST_LANES])
    height = max(4.0, min(22.0, 660 / max(1, len(lanes))))
    gap = 3 if height >= _LEAST_LABEL_PX else 1
    bottom = _TOP + len(lanes) * (height + gap)
    of = {at: list(group) for at, group in groupby(_sorted(tenures), key=lambda each: each.partition)}
    least = _SEEN if len(tenures) <= _MOST_TITLES else _PIXEL
    drawn = [(line, _bars(of[lane], axis, least)) for line, lane in enumerate(lanes)]
    tops = {line: round(_TOP + line * (height + gap), 1) for line in range(len(lanes))}
    single = sum(len(bars) for _, bars in drawn) <= _MOST_TITLES
    parts = [ticks(axis, _TOP, bottom), *_labels(lanes, tops, height)]
    parts += _singly(drawn, tops, height, colours) if single else _together(drawn, tops, height, colours)
    parts.append(mode_marks(axis, modes, bottom))
    said = (
        f"{len(counts)} partitions and {len(colours)} members; {sum(counts.values())} hand-overs. "
        "The table below says the same in figures."
    )
    return picture("owners", "Owners over time", said, bottom + 24, *parts)


def left_out(tenures: Sequence[Tenure]) -> int:
    """How many partitions have no lane."""
    return max(0, len({each.partition for each in tenures}) - _MOST_LANES)


def _sorted(tenures: Iterable[Tenure]) -> list[Tenure]:
    return sorted(tenures, key=lambda each: (each.partition, each.start_ms))


def _bars(tenures: Sequence[Tenure], axis: Axis, least: float) -> list[_Bar]:
    """Bars of one lane, left to right, at least `least` wide where the next one leaves room for it; one that
    lies within a pixel that is taken is left out."""
    bars: list[_Bar] = []
    free = float("-inf")
    ends = [tenure.start_ms for tenure in tenures[1:]] + [axis.to_ms]
    for tenure, end_ms in zip(tenures, ends, strict=True):
        right = axis.x(tenure.end_ms)
        if right < free:
            continue
        left = axis.x(tenure.start_ms)
        if tenure.unowned_ms:
            since = max(axis.x(tenure.start_ms - tenure.unowned_ms), free)
            if left - since >= _PIXEL:
                bars.append(_Bar(left=since, right=left, member="", tenure=tenure))
        begin = max(left, free)
        if max(right, left + _PIXEL) - begin >= _PIXEL:
            room = max(begin + _PIXEL, min(begin + least, axis.x(end_ms)))
            bars.append(_Bar(left=begin, right=max(right, room), member=tenure.member, tenure=tenure))
            free = bars[-1].right
    return bars


def _labels(lanes: Sequence[TopicPartition], tops: Mapping[int, float], height: float) -> Iterator[Markup]:
    every = 1 if height >= _LEAST_LABEL_PX else -(-14 // round(height + 1))
    for line, lane in enumerate(lanes):
        if line % every == 0:
            yield lane_label(str(lane), round(tops[line] + height / 2 + 4, 1), "soft")


def _singly(
    drawn: Sequence[tuple[int, list[_Bar]]],
    tops: Mapping[int, float],
    height: float,
    colours: Mapping[str, str],
) -> Iterator[Markup]:
    for line, bars in drawn:
        for bar in bars:
            size = {"x": round(bar.left, 1), "width": round(bar.right - bar.left, 1), "y": tops[line]}
            look = {"fill": colours.get(bar.member, "#888"), "rx": 2} if bar.member else {"class_": "unowned"}
            yield tag("rect", tag("title", _told(bar)), height=round(height, 1), **size, **look)


def _told(bar: _Bar) -> str:
    each = bar.tenure
    if not bar.member:
        return f"{each.partition} had no owner for {duration(each.unowned_ms)}"
    records = "" if each.records is None else f", {each.records} records"
    span = f"{moment_utc(each.start_ms)} to {moment_utc(each.end_ms)}"
    return f"{each.partition}: {each.member}, {span} ({duration(each.end_ms - each.start_ms)}{records})"


def _together(
    drawn: Sequence[tuple[int, list[_Bar]]],
    tops: Mapping[int, float],
    height: float,
    colours: Mapping[str, str],
) -> Iterator[Markup]:
    """One path a member: a dozen bytes a bar."""
    of: dict[str, list[str]] = {}
    tall = round(height, 1)
    for line, bars in drawn:
        for bar in bars:
            width = round(bar.right - bar.left, 1)
            move = f"M{bar.left:g} {tops[line]:g}h{width:g}v{tall:g}h-{width:g}z"
            of.setdefault(bar.member, []).append(move)
    for member, moves in sorted(of.items()):
        look = {"fill": colours.get(member, "#888")} if member else {"class_": "unowned"}
        yield tag("path", tag("title", member or "no owner"), d="".join(moves), **look)
