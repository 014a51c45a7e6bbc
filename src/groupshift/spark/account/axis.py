"""One time axis for every picture of a report. Long waits are cut out, so that what happened is seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from groupshift.spark.html import Markup, duration, join, tag

LEFT, WIDTH, _RIGHT = 132, 1000, 988
_CUT_PX = 34
_CUT_SHARE, _CUT_MS = 0.2, 120_000
"""A wait is cut when it is longer than both: this share of everything, and two minutes."""
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 604800)
_TICK_PX = 74
_CHARACTER_PX = 7.0
"""How wide a character of a label is at most, on average."""
_DOT_PX = 17.0
_MOST_CHARACTERS = 18
"""What fits left of the lanes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of time and its pixels; ``cut`` ones are as wide as all others of their kind."""

    from_ms: int
    to_ms: int
    left: float
    right: float
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Times (epoch ms) to pixels, by pieces in order; never empty."""

    pieces: tuple[Piece, ...]

    @property
    def from_ms(self) -> int:
        """The time at the left edge."""
        return self.pieces[0].from_ms

    @property
    def to_ms(self) -> int:
        """The time at the right edge."""
        return self.pieces[-1].to_ms

    def x(self, at_ms: int) -> float:
        """The pixel of a time, clipped to the edges."""
        at_ms = min(max(at_ms, self.from_ms), self.to_ms)
        piece = self.pieces[0]
        if len(self.pieces) > 1:
            index = bisect_right(self.pieces, at_ms, key=lambda each: each.from_ms)
            piece = self.pieces[max(0, index - 1)]
        share = (at_ms - piece.from_ms) / max(1, piece.to_ms - piece.from_ms)
        return round(piece.left + share * (piece.right - piece.left), 1)


def axis_of(times: Iterable[int]) -> Axis:
    """An axis from the first to the last of `times` (epoch ms); waits between them are cut where long."""
    ordered = sorted(set(times)) or [0]
    if len(ordered) == 1:
        ordered.append(ordered[0] + 1000)
    total = ordered[-1] - ordered[0]
    longest = max(_CUT_SHARE * total, _CUT_MS)
    if all(end - start > longest for start, end in pairwise(ordered)):
        longest = total  # nothing but waits: cutting would leave nothing
    spans: list[tuple[int, int, bool]] = []
    for start, end in pairwise(ordered):
        cut = end - start > longest
        if spans and not cut and not spans[-1][2]:
            spans[-1] = (spans[-1][0], end, False)
        else:
            spans.append((start, end, cut))
    return Axis(pieces=tuple(_laid_out(spans)))


def _laid_out(spans: list[tuple[int, int, bool]]) -> Iterable[Piece]:
    room = _RIGHT - LEFT - _CUT_PX * sum(cut for _, _, cut in spans)
    time = sum(end - start for start, end, cut in spans if not cut) or 1
    left = float(LEFT)
    for start, end, cut in spans:
        right = left + (_CUT_PX if cut else room * (end - start) / time)
        yield Piece(from_ms=start, to_ms=end, left=left, right=right, cut=cut)
        left = right


