"""The pictures of reports: lanes over time, a curve over time, and cells and bars by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from markupsafe import Markup

from groupshift.domain.ownership_history import Lag, Tenure, hand_overs
from groupshift.report.page import clock, duration, moment_utc
from groupshift.report.svg import (
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
_LANE, _LEAST_LANE, _LANES_PX = 30.0, 5.0, 750.0
_LEAST_LABEL_PX = 15
_PIXEL = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What lasted from and to then (epoch ms): in this colour (``fill``) or with this class of ``report.css``
    (``look``); ``title`` tells what it is."""

    from_ms: int
    to_ms: int
    title: str
    fill: str = ""
    look: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A ``sign`` in a circle, at a time (epoch ms)."""

    at_ms: int
    sign: str
    title: str
    look: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """``bars`` come one after the other, in order; those of ``over`` may overlap, and each is drawn; dots lie
    over all."""

    name: str
    bars: Sequence[Bar] = ()
    over: Sequence[Bar] = ()
    dots: Sequence[Dot] = ()


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A bar and its pixels."""

    bar: Bar
    left: float
    right: float
    top: float


def lanes(
    title: str, said: str, shown: Sequence[Lane], axis: Axis, *, name: str, modes: Modes = ()
) -> Markup:
    """One lane above the other on one time axis; ``said`` tells the picture in a sentence. Bars that look the
    same and have the same title are one path: a dozen bytes a bar."""
    pitch = _LANE
    if not any(lane.dots for lane in shown):
        pitch = max(_LEAST_LANE, min(_LANE, _LANES_PX / max(1, len(shown))))
    height = round(pitch * 0.7 if pitch > _LEAST_LABEL_PX else pitch - 1, 1)
    every = 1 if pitch >= _LEAST_LABEL_PX else ceil(_LEAST_LABEL_PX / pitch)
    bottom = round(_TOP + len(shown) * pitch, 1)
    parts: list[Markup] = [*ticks(axis, _TOP, bottom)]
    drawn: list[_Drawn] = []
    signs: list[Markup] = []
    for number, lane in enumerate(shown):
        top = round(_TOP + number * pitch + (pitch - height) / 2, 1)
        if number % every == 0:
            parts.append(lane_label(lane.name, top + height / 2 + 4))
        drawn += _in_turn(lane.bars, axis, top)
        for bar in lane.over:
            left = axis.x(bar.from_ms)
            drawn.append(_Drawn(bar, left, max(axis.x(bar.to_ms), left + 2), top))
        signs += _dots(lane.dots, axis, top + height / 2)
    parts += [*_bars(drawn, height), *mode_marks(axis, modes, bottom), *signs]
    return picture(name, title, said, bottom + _FOOT, *parts)


def _in_turn(bars: Sequence[Bar], axis: Axis, top: float) -> Iterator[_Drawn]:
    """Left to right, each at least three pixels wide where the next one leaves room for it; one that lies
    within a pixel that is taken is left out."""
    free = float("-inf")
    ends = [bar.from_ms for bar in bars[1:]] + [axis.to_ms]
    for bar, next_ms in zip(bars, ends, strict=False):
        begin, right = max(axis.x(bar.from_ms), free), axis.x(bar.to_ms)
        if right < free or max(right, axis.x(bar.from_ms) + _PIXEL) - begin < _PIXEL:
            continue
        room = max(begin + _PIXEL, min(begin + 3 * _PIXEL, axis.x(next_ms)))
        free = max(right, room)
        yield _Drawn(bar, begin, free, top)


def _bars(drawn: Iterable[_Drawn], height: float) -> Iterator[Markup]:
    alike: dict[tuple[str, str, str], list[_Drawn]] = {}
    for each in drawn:
        alike.setdefault((each.bar.fill, each.bar.look, each.bar.title), []).append(each)
    for (fill, look, title), found in alike.items():
        paint = {"class_": look} if look else {"fill": fill}
        if len(found) == 1:
            (one,) = found
            size = {"x": round(one.left, 1), "width": round(one.right - one.left, 1), "y": one.top}
            yield element("rect", element("title", title), height=height, rx=2, **size, **paint)
            continue
        path = "".join(
            f"M{each.left:.6g} {each.top:g}h{round(each.right - each.left, 1):g}v{height:g}"
            f"h-{round(each.right - each.left, 1):g}z"
            for each in found
        )
        yield element("path", element("title", title), d=path, **paint)


def _dots(shown: Sequence[Dot], axis: Axis, middle: float) -> Iterator[Markup]:
    for each, x in zip(shown, dots([axis.x(each.at_ms) for each in shown]), strict=True):
        yield element("circle", element("title", each.title), cx=x, cy=middle, r=8, class_=each.look)
        yield label(each.sign, x, middle + 4, "on", "middle")


