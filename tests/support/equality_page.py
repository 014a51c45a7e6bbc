"""The equality rules as the tables of ``docs/reference/equality-rules.md``.

To print them: ``PYTHONPATH=tests python -m support.equality_page``.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupshift.domain.equality_rules import RULES, Comparison, EqualityRule

BEGIN = "<!-- equality rules: made by support.equality_page -->"
END = "<!-- end of equality rules -->"

_TITLES = {
    Comparison.PROTOCOL: "classic protocol to consumer protocol (KIP-848)",
    Comparison.PROTOCOL_BACK: "consumer protocol to classic protocol",
    Comparison.DOWNGRADE: "brokers replaced by older ones (KIP-915)",
    Comparison.COORDINATION: "ZooKeeper to Kafka coordination, and back (KIP-125)",
    Comparison.EXPANSION: "more partitions of the offsets topic (KIP-895)",
    Comparison.CLUSTER: "to another cluster (KIP-545)",
}


def markdown() -> str:
    """One table a move, in the order of `Comparison`, between the marks `BEGIN` and `END`."""
    sections = [_section(comparison, RULES[comparison]) for comparison in Comparison]
    return "\n\n".join([BEGIN, *sections, END])


def _section(comparison: Comparison, rules: Sequence[EqualityRule]) -> str:
    head = f"#### `{comparison}`: {_TITLES[comparison]}"
    lines = ["| rule | field | demand | why | source |", "|---|---|---|---|---|"]
    lines += [
        f"| {rule.number} | {rule.title} | {rule.text} | {rule.reason} | {rule.source} |" for rule in rules
    ]
    return head + "\n\n" + "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
