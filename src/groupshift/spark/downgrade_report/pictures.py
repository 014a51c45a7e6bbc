"""Pictures of a downgrade: its steps over time, and the release of every node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from groupshift.application.downgrade_account import (
    ComparedGroups,
    DowngradeAccount,
    Stretch,
    compared,
    stretches,
)
from groupshift.spark import picture as colours
from groupshift.spark.account.axis import Axis, axis_of, clock, picture, ticks
from groupshift.spark.account.run_picture import SIGNS
from groupshift.spark.html import Markup, duration, join, tag

_TOP, _LANE, _BAR = 12, 32, 20


def axis(account: DowngradeAccount) -> Axis:
    """From the plan to what was journaled last."""
    times = [each.at_ms for each in account.steps if each.at_ms]
    return axis_of([account.run.created_at_ms, *times])


def releases(account: DowngradeAccount) -> dict[str, str]:
    """A colour for each of the two releases."""
    return {
        release: colours.colour(number)
        for number, release in enumerate(dict.fromkeys((account.plan.now, account.plan.release)))
    }


def nodes_picture(account: DowngradeAccount) -> Markup:
    """One lane a node with what it ran when, and one for the comparisons."""
    at, shades = axis(account), releases(account)
    lanes: dict[str, list[Stretch]] = {}
    for each in stretches(account):
        lanes.setdefault(each.node, []).append(each)
    bottom = _TOP + (len(lanes) + 1) * _LANE
    parts: list[object] = [ticks(at, _TOP, bottom)]
    for line, (node, ran) in enumerate(lanes.items()):
        top = _TOP + line * _LANE
        parts += [tag("text", f"node {node}", x=0, y=top + 21), *_bars(ran, at, top, shades)]
    parts += _marks(compared(account), at, _TOP + len(lanes) * _LANE)
    return picture("nodes", "Releases of the nodes over time", _said(lanes.values()), bottom + 24, *parts)


def _said(lanes: Iterable[Sequence[Stretch]]) -> str:
    told = (
        f"node {each.node} ran {each.release} from {clock(each.from_ms)} to {clock(each.to_ms)} UTC"
        for ran in lanes
        for each in ran
        if not each.changing
    )
    return "; ".join(told)


def _bars(ran: Sequence[Stretch], at: Axis, top: float, shades: dict[str, str]) -> Iterator[Markup]:
    for each in ran:
        left, right = at.x(each.from_ms), at.x(each.to_ms)
        took = f"{clock(each.from_ms)} to {clock(each.to_ms)}, {duration(each.to_ms - each.from_ms)}"
        what = f"is replaced by {each.release}" if each.changing else f"runs {each.release}"
        shape = {"x": left, "y": top + 6, "width": max(1.5, round(right - left, 1)), "height": _BAR, "rx": 3}
        title = tag("title", f"node {each.node} {what}: {took}")
        if each.changing:
            yield tag("rect", title, class_="waiting", **shape)
        else:
            yield tag("rect", title, fill=shades[each.release], **shape)


def _marks(found: Sequence[ComparedGroups], at: Axis, top: float) -> Iterator[Markup]:
    """A sign at each comparison that was made."""
    yield tag("text", "compared", x=0, y=top + 21)
    for each in found:
        if each.verdict is None:
            continue
        x = at.x(each.at_ms)
        title = tag("title", f"{each.subject} with {each.base}: {each.verdict}, {clock(each.at_ms)}")
        dot = tag("circle", title, cx=x, cy=top + 16, r=8, class_=f"dot {each.verdict}")
        sign = tag("text", SIGNS[each.verdict], x=x, y=top + 20, text_anchor="middle", class_="on")
        yield join((dot, sign))


def legend(account: DowngradeAccount) -> Markup:
    """What the colours mean."""
    return colours.legend(releases(account), {account.plan.release: "the older release"})
