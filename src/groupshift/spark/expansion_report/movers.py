"""The groups that an expansion moves: a table, and a picture of how many leave and reach each partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from groupshift.application.expansion_plan import ExpansionPlan
from groupshift.moves.expansion.load import Mover
from groupshift.spark import picture as colours
from groupshift.spark.expansion_report.bars import Row, bars
from groupshift.spark.html import Markup, join, table, tag

_SHOWN = 500


def movers_table(movers: Sequence[Mover], all_by: str) -> Markup:
    """The first of them, and how many more: ``all_by`` shows them."""
    shown = movers[:_SHOWN]
    rest = len(movers) - len(shown)
    more = tag("p", f"and {rest:,} more: {all_by}", class_="hint") if rest else Markup("")
    rows = ((each.group, each.before, each.after) for each in shown)
    body = table(
        ("group", "from partition", "to partition"), rows, numeric=("from partition", "to partition")
    )
    return join((body, more)) if shown else tag("p", "None.")


def moving_picture(plan: ExpansionPlan) -> Markup:
    """How many groups leave each partition, and how many come."""
    if not plan.movers:
        return Markup("")
    leave, come = Counter(each.before for each in plan.movers), Counter(each.after for each in plan.movers)
    shades = {"leave": colours.colour(0), "come": colours.colour(1)}
    rows = [
        Row(name="leave", values=[leave[number] for number in range(plan.before)], shade=shades["leave"]),
        Row(name="come", values=[come[number] for number in range(plan.to)], shade=shades["come"]),
    ]
    return join((colours.legend(shades, {}), bars("groups that move", rows)))
