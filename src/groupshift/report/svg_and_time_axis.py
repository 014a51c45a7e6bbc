"""SVG: elements, colours, and the one time axis of every picture. Long waits are cut out of the axis, so that
what happened is seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from groupshift.report.page import clock, duration, shown

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
_HUES = (212, 150, 38, 268, 185, 90, 300, 55, 236, 125, 20, 170)
"""Far apart for neighbours, and none is red: red means that nobody, or more than one, owns a partition."""


def element(name: str, *content: object, **attributes: object) -> Markup:
    """Return ``<name attributes>content</name>`` as text that needs no further escaping.

    All content and every value of an attribute is escaped, unless it is an element itself. The attribute
    ``class_`` is ``class``, and a ``_`` within a name is ``-``."""
    named = {key.rstrip("_").replace("_", "-"): escape(shown(value)) for key, value in attributes.items()}
    listed = "".join(f' {key}="{value}"' for key, value in named.items())
    inside = "".join(escape(shown(each)) for each in content)
    return Markup(f"<{name}{listed}>{inside}</{name}>")  # noqa: S704 - escaped above


def label(text: object, x: float, y: float, look: str = "soft", anchor: str = "start") -> Markup:
    """Return a text at this place (pixels); ``anchor`` says which part of it is there, ``look`` is a class of
    ``report.css``."""
    return element("text", text, x=x, y=y, text_anchor=anchor, class_=look)


def line(x: tuple[float, float], y: tuple[float, float], look: str) -> Markup:
    """Return a line from the first x and y to the second ones (pixels)."""
    return element("line", x1=x[0], x2=x[1], y1=y[0], y2=y[1], class_=look)


def picture(name: str, title: str, said: str, height: float, *parts: object) -> Markup:
    """Return an SVG of this height (pixels) and the full width, with a title and a sentence for those who
    cannot see it. ``name`` tells it from other pictures of the page."""
    labels = (element("title", title, id=f"{name}-title"), element("desc", said, id=f"{name}-desc"))
    size = {"viewBox": f"0 0 {WIDTH} {round(height)}", "width": WIDTH, "height": round(height)}
    named = f"{name}-title {name}-desc"
    return element("svg", *labels, *parts, **size, role="img", aria_labelledby=named)


def colour(index: int) -> str:
    """Return the colour of what has this index, as CSS has it. It reads on white and on black."""
    light = 50 + 9 * (index // len(_HUES) % 3)
    return f"hsl({_HUES[index % len(_HUES)]} 55% {light}%)"


def palette(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for every name: the same one in every picture of a report."""
    return {each: colour(index) for index, each in enumerate(sorted(set(names)))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """An interval of time (epoch ms) and its pixels. A ``cut`` one is a long wait, drawn as narrow as every
    other one."""

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
        """The time at the left edge (epoch ms)."""
        return self.pieces[0].from_ms

    @property
    def to_ms(self) -> int:
        """The time at the right edge (epoch ms)."""
        return self.pieces[-1].to_ms

    def x(self, at_ms: int) -> float:
        """Return the pixel of a time, clipped to the edges."""
        at_ms = min(max(at_ms, self.from_ms), self.to_ms)
        piece = self.pieces[bisect_right(self.pieces, at_ms, lo=1, key=lambda each: each.from_ms) - 1]
        share = (at_ms - piece.from_ms) / max(1, piece.to_ms - piece.from_ms)
        return round(piece.left + share * (piece.right - piece.left), 1)


def axis_of(times: Iterable[int]) -> Axis:
    """Return an axis from the first to the last of these times (epoch ms).

    A wait between two of them is cut out where it is long, so that what happened around it is seen. Where
    there are only such waits nothing is cut: nothing would be left. The pieces share the width of the picture
    by the time that they last; each cut takes the same few pixels."""
    ordered = sorted(set(times)) or [0]
    if len(ordered) == 1:
        ordered.append(ordered[0] + 1000)
    longest = max(_CUT_SHARE * (ordered[-1] - ordered[0]), _CUT_MS)
    waits = all(end - start > longest for start, end in pairwise(ordered))
    spans: list[tuple[int, int, bool]] = []
    for start, end in pairwise(ordered):
        cut = end - start > longest and not waits
        if spans and not cut and not spans[-1][2]:
            spans[-1] = (spans[-1][0], end, False)
        else:
            spans.append((start, end, cut))
    room = _RIGHT - LEFT - _CUT_PX * sum(cut for _, _, cut in spans)
    time = sum(end - start for start, end, cut in spans if not cut) or 1
    pieces, left = [], float(LEFT)
    for start, end, cut in spans:
        right = left + (_CUT_PX if cut else room * (end - start) / time)
        pieces.append(Piece(from_ms=start, to_ms=end, left=left, right=right, cut=cut))
        left = right
    return Axis(pieces=tuple(pieces))


def ticks(axis: Axis, top: float, bottom: float) -> Iterator[Markup]:
    """Return grid lines with times (UTC) below them, as many as have room, and a mark over each cut that says
    how much was left out. ``top`` and ``bottom`` are pixels."""
    last = float("-inf")
    for number, piece in enumerate(axis.pieces):
        width, lasts_ms = piece.right - piece.left, piece.to_ms - piece.from_ms
        if piece.cut:
            title = element("title", f"{duration(lasts_ms)} left out")
            size = {"x": round(piece.left, 1), "y": top, "width": round(width, 1)}
            yield element("rect", title, class_="cut", **size, height=round(bottom - top, 1))
            middle = round((piece.left + piece.right) / 2, 1)
            yield element("text", "⋯", title, x=middle, y=bottom + 14, text_anchor="middle")
            continue
        dots = _CUT_PX / 2  # the label of a cut beside this piece stays free
        least = piece.left + (dots if number else 0)
        most = piece.right - (dots if number + 1 < len(axis.pieces) else 0)
        wanted = lasts_ms / max(1.0, width / _TICK_PX) / 1000
        step = next((step for step in _STEPS_S if step >= wanted), _STEPS_S[-1]) * 1000
        for at_ms in range(-(-piece.from_ms // step) * step, piece.to_ms + 1, step):
            x = axis.x(at_ms)
            yield line((x, x), (top, bottom), "grid")
            if x - last >= _TICK_PX and max(LEFT + 30, least) <= x <= min(WIDTH - 30, most):
                yield label(clock(at_ms), x, bottom + 15, anchor="middle")
                last = x
    yield label("UTC", LEFT - 8, bottom + 15, anchor="end")


def apart(wanted: Sequence[tuple[float, float]], left: float, right: float) -> list[float | None]:
    """Return the left edges of boxes between two edges, so that no box lies over another one.

    ``wanted`` are the middle and the width of each (pixels), ordered by the middle; a box is as near to where
    it belongs as the others let it. Where not all fit, every second, third … gets None."""
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
    """Return where dots with a sign in them go: each as near to its pixel (in order) as the others let it."""
    places = apart([(x, _DOT_PX) for x in pixels], LEFT, WIDTH)
    return [x if place is None else place + _DOT_PX / 2 for x, place in zip(pixels, places, strict=True)]


def lane_label(text: str, y: float, look: str = "") -> Markup:
    """Return the name of a lane, left of it: the end of one that is too long, and all of it as a title."""
    short = text if len(text) <= _MOST_CHARACTERS else f"…{text[1 - _MOST_CHARACTERS :]}"
    return element("text", short, element("title", text), x=0, y=round(y, 1), class_=look)


def mode_marks(axis: Axis, modes: Iterable[tuple[int, str]], bottom: float) -> Iterator[Markup]:
    """Return a dashed line for each write of the mode node (epoch ms, text) that is within the axis, with its
    text above. No text lies over another one."""
    within = sorted((at_ms, text) for at_ms, text in modes if axis.from_ms <= at_ms <= axis.to_ms)
    texts = [(axis.x(at_ms), f"mode {text}") for at_ms, text in within]
    yield from (line((x, x), (14, bottom), "mode") for x, _ in texts)
    boxes = [(x + len(text) * _CHARACTER_PX / 2, len(text) * _CHARACTER_PX) for x, text in texts]
    for (_, text), place in zip(texts, apart(boxes, LEFT, WIDTH), strict=True):
        if place is not None:
            yield label(text, place, 11)
