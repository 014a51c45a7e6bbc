"""Pictures as inline SVG: who owned which partition, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from groupshift.spark.html import Markup, join, tag

_HUES = (212, 150, 38, 268, 185, 90, 300, 55, 236, 125, 20, 170)
"""Far apart for neighbours, and none is red: red means that nobody, or more than one, owns a partition."""

Owners = Mapping[tuple[str, int], tuple[str, ...]]
"""The owners' member ids of each (topic, partition); normally exactly one."""


def colour(index: int) -> str:
    """The colour of the member with that index; reads on white and on black."""
    light = 50 + 9 * (index // len(_HUES) % 3)
    return f"hsl({_HUES[index % len(_HUES)]} 55% {light}%)"


def palette(members: Sequence[str]) -> dict[str, str]:
    """A colour for every member, the same in every picture of a report."""
    return {member: colour(index) for index, member in enumerate(sorted(set(members)))}


def legend(colours: Mapping[str, str], notes: Mapping[str, str]) -> Markup:
    """Members with their colours; `notes` (kind and the like) behind the name."""
    entries = (
        tag("span", tag("i", style=f"background:{shade}"), member, _note(notes.get(member, "")))
        for member, shade in colours.items()
    )
    return tag("div", *entries, class_="legend")


def _note(text: str) -> Markup:
    return tag("span", f" {text}", class_="hint") if text else Markup()


_LEFT, _CELL_HEIGHT, _WIDTH, _GAP = 64, 30, 1000, 3


def ownership(
    topic: str, partitions: Sequence[int], moments: Mapping[str, Owners], colours: Mapping[str, str]
) -> Markup:
    """One row a moment, one cell a partition, coloured by owner; a cell that changed owner is framed.

    A partition without an owner is a dashed red frame; one with several shows all of them.
    """
    width = min(90.0, (_WIDTH - _LEFT) / max(1, len(partitions)))
    rows: list[Markup] = []
    former: Owners | None = None
    for line, (moment, owners) in enumerate(moments.items()):
        top = 20 + line * (_CELL_HEIGHT + 6)
        rows.append(tag("text", moment, x=0, y=top + 20))
        for column, partition in enumerate(partitions):
            box = (_LEFT + column * width, top, width - min(_GAP, width / 4))
            here = owners.get((topic, partition), ())
            moved = former is not None and former.get((topic, partition), ()) != here
            label = f"{topic}-{partition} {moment}: {' and '.join(here) or 'no owner'}"
            rows.append(_cell(box, here, colours, label, "moved" if moved else ""))
        former = owners
    height = 20 + len(moments) * (_CELL_HEIGHT + 6)
    drawn = (tag("title", f"Owners of {topic}"), *_heads(partitions, width), *rows)
    box_of_all = f"0 0 {_WIDTH} {height}"
    return tag("svg", *drawn, viewBox=box_of_all, role="img", width=_WIDTH, height=height)


def _heads(partitions: Sequence[int], width: float) -> list[Markup]:
    """Numbers above the cells, as many as fit."""
    least = 8 + 7 * max((len(str(partition)) for partition in partitions), default=1)
    step = max(1, ceil(least / width))
    places = [(partition, _LEFT + (column + 0.5) * width) for column, partition in enumerate(partitions)]
    unit = tag("text", "partition", x=0, y=14, class_="soft")
    return [unit] + [
        tag("text", str(partition), x=round(x - _GAP / 2, 1), y=14, text_anchor="middle", class_="soft")
        for partition, x in places[::step]
    ]


def _cell(
    box: tuple[float, float, float], owners: Sequence[str], colours: Mapping[str, str], label: str, mark: str
) -> Markup:
    left, top, width = box
    title = tag("title", label)
    size = {"y": top, "height": _CELL_HEIGHT, "rx": 4}
    if not owners:
        return tag("rect", title, x=round(left, 2), width=round(width, 2), class_="none", **size)
    part = width / len(owners)
    return join(
        tag(
            "rect",
            title,
            x=round(left + index * part, 2),
            width=max(0.01, round(part, 2)),
            fill=colours.get(owner, "#888"),
            class_=mark,
            **size,
        )
        for index, owner in enumerate(owners)
    )