MOST_OWNER_LANES = 240
_MOST_TITLES = 1500
"""Up to so many bars each tells who, when and how long; beyond, bars of a member are one path."""


def owners(tenures: Sequence[Tenure], modes: Modes, axis: Axis, colours: Mapping[str, str]) -> Markup:
    """One lane a partition, one colour a member; partitions that changed hands most where there are more than
    fit."""
    counts = hand_overs(tenures)
    of: dict[object, list[Bar]] = {
        at: [] for at in sorted(sorted(counts, key=lambda at: (-counts[at], at))[:MOST_OWNER_LANES])
    }
    for each in sorted(tenures, key=lambda tenure: (tenure.partition, tenure.start_ms)):
        if each.partition in of:
            of[each.partition] += _owned(each, axis, colours, in_full=len(tenures) <= _MOST_TITLES)
    said = (
        f"{len(counts)} partitions and {len(colours)} members; {sum(counts.values())} hand-overs. "
        "The table below says the same in figures."
    )
    found = [Lane(name=str(at), bars=bars) for at, bars in of.items()]
    return lanes("Owners over time", said, found, axis, name="owners", modes=modes)


def _owned(each: Tenure, axis: Axis, colours: Mapping[str, str], *, in_full: bool) -> Iterator[Bar]:
    """The time without owner before a tenure, and the tenure; among many only one that has a pixel."""
    since, gap = each.start_ms - (each.unowned_ms or 0), duration(each.unowned_ms)
    if each.unowned_ms and (in_full or axis.x(each.start_ms) - axis.x(since) >= _PIXEL):
        title = f"{each.partition} had no owner for {gap} until {moment_utc(each.start_ms)}"
        yield Bar(from_ms=since, to_ms=each.start_ms, title=title if in_full else "no owner", look="unowned")
    title = each.member
    if in_full:
        records = "" if each.records is None else f", {each.records} records"
        lasted = duration(each.end_ms - each.start_ms)
        span = f"{moment_utc(each.start_ms)} to {moment_utc(each.end_ms)}"
        title = f"{each.partition}: {each.member}, {span} ({lasted}{records})"
    fill = colours.get(each.member, "#888")
    yield Bar(from_ms=each.start_ms, to_ms=each.end_ms, title=title, fill=fill)


_FLOOR = 190
_MOST_MARKS = 400


