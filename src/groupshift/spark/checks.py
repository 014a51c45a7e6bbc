"""SQL checks of snapshots, and the way from their rows to findings and ``verdict.json``.

Every statement below ``sql/checks`` returns the rows that break its rule and nothing else: ``topic``,
``partition`` (both may be null) and ``reason``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from groupshift.domain.phase_rules import PHASE_RULES, AllowedChanges, PhaseRule
from groupshift.domain.tables import shipped
from groupshift.domain.verdict import Finding, Verdict, worst

Rows = Sequence[Mapping[str, Any]]
SNAPSHOT_CHECKS = tuple(rule for rule in PHASE_RULES if rule.statement)
"""The rules that a statement below ``sql/checks/snapshot`` asks."""
_ANSWERS = "topic string, partition int, from_offset long, to_offset long, answer string, reason string"
_ANSWERED = ("topic", "partition", "from", "to", "answer", "reason")
_NAMED = 3
VERDICT_VERSION = 1


def statement(folder: str, name: str) -> str:
    """Return the text of one statement of ``sql/<folder>``.

    Raises:
        FileNotFoundError: there is none.
    """
    return shipped(f"sql/{folder}/{name}.sql")


def queried(spark: SparkSession, text: str, arguments: Mapping[str, Any], **frames: DataFrame) -> DataFrame:
    """Return what a statement finds; of ``arguments`` it gets the arguments that it names (``:name``)."""
    used = {
        name: str(value) if isinstance(value, StrEnum) else value
        for name, value in arguments.items()
        if f":{name}" in text
    }
    return spark.sql(text, args=used or None, **frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offence:
    """One offending row: where (all may be None) and why, as the end of a sentence."""

    reason: str
    topic: str | None = None
    partition: int | None = None
    group: str | None = None

    def __str__(self) -> str:
        place = f"{self.topic}-{self.partition}" if self.partition is not None else self.topic
        where = ", ".join(filter(None, (self.group and f"group {self.group}", place)))
        return f"{where}: {self.reason}" if where else self.reason


def offences(rows: Iterable[Row | Mapping[str, Any]]) -> tuple[Offence, ...]:
    """Return what rows with ``topic``, ``partition``, ``reason`` and perhaps ``group`` say, in order."""
    names = [each.name for each in fields(Offence)]
    return tuple(Offence(**{name: row[name] for name in names if name in row}) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruled:
    """A finding with the rows it rests on: ``count`` of them, of which the first are ``offences``; ``about``
    is what else ``verdict.json`` says of the rule."""

    finding: Finding
    offences: tuple[Offence, ...] = ()
    count: int = 0
    about: Mapping[str, str] = field(default_factory=dict)


def not_asked(rule: str, holds: str, why: str) -> Ruled:
    """Return the finding of a rule that was not asked, or could not fail: it passes, and counts apart."""
    return Ruled(finding=Finding(rule=rule, verdict=Verdict.PASS, reason=f"{holds}: {why}", applies=False))


def ruled(
    rule: str,
    holds: str,
    met: Sequence[Offence],
    *,
    verdict: Verdict = Verdict.FAIL,
    hint: str = "",
    count: int = 0,
) -> Ruled:
    """Return the finding of a rule: ``holds`` passes when nothing was found; else ``verdict``, naming the
    first offending rows (of ``count``, where not all of them were read)."""
    if not (met or count):
        return Ruled(finding=Finding(rule=rule, verdict=Verdict.PASS, reason=holds))
    count = count or len(met)
    finding = Finding(rule=rule, verdict=verdict, reason=first(map(str, met), count), hint=hint)
    return Ruled(finding=finding, offences=tuple(met), count=count)


def first(said: Iterable[str], count: int) -> str:
    """Return the first three sentences, and how many of all (``count``) there are more."""
    more = f"; and {count - _NAMED:,} more" if count > _NAMED else ""
    return "; ".join(islice(said, _NAMED)) + more


def register(spark: SparkSession, changes: AllowedChanges) -> None:
    """Make the views that the checks read besides ``before_*`` and ``after_*``: what the log answered, the
    offsets that no member reads, what was delivered to nobody, and all differences."""
    answers = [tuple(each[name] for name in _ANSWERED) for each in changes.log]
    spark.createDataFrame(answers, _ANSWERS).createOrReplaceTempView("log_answers")
    for name in ("leftovers", "undelivered", "differences"):
        spark.sql(statement("checks", name)).coalesce(1).cache().createOrReplaceTempView(name)


def run(
    spark: SparkSession,
    changes: AllowedChanges,
    wanted: Sequence[PhaseRule] = SNAPSHOT_CHECKS,
    *,
    itself: bool = False,
) -> Iterator[Ruled]:
    """Yield what the ``wanted`` checks say of the registered views; ``itself``: both snapshots are one, of
    which nothing that is held against itself is asked."""
    names = ("gap", "replaced", "mode_text", "effective_mode")
    arguments = {name: getattr(changes, name) for name in names}
    arguments |= {"old": changes.old or "", "new": changes.new or ""}
    for rule in wanted:
        if why := rule.unasked(changes, itself=itself):
            yield not_asked(rule.rule, rule.holds, why)
            continue
        met = offences(queried(spark, statement("checks/snapshot", rule.statement), arguments).collect())
        if not met and rule.about and not spark.sql(f"SELECT {rule.about} AS there").collect()[0]["there"]:
            yield not_asked(rule.rule, rule.holds, "there is nothing that it could be asked of")
        elif not met and rule.explained:
            explained = offences(spark.sql(statement("checks", rule.explained)).collect())
            named = ruled(rule.rule, rule.holds, explained, verdict=Verdict.PASS)
            yield Ruled(finding=named.finding)
        else:
            yield ruled(rule.rule, rule.holds, met, verdict=rule.verdict, hint=rule.hint)


def finding_data(result: Ruled) -> dict[str, Any]:
    """Return one finding as plain values; ``count`` is the number of offending rows."""
    return {**asdict(result.finding), **result.about, "count": result.count}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a comparison came to, as ``verdict.json`` has it: findings by rule, and fields of its own."""

    results: tuple[Ruled, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings."""
        return worst(result.finding.verdict for result in self.results)

    def to_data(self) -> dict[str, Any]:
        """Return ``verdict.json`` as plain values: the own fields, and the findings under ``findings``."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "results"}
        findings = [finding_data(result) for result in self.results]
        return {"version": VERDICT_VERSION, "verdict": self.verdict, **own, "findings": findings}


def to_json(data: Mapping[str, Any]) -> str:
    """Return readable JSON; keys stay in their order."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
