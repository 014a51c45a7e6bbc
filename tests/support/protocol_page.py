"""The tables of ``docs/reference/protocol-answers.md``.

To print them: ``PYTHONPATH=tests python -m support.protocol_page``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from groupshift.domain import group_gauges
from groupshift.domain.protocol.answers import TABLE, CoordinatorEvent
from groupshift.domain.protocol.live_rules import RULES as MOVE_RULES
from groupshift.domain.protocol.live_rules import SETTLED
from groupshift.domain.protocol.preflight import RULES
from groupshift.domain.rules import Rules
from groupshift.moves.protocol.liveness import WATCHED

BEGIN = "<!-- protocol tables: made by support.protocol_page -->"
END = "<!-- end of protocol tables -->"

_TITLES = {
    CoordinatorEvent.NATIVE_JOINS: "A native member joins (ConsumerGroupHeartbeat with epoch 0)",
    CoordinatorEvent.CLASSIC_JOINS: "A classic member joins (JoinGroup)",
    CoordinatorEvent.LAST_NATIVE_LEAVES: "The last native member leaves",
}
_BLANKS = {
    "serves": "the consumer protocol is off (release, list of protocols, or feature)",
    "kind": "share or streams",
    "protocol": "in use",
    "protocol_type": "*type*",
}
"""What stands in the tables where a sentence has values; elsewhere the value's name."""


def markdown() -> str:
    """The answers, the rules of the preflight and those of the sensor, between `BEGIN` and `END`."""
    answers = [_answers(event) for event in CoordinatorEvent]
    rules = _rules("Rules of `protocol assess`", RULES)
    waits = _rules("Rules of `watch RUN`: is the group settled", SETTLED)
    phases = _rules("Rules of the phases of `protocol run`", MOVE_RULES)
    watched = _rules("Rules of `watch RUN`: are its members there", WATCHED)
    sums = "### Rules of `downgrade assess --jmx`\n\n" + _table(
        ("rule", "passes when"), ((rule.number, rule.holds) for rule in group_gauges.RULES.values())
    )
    return "\n\n".join([BEGIN, *answers, rules, phases, waits, watched, sums, END])


def _rules(title: str, rules: Rules[Any]) -> str:
    rows = ((rule.number, rule.holds) for rule in rules.values())
    return f"### {title}\n\n" + _table(("rule", "passes when"), rows)


def _answers(event: CoordinatorEvent) -> str:
    rows = (
        (row.number, _sentence(row.reason), row.outcome, row.kind or "", row.error, row.remedy)
        for row in TABLE[event]
    )
    heads = ("row", "because", "outcome", "type after", "error", "what helps")
    return f"### {_TITLES[event]}\n\n" + _table(heads, rows)


def _sentence(reason: str) -> str:
    return re.sub(r"\{(?:\w+\.)?(\w+)(?:!r)?\}", lambda found: _BLANKS.get(found[1], f"*{found[1]}*"), reason)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [" | ".join(heads), "|".join("---" for _ in heads)]
    lines += [" | ".join(row) for row in rows]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


if __name__ == "__main__":
    print(markdown())
