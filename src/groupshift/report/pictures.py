"""The pictures of reports: lanes over time, a curve over time, and cells and bars by partition.

Each is an SVG with a title and a sentence for those who cannot see it, and needs no script. Colours are in
``report.css``, so that a picture is read in light, in dark and on paper
(docs/adr/0014-pictures-of-a-report.md). Labels keep apart from each other (U18)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from math import ceil

from markupsafe import Markup

from groupshift.domain.ownership_history import Lag, OwnershipInterval, hand_overs
from groupshift.report.page import clock, duration, moment_utc
from groupshift.report.svg_and_time_axis import (
    LEFT,
    WIDTH,
    Axis,
    dots,
    element,
    label,
    lane_label,
    line,
    mode_marks,
    picture,
    ticks,
)

Modes = Iterable[tuple[int, str]]
"""Writes of the mode node: epoch ms and text."""
_TOP, _FOOT = 22, 24
"""Pixels above the first lane and below the last one."""
_LANE, _LEAST_LANE, _LANES_PX = 30.0, 5.0, 750.0
"""Pixels of a lane: usually, at least, and of all lanes together at most."""
_LEAST_LABEL_PX = 15
_PIXEL = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What lasted from and to then (epoch ms).

    It is drawn in a colour (``fill``, as CSS has it) or with a class of ``report.css`` (``look``); ``title``
    is shown when somebody points at it, and tells what it is."""

    from_ms: int
    to_ms: int
    title: str
    fill: str = ""
    look: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A ``sign`` in a circle, at a time (epoch ms), such as a verdict or the number of an answer.

    ``title`` tells what it is; ``look`` is a class of ``report.css``."""

    at_ms: int
    sign: str
    title: str
    look: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One line of a picture, named on its left.

    ``bars`` come one after the other, in order: those that have no pixel are left out. Those of ``over`` may
    overlap, and each is drawn; dots lie over all."""

    name: str
    bars: Sequence[Bar] = ()
    over: Sequence[Bar] = ()
    dots: Sequence[Dot] = ()


def lanes(
    title: str, said: str, shown: Sequence[Lane], axis: Axis, *, name: str, modes: Modes = ()
) -> Markup:
    """Return one lane above the other on one time axis.

    ``said`` tells the picture in a sentence, ``name`` tells it from other pictures of the page. Lanes are
    narrower where there are many, and then only some have a label. Bars that look the same and have the same
    title are one path: a dozen bytes a bar."""
    pitch = _LANE
    if not any(lane.dots for lane in shown):
        pitch = max(_LEAST_LANE, min(_LANE, _LANES_PX / max(1, len(shown))))
    height = round(pitch * 0.7 if pitch > _LEAST_LABEL_PX else pitch - 1, 1)
    every = 1 if pitch >= _LEAST_LABEL_PX else ceil(_LEAST_LABEL_PX / pitch)
    bottom = round(_TOP + len(shown) * pitch, 1)
    parts: list[Markup] = [*ticks(axis, _TOP, bottom)]
    alike: dict[tuple[str, str, str], list[tuple[float, float, float]]] = {}
    signs: list[Markup] = []
    for number, lane in enumerate(shown):
        top = round(_TOP + number * pitch + (pitch - height) / 2, 1)
        middle = top + height / 2
        if number % every == 0:
            parts.append(lane_label(lane.name, middle + 4))
        over = ((bar, axis.x(bar.from_ms), axis.x(bar.to_ms)) for bar in lane.over)
        drawn = chain(_in_turn(lane.bars, axis), ((bar, x, max(until, x + 2)) for bar, x, until in over))
        for bar, left, right in drawn:
            alike.setdefault((bar.fill, bar.look, bar.title), []).append((left, right - left, top))
        for each, x in zip(lane.dots, dots([axis.x(each.at_ms) for each in lane.dots]), strict=True):
            meaning = element("title", each.title)
            signs.append(element("circle", meaning, cx=x, cy=middle, r=8, class_=each.look))
            signs.append(label(each.sign, x, middle + 4, "on", "middle"))
    for (fill, look, titled), boxes in alike.items():
        paint = {"class_": look} if look else {"fill": fill}
        path = "".join(
            f"M{left:.6g} {top:g}h{round(width, 1):g}v{height:g}h-{round(width, 1):g}z"
            for left, width, top in boxes
        )
        parts.append(element("path", element("title", titled), d=path, **paint))
    parts += [*mode_marks(axis, modes, bottom), *signs]
    return picture(name, title, said, bottom + _FOOT, *parts)


