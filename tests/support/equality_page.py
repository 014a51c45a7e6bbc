"""The equality rules as the tables of ``docs/reference/equality-rules.md``.

To print them: ``PYTHONPATH=tests python -m support.equality_page``.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupshift.domain.equality_rules import RULES, Comparison, EqualityRule
from groupshift.domain.phase_rules import PHASE_RULES, Needed

BEGIN = "<!-- equality rules: made by support.equality_page -->"
END = "<!-- end of equality rules -->"

_OF_THE_JOB = {
    "V01": (
        "all files of both snapshots are the ones their manifests name",
        "take no decision on this evidence",
    ),
    "V02": ("every table has the promised columns", ""),
    "V21": ("the suite of Great Expectations holds for the snapshot before", ""),
    "V22": ("the suite of Great Expectations holds for the snapshot after", ""),
    "V25": (
        "every committed offset is of a partition that a member reads",
        "no member reads it, so another client wrote it: find out which one",
    ),
}
"""What `groupshift.spark.validation` judges by itself: what holds, and the hint."""

_ASKED_OF = {
    Needed.KAFKA_MODE: "a group in kafka mode",
    Needed.MEMBERS: "a group with members",
    Needed.CANARY: "a canary that was replaced",
    Needed.PAIR: "two snapshots",
}

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
    return "\n\n".join([BEGIN, *sections, _phases(), END])


def _phases() -> str:
    """The rules around a phase of a group's move from ZooKeeper to Kafka, in the order of their numbers."""
    rows = {rule.rule: (rule.holds, rule.hint, rule.only) for rule in PHASE_RULES}
    rows |= {number: (*texts, ()) for number, texts in _OF_THE_JOB.items()}
    lines = [
        "#### Phases of `coordination`",
        "",
        "| rule | holds when | else | asked of |",
        "|---|---|---|---|",
    ]
    for number in sorted(rows):
        holds, hint, only = rows[number]
        asked_of = ", ".join(_ASKED_OF[each] for each in only) or "every snapshot"
        lines.append(f"| {number} | {holds} | {hint} | {asked_of} |")
    return "\n".join(lines)


def _section(comparison: Comparison, rules: Sequence[EqualityRule]) -> str:
    head = f"#### `{comparison}`: {_TITLES[comparison]}"
    lines = ["| rule | field | demand | why | source |", "|---|---|---|---|---|"]
    lines += [
        f"| {rule.number} | {rule.title} | {rule.text} | {rule.reason} | {rule.source} |" for rule in rules
    ]
    return head + "\n\n" + "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
