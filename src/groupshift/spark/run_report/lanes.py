"""A picture of a run: one lane for each node with what it ran when, and one for the comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from groupshift.application.run_account import ComparedGroups, P, RunAccount, compared
from groupshift.application.run_stretches import Stretch
from groupshift.domain.verdict import Verdict
from groupshift.spark.account.axis import Axis, axis_of, clock, dots, lane_label, picture, ticks
from groupshift.spark.account.run_picture import SIGNS
from groupshift.spark.html import Markup, duration, join, tag

_TOP, _LANE, _BAR = 12, 32, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How the picture names what it shows: the ``title``, a ``lane`` (followed by its name), what one does
    (``runs``, ``ran``, followed by what), and what happens to it in between (``becomes``)."""

    title: str
    lane: str
    runs: str
    ran: str
    becomes: str


def axis(account: RunAccount[P]) -> Axis:
    """From the plan to what was journaled last."""
    times = [each.at_ms for each in account.steps if each.at_ms]
    return axis_of([account.run.created_at_ms, *times])


def lanes(
    account: RunAccount[P], stretches: Iterable[Stretch], shades: Mapping[str, str], words: Words
) -> Markup:
    """``shades`` are the colours by what a node ran."""
    at = axis(account)
    found: dict[str, list[Stretch]] = {}
    for each in stretches:
        found.setdefault(each.node, []).append(each)
    bottom = _TOP + (len(found) + 1) * _LANE
    parts: list[object] = [ticks(at, _TOP, bottom)]
    for line, (node, ran) in enumerate(found.items()):
        top = _TOP + line * _LANE
        parts.append(lane_label(f"{words.lane} {node}", top + 21))
        parts += _bars(ran, (at, top), shades, words)
    parts += _marks(compared(account), at, _TOP + len(found) * _LANE)
    return picture("nodes", words.title, _said(found.values(), words), bottom + 24, *parts)


def _said(found: Iterable[Sequence[Stretch]], words: Words) -> str:
    told = (
        f"{words.lane} {each.node} {words.ran} {each.ran} from {clock(each.from_ms)} to {clock(each.to_ms)} "
        "UTC"
        for ran in found
        for each in ran
        if not each.changing
    )
    return "; ".join(told)


def _bars(
    ran: Sequence[Stretch], place: tuple[Axis, float], shades: Mapping[str, str], words: Words
) -> Iterator[Markup]:
    at, top = place
    for each in ran:
        left, right = at.x(each.from_ms), at.x(each.to_ms)
        took = f"{clock(each.from_ms)} to {clock(each.to_ms)}, {duration(each.to_ms - each.from_ms)}"
        what = f"{words.becomes} {each.ran}" if each.changing else f"{words.runs} {each.ran}"
        shape = {"x": left, "y": top + 6, "width": max(1.5, round(right - left, 1)), "height": _BAR, "rx": 3}
        title = tag("title", f"{words.lane} {each.node} {what}: {took}")
        if each.changing:
            yield tag("rect", title, class_="waiting", **shape)
        else:
            yield tag("rect", title, fill=shades[each.ran], **shape)


def _marks(found: Sequence[ComparedGroups], at: Axis, top: float) -> Iterator[Markup]:
    """A sign at each comparison that was made."""
    yield lane_label("compared", top + 21)
    judged = [each for each in found if each.verdict is not None]
    for each, x in zip(judged, dots([at.x(each.at_ms) for each in judged]), strict=True):
        title = tag("title", f"{each.subject} with {each.base}: {each.verdict}, {clock(each.at_ms)}")
        dot = tag("circle", title, cx=x, cy=top + 16, r=8, class_=f"dot {each.verdict}")
        sign = tag(
            "text", SIGNS[each.verdict or Verdict.ERROR], x=x, y=top + 20, text_anchor="middle", class_="on"
        )
        yield join((dot, sign))