def lag_curve(lags: Sequence[Lag], modes: Modes, axis: Axis) -> Markup:
    """Two lines: all partitions together, and the one that lags most."""
    top = nice(max((each.total for each in lags), default=0))

    def y(value: int) -> float:
        return round(_FLOOR - value / top * (_FLOOR - _TOP - 6), 1)

    def curve(points: Iterable[tuple[int, int]], kind: str) -> Markup:
        steps = " ".join(f"{axis.x(at_ms):g},{y(value):g}" for at_ms, value in points)
        return element("polyline", points=steps, class_=f"curve {kind}")

    parts = [*ticks(axis, _TOP, _FLOOR), label("records", LEFT - 8, _TOP - 8, anchor="end")]
    for value in (0, top // 2, top):
        parts.append(line((LEFT, WIDTH), (y(value), y(value)), "grid"))
        parts.append(label(f"{value:,}".replace(",", " "), LEFT - 8, y(value) + 4, anchor="end"))
    parts += mode_marks(axis, modes, _FLOOR)
    if len(lags) > 1:
        parts.append(curve(((each.at_ms, each.worst) for each in lags), "worst"))
        parts.append(curve(((each.at_ms, each.total) for each in lags), "total"))
    for each in lags if len(lags) <= _MOST_MARKS else ():
        at = {"cx": axis.x(each.at_ms), "cy": y(each.total), "r": 3.2}
        parts.append(element("circle", element("title", _measured(each)), class_="mark", **at))
    return picture("lag", "Lag over time", _most(lags), _FLOOR + _FOOT, *parts)


def nice(value: int) -> int:
    """The least of 1, 2, 5, 10, 20, 50 … that is not below ``value``; at least 10."""
    step = 10
    while True:
        for factor in (1, 2, 5):
            if step * factor >= value:
                return step * factor
        step *= 10


def _measured(each: Lag) -> str:
    unknown = f"; {each.unknown} partitions without a committed offset" if each.unknown else ""
    said = f"{each.total} records in all, {each.worst} in {each.worst_at}{unknown}"
    return f"{clock(each.at_ms)} UTC, {each.what}: {said}"


def _most(lags: Sequence[Lag]) -> str:
    if not lags:
        return "The lag was never measured."
    most = max(lags, key=lambda each: each.total)
    return (
        f"Measured {len(lags)} times; at most {most.total} records at {clock(most.at_ms)} UTC "
        f"({most.what}), {lags[-1].total} at the end."
    )


Owners = Mapping[tuple[str, int], tuple[str, ...]]
"""The owners' member ids of each (topic, partition); normally exactly one."""
_SIDE, _CELL, _GAP = 64, 30, 3
"""What is left of cells and bars; how high a cell is, and what lies between two."""


def ownership(
    topic: str, partitions: Sequence[int], moments: Mapping[str, Owners], colours: Mapping[str, str]
) -> Markup:
    """One row a moment, one cell a partition, coloured by owner; a cell that changed owner is framed.

    A partition without an owner is a dashed red frame; one with several shows all of them.
    """
    width = min(90.0, (WIDTH - _SIDE) / max(1, len(partitions)))
    parts = [*_numbers(partitions, width, 14)]
    former: Owners | None = None
    for row, (moment, owners) in enumerate(moments.items()):
        top = 20 + row * (_CELL + 6)
        parts.append(label(moment, 0, top + 20, ""))
        for column, partition in enumerate(partitions):
            owned = owners.get((topic, partition), ())
            moved = former is not None and former.get((topic, partition), ()) != owned
            text = f"{topic}-{partition} {moment}: {' and '.join(owned) or 'no owner'}"
            box = (_SIDE + column * width, top, width - min(_GAP, width / 4))
            fills = [colours.get(owner, "#888") for owner in owned]
            parts += _cells(box, fills, text, "moved" if moved else "")
        former = owners
    height = 20 + len(moments) * (_CELL + 6)
    box_of_all = f"0 0 {WIDTH} {height}"
    title = element("title", f"Owners of {topic}")
    return element("svg", title, *parts, viewBox=box_of_all, role="img", width=WIDTH, height=height)


def _numbers(partitions: Sequence[int], width: float, y: float) -> Iterator[Markup]:
    """Numbers of the partitions in columns of this width, as many as fit."""
    yield label("partition", 0, y)
    least = 8 + 7 * max((len(str(partition)) for partition in partitions), default=1)
    for column in range(0, len(partitions), max(1, ceil(least / width))):
        x = round(_SIDE + (column + 0.5) * width - _GAP / 2, 1)
        yield label(partitions[column], x, y, anchor="middle")


def _cells(box: tuple[float, float, float], fills: Sequence[str], text: str, look: str) -> Iterator[Markup]:
    left, top, width = box
    part = width / max(1, len(fills))
    size = {"y": top, "height": _CELL, "rx": 4, "width": max(0.01, round(part, 2))}
    title = element("title", text)
    if not fills:
        yield element("rect", title, x=round(left, 2), class_="none", **size)
    for index, fill in enumerate(fills):
        yield element("rect", title, x=round(left + index * part, 2), fill=fill, class_=look, **size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """``values`` by number of the partition."""

    name: str
    values: Sequence[int]
    shade: str


_BARS, _ABOVE, _BELOW = 106, 20, 26


def bars(measure: str, rows: Sequence[Row]) -> Markup:
    """One bar a partition, one row above the other on one scale; ``measure`` is what the values count."""
    top = max((value for row in rows for value in row.values), default=0) or 1
    width = (WIDTH - _SIDE) / max(len(row.values) for row in rows)
    pitch = _ABOVE + _BARS + _BELOW
    parts: list[Markup] = []
    for number, row in enumerate(rows):
        floor = number * pitch + _ABOVE + _BARS
        parts += [
            label(f"0 to {top:,} {measure}", _SIDE, floor - _BARS - 6, "hint"),
            line((_SIDE, WIDTH), (floor, floor), "grid"),
            label(row.name, 0, floor, ""),
            *_heights(measure, row, top, (width, floor)),
            *_numbers(range(len(row.values)), width, floor + 16),
        ]
    said = "; ".join(
        f"{row.name}: {sum(row.values):,} in {len(row.values)} partitions, at most {max(row.values):,}"
        for row in rows
    )
    name = f"load-{measure.replace(' ', '-')}"
    return picture(name, f"{measure} by partition", said, len(rows) * pitch, *parts)


def _heights(measure: str, row: Row, top: int, place: tuple[float, int]) -> Iterator[Markup]:
    width, floor = place
    for number, value in enumerate(row.values):
        height = round(value / top * _BARS, 1)
        size = {"x": round(_SIDE + number * width, 2), "width": round(max(0.4, width * 0.85), 2)}
        title = element("title", f"partition {number} {row.name}: {value:,} {measure}")
        yield element("rect", title, fill=row.shade, y=floor - height, height=height, **size)