def clock(at_ms: int) -> str:
    """The time of day in UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%H:%M:%S")


def ticks(axis: Axis, top: float, bottom: float) -> Markup:
    """Grid lines with times below them, and a mark over each cut that says how much was left out."""
    parts: list[Markup] = []
    last = float("-inf")
    for number, piece in enumerate(axis.pieces):
        if piece.cut:
            parts.append(_cut(piece, top, bottom))
            continue
        dots = _CUT_PX / 2  # the label of a cut beside this piece stays free
        least = piece.left + (dots if number else 0)
        most = piece.right - (dots if number + 1 < len(axis.pieces) else 0)
        step = _step_ms(piece)
        first = -(-piece.from_ms // step) * step
        for at_ms in range(first, piece.to_ms + 1, step):
            x = axis.x(at_ms)
            parts.append(tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
            if x - last >= _TICK_PX and max(LEFT + 30, least) <= x <= min(WIDTH - 30, most):
                label = tag("text", clock(at_ms), x=x, y=bottom + 15, text_anchor="middle", class_="soft")
                parts.append(label)
                last = x
    parts.append(tag("text", "UTC", x=LEFT - 8, y=bottom + 15, text_anchor="end", class_="soft"))
    return join(parts)


def apart(wanted: Sequence[tuple[float, float]], left: float, right: float) -> list[float | None]:
    """The left edges of boxes (middle, width; ordered by middle) between two edges, each as near to where it
    belongs as the others let it, none over another; None for every second, third … where not all fit."""
    step = 1
    while wanted and sum(width + 2 for _, width in wanted[::step]) > right - left and step < len(wanted):
        step += 1
    places: list[float | None] = [None] * len(wanted)
    free = left
    for number in range(0, len(wanted), step):
        middle, width = wanted[number]
        place = max(middle - width / 2, free)
        places[number], free = place, place + width + 2
    free = right
    for number in reversed(range(0, len(wanted), step)):
        place = min(places[number] or 0.0, free - wanted[number][1])
        places[number], free = round(place, 1), place - 2
    return places


def dots(pixels: Sequence[float]) -> list[float]:
    """Where dots with a sign in them go, each as near to its pixel (in order) as the others let it."""
    found = apart([(x, _DOT_PX) for x in pixels], LEFT, WIDTH)
    return [x if place is None else place + _DOT_PX / 2 for x, place in zip(pixels, found, strict=True)]


def label_px(text: str) -> float:
    """How wide a label is at most."""
    return len(text) * _CHARACTER_PX


def lane_label(text: str, y: float, class_: str = "") -> Markup:
    """The name of a lane, left of it; the end of one that is too long, and all of it as a title."""
    short = text if len(text) <= _MOST_CHARACTERS else f"…{text[1 - _MOST_CHARACTERS :]}"
    return tag("text", short, tag("title", text), x=0, y=y, class_=class_)


def _step_ms(piece: Piece) -> int:
    fits = max(1.0, (piece.right - piece.left) / _TICK_PX)
    wanted = (piece.to_ms - piece.from_ms) / fits / 1000
    return next((step for step in _STEPS_S if step >= wanted), _STEPS_S[-1]) * 1000


def _cut(piece: Piece, top: float, bottom: float) -> Markup:
    middle = round((piece.left + piece.right) / 2, 1)
    left_out = f"{duration(piece.to_ms - piece.from_ms)} left out"
    box = tag(
        "rect",
        tag("title", left_out),
        x=round(piece.left, 1),
        y=top,
        width=round(piece.right - piece.left, 1),
        height=bottom - top,
        class_="cut",
    )
    said = tag("text", "⋯", tag("title", left_out), x=middle, y=bottom + 14, text_anchor="middle")
    return join((box, said))


def mode_marks(axis: Axis, modes: Iterable[tuple[int, str]], bottom: float) -> Markup:
    """A dashed line for each write of the mode node, with its text above."""
    found = [(axis.x(at_ms), f"mode {text}") for at_ms, text in sorted(modes)]
    lines = (tag("line", x1=x, x2=x, y1=14, y2=bottom, class_="mode") for x, _ in found)
    return join((*lines, *labels_above(found, LEFT, 11)))


def labels_above(found: Sequence[tuple[float, str]], left: float, y: float) -> list[Markup]:
    """Labels that begin at these pixels, in a row in which none lies over another."""
    wanted = [(x + label_px(text) / 2, label_px(text)) for x, text in found]
    places = apart(wanted, left, WIDTH)
    return [
        tag("text", text, x=place, y=y, class_="soft")
        for (_, text), place in zip(found, places, strict=True)
        if place is not None
    ]


def picture(name: str, title: str, said: str, height: float, *parts: object) -> Markup:
    """An SVG with a title and a sentence for those who cannot see it."""
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", said, id=f"{name}-desc"),
        *parts,
        viewBox=f"0 0 {WIDTH} {round(height)}",
        width=WIDTH,
        height=round(height),
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