def _in_turn(bars: Sequence[Bar], axis: Axis) -> Iterator[tuple[Bar, float, float]]:
    """Bars with their left and right pixels: each is at least three pixels wide where the next one leaves
    room for it, and one that lies within a pixel that is taken is left out."""
    free = float("-inf")
    ends = [bar.from_ms for bar in bars[1:]] + [axis.to_ms]
    for bar, next_ms in zip(bars, ends, strict=False):
        begin, right = max(axis.x(bar.from_ms), free), axis.x(bar.to_ms)
        if right < free or max(right, axis.x(bar.from_ms) + _PIXEL) - begin < _PIXEL:
            continue
        room = max(begin + _PIXEL, min(begin + 3 * _PIXEL, axis.x(next_ms)))
        free = max(right, room)
        yield bar, begin, free


MOST_OWNER_LANES = 240
_MOST_TITLES = 1500
"""Up to so many bars each tells who, when and how long; beyond, bars of a member are one path."""


def owners(
    intervals: Sequence[OwnershipInterval], modes: Modes, axis: Axis, colours: Mapping[str, str]
) -> Markup:
    """Return who owned each partition when: one lane a partition, one colour a member, and red for the time
    without an owner before an interval.

    Where there are more partitions than fit, those that changed hands most are shown. Among many bars the
    title of each is only the member's id, and a time without owner that has no pixel is left out."""
    counts = hand_overs(intervals)
    most = sorted(counts, key=lambda at: (-counts[at], at))[:MOST_OWNER_LANES]
    of: dict[object, list[Bar]] = {at: [] for at in sorted(most)}
    in_full = len(intervals) <= _MOST_TITLES
    for each in sorted(intervals, key=lambda interval: (interval.partition, interval.start_ms)):
        if each.partition not in of:
            continue
        gap, own, none = each.unowned_ms or 0, each.member, "no owner"
        if in_full:
            begin, end = moment_utc(each.start_ms), moment_utc(each.end_ms)
            records = "" if each.records is None else f", {each.records} records"
            lasted = f"{duration(each.end_ms - each.start_ms)}{records}"
            own = f"{each.partition}: {each.member}, {begin} to {end} ({lasted})"
            none = f"{each.partition} had no owner for {duration(gap)} until {begin}"
        unowned = each.start_ms - gap
        if gap and (in_full or axis.x(each.start_ms) - axis.x(unowned) >= _PIXEL):
            of[each.partition].append(Bar(from_ms=unowned, to_ms=each.start_ms, title=none, look="unowned"))
        fill = colours.get(each.member, "#888")
        of[each.partition].append(Bar(from_ms=each.start_ms, to_ms=each.end_ms, title=own, fill=fill))
    said = (
        f"{len(counts)} partitions and {len(colours)} members; {sum(counts.values())} hand-overs. "
        "The table below says the same in figures."
    )
    rows = [Lane(name=str(at), bars=bars) for at, bars in of.items()]
    return lanes("Owners over time", said, rows, axis, name="owners", modes=modes)


_FLOOR = 190
"""Where the curve of the lag has its zero, in pixels from the top."""
_MOST_MARKS = 400


