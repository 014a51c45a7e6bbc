"""Pictures that people can read: no label lies over another, each axis has a unit, greys are told apart."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest
from markupsafe import Markup

from groupshift.domain.ownership_history import Lag, OwnershipInterval
from groupshift.domain.partitions import TopicPartition
from groupshift.report.pictures import Bar, Dot, Lane, Row, bars, lag_curve, lanes, owners, ownership
from groupshift.report.svg_and_time_axis import axis_of, palette

AT = 1_763_740_000_000
HOUR = 3_600_000
MODES = (
    (AT, "kafka"),
    (AT + 50, "zookeeper"),
    (AT + 900, "kafka"),
    (AT + 59_000, "zookeeper"),
    (AT + 60_000, "kafka"),
)
CHARACTER_PX, HEIGHT_PX, WIDTH_PX = 5.9, 9.0, 1000.0
"""Of a letter of 11 px in Liberation Sans, by Chromium: 5.9 px on average, 9 px tall above its line."""


def _boxes(svg: Markup) -> list[tuple[str, float, float, float, float]]:
    """(text, left, right, top, bottom) of each label."""
    found = []
    for each in ET.fromstring(svg).iter("text"):  # noqa: S314 - our own
        text, x, y = each.text or "", float(each.get("x", 0)), float(each.get("y", 0))
        width = CHARACTER_PX * len(text)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[each.get("text-anchor", "start")]
        found.append((text, left, left + width, y - HEIGHT_PX, y))
    return found


def _clear(svg: Markup) -> None:
    boxes = _boxes(svg)
    for one, other in combinations(boxes, 2):
        apart = one[2] <= other[1] or other[2] <= one[1] or one[4] <= other[3] or other[4] <= one[3]
        assert apart, (one, other)
    assert all(left >= -1 and right <= WIDTH_PX + 1 for _, left, right, _, _ in boxes), boxes


def _lags() -> list[Lag]:
    at = TopicPartition("orders", 0)
    return [
        Lag(at_ms=AT + n * 1000, what="soak", total=n * 90_000_000, worst=n, worst_at=at, unknown=0)
        for n in range(60)
    ]


def _intervals(topic: str, to_ms: int) -> list[OwnershipInterval]:
    return [
        OwnershipInterval(
            partition=TopicPartition(topic, number),
            member=f"m{number}",
            start_ms=AT,
            end_ms=to_ms,
            unowned_ms=None,
            records=None,
        )
        for number in range(40)
    ]


def test_u18_labels_of_a_report_keep_apart() -> None:
    """Modes that were written one after the other, waits that are cut out, long names, large numbers."""
    later, topic = AT + 5 * HOUR, "a-topic-of-a-long-name-" * 8
    for waits in ((), (AT + 30 * HOUR,), (later, later + 20_000, AT + 80 * HOUR)):
        axis = axis_of([AT, AT + 20_000, AT + 40_000, AT + 60_000, *waits])
        _clear(lag_curve(_lags(), MODES, axis))
        _clear(owners(_intervals(topic, AT + 60_000), MODES, axis, {}))


def test_u18_labels_of_a_phase_report_keep_apart() -> None:
    """The same marks over lanes that have a colour each, and numbers over 300 partitions."""
    axis = axis_of([AT - 1000, AT + 60_000])
    bar = Bar(from_ms=AT, to_ms=AT + 5, title="m", fill="#123")
    shown = [Lane(name=f"a-topic-of-a-long-name-{number}", bars=[bar]) for number in range(150)]
    for count in (1, 30, 150):
        _clear(lanes("Owners", "said", shown[:count], axis, name="owners", modes=MODES))
    _clear(ownership("orders", range(300), {"before": {}, "after": {}}, {}))


@pytest.mark.parametrize("count", [313, 400, 1000, 5000])
def test_u18_the_owners_of_a_wide_topic_are_seen(count: int) -> None:
    """Cells become narrower than the gap between them; each still has a width, and its place."""
    owners = {("t", number): ("a", "b") for number in range(count)}
    svg = ownership("t", range(count), {"before": owners, "after": owners}, {"a": "#123", "b": "#456"})
    cells = [
        (float(each.get("x", 0)), float(each.get("width", 0)))
        for each in ET.fromstring(svg).iter("rect")  # noqa: S314 - our own
    ]
    assert len(cells) == 4 * count
    assert all(width > 0 for _, width in cells)
    assert all(x >= 0 and x + width <= WIDTH_PX for x, width in cells)
    _clear(svg)


def test_u18_signs_of_a_run_do_not_hide_each_other() -> None:
    """Verdicts and answers that were given at once."""
    signs = [Dot(at_ms=AT + number, sign="✓", title="pass", look="dot pass") for number in range(5)]
    shown = [Lane(name="gates", dots=signs), Lane(name="canary", dots=signs[:2])]
    svg = lanes("The run", "said", shown, axis_of([AT, AT + 30 * 60_000]), name="run")
    _clear(svg)
    circles = [
        (float(each.get("cx", 0)), float(each.get("cy", 0)))
        for each in ET.fromstring(svg).iter("circle")  # noqa: S314 - our own
    ]
    close = [pair for pair in combinations(circles, 2) if pair[0][1] == pair[1][1]]
    assert len(close) == 11
    assert all(abs(one[0] - other[0]) >= 16 for one, other in close), close


def test_bars_that_say_the_same_are_one_path_and_those_within_a_pixel_are_left_out() -> None:
    """A thousand hand-overs of one member need one element; a time without owner keeps its colour."""
    axis = axis_of([AT, AT + HOUR])
    many = [
        Bar(from_ms=AT + n * 3600, to_ms=AT + n * 3600 + 3500, title="m1", fill="#123") for n in range(1000)
    ]
    gap = Bar(from_ms=AT + 100_000, to_ms=AT + 400_000, title="no owner", look="unowned")
    svg = lanes("Owners", "said", [Lane(name="t-0", bars=many), Lane(name="t-1", bars=[gap])], axis, name="o")
    path, _ = ET.fromstring(svg).iter("path")  # noqa: S314 - our own
    assert 400 < (path.get("d") or "").count("z") < 900
    assert svg.count('class="unowned"') == 1


def test_u18_labels_of_bars_keep_apart() -> None:
    """Also above a few partitions beside many, and with numbers of 13 digits."""
    for counts in ((50, 8), (500, 2), (2, 500), (1, 1)):
        rows = [
            Row(name=name, values=[10**12] * count, shade="#123")
            for name, count in zip("ab", counts, strict=True)
        ]
        _clear(bars("live bytes", rows))


def test_u18_every_axis_has_a_unit() -> None:
    """Time is in UTC or seconds, lag in records, bars in what they count, columns are partitions."""
    axis = axis_of([AT, AT + 60_000])
    lag = [text for text, *_ in _boxes(lag_curve(_lags(), MODES, axis))]
    assert {"UTC", "records"} <= set(lag)
    lanes_of = [text for text, *_ in _boxes(owners(_intervals("t", AT + 60_000), (), axis, {}))]
    assert "UTC" in lanes_of
    drawn = [
        text for text, *_ in _boxes(bars("live records", [Row(name="now", values=[7, 3], shade="#123")]))
    ]
    assert any("live records" in text and "7" in text for text in drawn)
    assert any("partition" in text for text in drawn)
    cells = [text for text, *_ in _boxes(ownership("orders", [0, 1], {"before": {}}, {}))]
    assert "partition" in cells


def test_u18_no_two_greys_mean_different_things() -> None:
    """Of what lies on one time axis, one thing is grey; the others have a colour or an outline."""
    style = files("groupshift.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    greys = []
    for name in ("cut", "phase", "act", "waiting", "claim"):
        rule = re.search(rf"svg \.{name} {{ ([^}}]*) }}", style)
        assert rule is not None
        if re.search(r"fill: var\(--(soft|line)\)", rule[1]):
            greys.append(name)
    assert greys == ["phase"]


def test_a_cell_without_owner_and_one_with_two_are_told() -> None:
    """No owner is a frame of its own, two owners share the cell, a changed owner is marked."""
    before = {("orders", 0): ("a",), ("orders", 1): ("b",)}
    after = {("orders", 0): ("a", "b")}
    svg = ownership("orders", [0, 1], {"before": before, "after": after}, palette(["a", "b"]))
    assert "orders-1 after: no owner" in svg
    assert "orders-0 after: a and b" in svg
    assert svg.count('class="none"') == 1
    assert svg.count('class="moved"') == 2


def test_a_short_time_without_owner_is_seen_in_a_long_run() -> None:
    """Half a second within an hour has no pixel of its own, and is what a reader looks for."""
    before, after = (_intervals("t", AT + HOUR)[0] for _ in range(2))
    before = replace(before, end_ms=AT + 600_000)
    after = replace(after, member="m9", start_ms=AT + 600_500, unowned_ms=500)
    svg = owners([before, after], (), axis_of([AT, AT + 600_000, AT + HOUR]), {})
    assert svg.count('class="unowned"') == 1
    assert "t-0 had no owner for 500 ms" in svg


def test_members_have_colours_of_their_own_and_none_is_red() -> None:
    """A dozen members differ in hue; red is left to trouble."""
    colours = palette([f"m{number}" for number in range(12)])
    hues = [int(colour.removeprefix("hsl(").split()[0]) for colour in colours.values()]
    assert len(set(hues)) == 12
    assert all(20 <= hue <= 340 for hue in hues)
