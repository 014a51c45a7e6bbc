"""The run as a picture: stages, acts, verdicts, and the gates with the time they waited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from groupshift.application.account import Account
from groupshift.application.event_text import event_text
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import Event, EventKind
from groupshift.spark.account.axis import Axis, clock, dots, mode_marks, picture, ticks
from groupshift.spark.html import Markup, duration, join, tag

_TOP, _LANE, _BAR = 22, 30, 16
SIGNS = {Verdict.PASS: "✓", Verdict.INCONCLUSIVE: "?", Verdict.ERROR: "!", Verdict.FAIL: "✕"}
"""A verdict without its colour."""


def run_picture(account: Account, axis: Axis) -> Markup:
    """One lane for the runs and gates, one a stage in the order in which they began."""
    events = account.status.events
    stages = list(dict.fromkeys(event.stage for event in events if event.stage))
    bottom = _TOP + (len(stages) + 1) * _LANE
    parts = [ticks(axis, _TOP, bottom), mode_marks(axis, account.modes, bottom), *_gates(events, axis)]
    for line, stage in enumerate(stages, 1):
        own = [event for event in events if event.stage is stage]
        parts += _stage(str(stage), own, axis, _TOP + line * _LANE)
    said = f"{len(stages)} stages from {clock(axis.from_ms)} to {clock(axis.to_ms)} UTC: " + ", ".join(
        f"{stage}" for stage in stages
    )
    return picture("run", "The run over time", said, bottom + 24, *parts)


def _label(text: str, top: float) -> Markup:
    return tag("text", text.replace("_", " "), x=0, y=top + 19)


def _gates(events: Sequence[Event], axis: Axis) -> Iterator[Markup]:
    """When a gate was shown, how long it waited, and a number for each answer (see the table)."""
    yield _label("gates", _TOP)
    shown: dict[str, int] = {}
    answers = [axis.x(event.at_ms) for event in events if event.kind is EventKind.GATE_ANSWERED]
    places = dots(answers)
    number = 0
    for event in events:
        if event.kind is EventKind.CLAIMED:
            x = axis.x(event.at_ms)
            title = tag("title", f"run {event.body.get('run', '')} took over at {clock(event.at_ms)}")
            yield tag("rect", title, x=x, y=_TOP + 3, width=2, height=5, class_="claim")
        elif event.kind is EventKind.GATE_SHOWN:
            shown.setdefault(str(event.body["gate"]), event.at_ms)
        elif event.kind is EventKind.GATE_ANSWERED:
            number += 1
            since = shown.pop(str(event.body["gate"]), event.at_ms)
            yield _answer(event, number, since, (axis.x(since), places[number - 1]))


def _answer(event: Event, number: int, since: int, place: tuple[float, float]) -> Markup:
    left, right = place
    waited = f"{event_text(event)}, after {duration(event.at_ms - since)}"
    kind = "no" if event.body["choice"] == "reject" else "yes"
    return join(
        (
            tag("rect", x=left, y=_TOP + 13, width=max(1, right - left), height=4, class_="waiting"),
            tag("circle", tag("title", waited), cx=right, cy=_TOP + 15, r=8, class_=f"gate {kind}"),
            tag("text", number, x=right, y=_TOP + 19, text_anchor="middle", class_="on"),
        )
    )


def _stage(name: str, own: Sequence[Event], axis: Axis, top: float) -> Iterator[Markup]:
    yield _label(name, top)
    left, right = axis.x(own[0].at_ms), axis.x(own[-1].at_ms)
    took = f"{name}: {clock(own[0].at_ms)} to {clock(own[-1].at_ms)}, "
    took += duration(own[-1].at_ms - own[0].at_ms)
    size = {"y": top + 7, "height": _BAR, "rx": 4}
    yield tag(
        "rect", tag("title", took), x=left, width=max(2, round(right - left, 1)), class_="stage", **size
    )
    acting = [event for event in own if event.kind in {EventKind.INTENDED, EventKind.ACTED}]
    settled = [event for event in own if event.kind is EventKind.SNAPSHOT and event.body["moment"] == "after"]
    if acting:
        begin = axis.x(acting[0].at_ms)
        end = axis.x(settled[-1].at_ms if settled else own[-1].at_ms)
        title = tag("title", f"{name} acted; until its snapshot afterwards")
        yield tag("rect", title, x=begin, width=max(2, round(end - begin, 1)), class_="act", **size)
    judged = [event for event in own if event.kind is EventKind.JUDGED]
    for event, x in zip(judged, dots([axis.x(event.at_ms) for event in judged]), strict=True):
        yield _verdict(event, x, top)


def _verdict(event: Event, x: float, top: float) -> Markup:
    verdict = Verdict(event.body["verdict"])
    return join(
        (
            tag("circle", tag("title", event_text(event)), cx=x, cy=top + 15, r=8, class_=f"dot {verdict}"),
            tag("text", SIGNS[verdict], x=x, y=top + 19, text_anchor="middle", class_="on"),
        )
    )