def lag_curve(lags: Sequence[Lag], modes: Modes, axis: Axis) -> Markup:
    """Return the lag in records over time as two lines: all partitions together, and the one that lags most.

    Each measurement is a dot with a title, unless there are too many."""
    top = nice(max((each.total for each in lags), default=0))

    def y(value: int) -> float:
        return round(_FLOOR - value / top * (_FLOOR - _TOP - 6), 1)

    parts = [*ticks(axis, _TOP, _FLOOR), label("records", LEFT - 8, _TOP - 8, anchor="end")]
    for value in (0, top // 2, top):
        parts.append(line((LEFT, WIDTH), (y(value), y(value)), "grid"))
        parts.append(label(f"{value:,}".replace(",", " "), LEFT - 8, y(value) + 4, anchor="end"))
    parts += mode_marks(axis, modes, _FLOOR)
    for kind in ("worst", "total") if len(lags) > 1 else ():
        steps = " ".join(f"{axis.x(each.at_ms):g},{y(getattr(each, kind)):g}" for each in lags)
        parts.append(element("polyline", points=steps, class_=f"curve {kind}"))
    for each in lags if len(lags) <= _MOST_MARKS else ():
        unknown = f"; {each.unknown} partitions without a committed offset" if each.unknown else ""
        measured = f"{each.total} records in all, {each.worst} in {each.worst_at}{unknown}"
        title = element("title", f"{clock(each.at_ms)} UTC, {each.what}: {measured}")
        parts.append(element("circle", title, class_="mark", cx=axis.x(each.at_ms), cy=y(each.total), r=3.2))
    said = "The lag was never measured."
    if lags:
        most = max(lags, key=lambda each: each.total)
        said = (
            f"Measured {len(lags)} times; at most {most.total} records at {clock(most.at_ms)} UTC "
            f"({most.what}), {lags[-1].total} at the end."
        )
    return picture("lag", "Lag over time", said, _FLOOR + _FOOT, *parts)


def nice(value: int) -> int:
    """Return the least of 10, 20, 50, 100 … that is not below ``value``: where an axis ends."""
    steps: Iterator[int] = (factor * 10**power for power in count(1) for factor in (1, 2, 5))
    return next(each for each in steps if each >= value)


Owners = Mapping[tuple[str, int], tuple[str, ...]]
"""The owners' member ids of each (topic, partition); normally exactly one."""
_SIDE, _CELL, _GAP = 64, 30, 3
"""What is left of cells and bars; how high a cell is, and what lies between two."""


def ownership(
    topic: str, partitions: Sequence[int], moments: Mapping[str, Owners], colours: Mapping[str, str]
) -> Markup:
    """Return one row a moment with one cell a partition, coloured by its owner; a cell that changed its owner
    since the row above is framed.

    A partition without an owner is a dashed red frame; one with several shows all of them."""
    width = min(90.0, (WIDTH - _SIDE) / max(1, len(partitions)))
    parts = [*_numbers(partitions, width, 14)]
    former: Owners | None = None
    for row, (moment, owners) in enumerate(moments.items()):
        top = 20 + row * (_CELL + 6)
        parts.append(label(moment, 0, top + 20, ""))
        for column, partition in enumerate(partitions):
            owned = owners.get((topic, partition), ())
            moved = former is not None and former.get((topic, partition), ()) != owned
            paints: list[dict[str, str]] = [
                {"fill": colours.get(owner, "#888"), "class_": "moved" if moved else ""} for owner in owned
            ]
            left = _SIDE + column * width
            part = (width - min(_GAP, width / 4)) / max(1, len(owned))
            size = {"y": top, "height": _CELL, "rx": 4, "width": max(0.01, round(part, 2))}
            text = f"{topic}-{partition} {moment}: {' and '.join(owned) or 'no owner'}"
            for index, paint in enumerate(paints or [{"class_": "none"}]):
                x = round(left + index * part, 2)
                parts.append(element("rect", element("title", text), x=x, **paint, **size))
        former = owners
    height = 20 + len(moments) * (_CELL + 6)
    size_of_all = {"viewBox": f"0 0 {WIDTH} {height}", "width": WIDTH, "height": height}
    return element("svg", element("title", f"Owners of {topic}"), *parts, role="img", **size_of_all)


def _numbers(partitions: Sequence[int], width: float, y: float) -> Iterator[Markup]:
    """Numbers of the partitions in columns of this width, as many as fit."""
    yield label("partition", 0, y)
    least = 8 + 7 * max((len(str(partition)) for partition in partitions), default=1)
    for column in range(0, len(partitions), max(1, ceil(least / width))):
        x = round(_SIDE + (column + 0.5) * width - _GAP / 2, 1)
        yield label(partitions[column], x, y, anchor="middle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Bars of one colour (``shade``, as CSS has it); ``values`` are by the number of the partition."""

    name: str
    values: Sequence[int]
    shade: str


_BARS, _ABOVE, _BELOW = 106, 20, 26
"""Pixels of the highest bar, and above and below it."""


def bars(measure: str, rows: Sequence[Row]) -> Markup:
    """Return one bar a partition, one row above the other on one scale; ``measure`` is what the values
    count."""
    top = max((value for row in rows for value in row.values), default=0) or 1
    width = (WIDTH - _SIDE) / max(len(row.values) for row in rows)
    pitch = _ABOVE + _BARS + _BELOW
    parts: list[Markup] = []
    for at, row in enumerate(rows):
        floor = at * pitch + _ABOVE + _BARS
        parts.append(label(f"0 to {top:,} {measure}", _SIDE, floor - _BARS - 6, "hint"))
        parts.append(line((_SIDE, WIDTH), (floor, floor), "grid"))
        parts.append(label(row.name, 0, floor, ""))
        for number, value in enumerate(row.values):
            height = round(value / top * _BARS, 1)
            size = {"x": round(_SIDE + number * width, 2), "width": round(max(0.4, width * 0.85), 2)}
            title = element("title", f"partition {number} {row.name}: {value:,} {measure}")
            parts.append(element("rect", title, fill=row.shade, y=floor - height, height=height, **size))
        parts += _numbers(range(len(row.values)), width, floor + 16)
    said = "; ".join(
        f"{row.name}: {sum(row.values):,} in {len(row.values)} partitions, at most {max(row.values):,}"
        for row in rows
    )
    name = f"load-{measure.replace(' ', '-')}"
    return picture(name, f"{measure} by partition", said, len(rows) * pitch, *parts)
