"""The group's lag over the time of its migration, at every moment at which it was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from groupshift.domain.ownership_history import Lag
from groupshift.spark.account.axis import LEFT, WIDTH, Axis, clock, mode_marks, picture, ticks
from groupshift.spark.html import Markup, tag

_TOP, _BOTTOM = 22, 190
_MOST_MARKS = 400


def lag_picture(lags: Sequence[Lag], modes: Iterable[tuple[int, str]], axis: Axis) -> Markup:
    """Two lines: all partitions together, and the one that lags most."""
    top = nice(max((each.total for each in lags), default=0))
    parts = [ticks(axis, _TOP, _BOTTOM), *_scale(top), mode_marks(axis, modes, _BOTTOM)]
    parts += _line([(each.at_ms, each.worst) for each in lags], axis, top, "worst")
    parts += _line([(each.at_ms, each.total) for each in lags], axis, top, "total")
    parts += _marks(lags, axis, top) if len(lags) <= _MOST_MARKS else ()
    said = _said(lags)
    return picture("lag", "Lag over time", said, _BOTTOM + 24, *parts)


def nice(value: int) -> int:
    """The least of 1, 2, 5, 10, 20, 50 … that is not below `value`; at least 10."""
    step = 10
    while True:
        for factor in (1, 2, 5):
            if step * factor >= value:
                return step * factor
        step *= 10


def _said(lags: Sequence[Lag]) -> str:
    if not lags:
        return "The lag was never measured."
    most = max(lags, key=lambda each: each.total)
    last = lags[-1]
    return (
        f"Measured {len(lags)} times; at most {most.total} records at {clock(most.at_ms)} UTC "
        f"({most.what}), {last.total} at the end."
    )


def _y(value: int, top: int) -> float:
    return round(_BOTTOM - value / top * (_BOTTOM - _TOP - 6), 1)


def _scale(top: int) -> Iterator[Markup]:
    yield tag("text", "records", x=LEFT - 8, y=_TOP - 8, text_anchor="end", class_="soft")
    for share in (0, 2, 4):
        value = top * share // 4
        y = _y(value, top)
        yield tag("line", x1=LEFT, x2=WIDTH, y1=y, y2=y, class_="grid")
        yield tag(
            "text", f"{value:,}".replace(",", " "), x=LEFT - 8, y=y + 4, text_anchor="end", class_="soft"
        )


def _line(points: Sequence[tuple[int, int]], axis: Axis, top: int, kind: str) -> Iterator[Markup]:
    if len(points) > 1:
        steps = " ".join(f"{axis.x(at_ms):g},{_y(value, top):g}" for at_ms, value in points)
        yield tag("polyline", points=steps, class_=f"curve {kind}")


def _marks(lags: Sequence[Lag], axis: Axis, top: int) -> Iterator[Markup]:
    for each in lags:
        unknown = f"; {each.unknown} partitions without a committed offset" if each.unknown else ""
        told = (
            f"{clock(each.at_ms)} UTC, {each.what}: {each.total} records in all, "
            f"{each.worst} in {each.worst_at}{unknown}"
        )
        title = tag("title", told)
        yield tag("circle", title, cx=axis.x(each.at_ms), cy=_y(each.total, top), r=3.2, class_="mark")
