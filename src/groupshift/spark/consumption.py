"""The audit of a group's consumption: what was lost, delivered twice, or delivered by the wrong member.

What the members delivered and what ZooKeeper's log says about ownership become frames. `register` makes
these views, in this order (columns as in ``sql/consumption/<view>.sql``)::

    deliveries     delivery, member, kind, topic, partition, offset, at_ms
    intervals      topic, partition, member, kind, thread_id, session, start_zxid, end_zxid, start_ms,
                   end_ms, ended
    offset_writes  topic, partition, offset, session, zxid, at_ms
    located, runs, tenures, hand_overs, duplicates      derived by SQL
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from os import SEEK_END
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.audit import ownership, txnlog
from groupshift.audit.ownership import History, Interval, OffsetWrite
from groupshift.domain.foreign_json import load_json
from groupshift.domain.log_gaps import Gap, GapRead, LogAnswer, isolation_of
from groupshift.domain.modes import Isolation, MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.seal import is_beside
from groupshift.domain.verdict import Verdict, worst
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import opened
from groupshift.spark.checks import Offence, Rows, Ruled, not_asked, offences, queried, ruled, statement
from groupshift.spark.output import write_parquet

STILL_HELD_MS = 9_007_199_254_740_991
"""Stands for the end of an interval that has not ended: later than any clock, exact in JSON."""

_LAST_LINE = 8 << 20
"""No delivery is longer (bytes)."""
_LEDGER = "member string, topic string, partition int, offset long, at_ms long, broken string"
_INTERVALS = (
    "topic string, partition int, member string, kind string, thread_id string, session long, "
    "start_zxid long, end_zxid long, start_ms long, end_ms long, ended string"
)
_WRITES = "topic string, partition int, offset long, session long, zxid long, at_ms long"
_DERIVED = ("located", "runs", "tenures", "hand_overs", "duplicates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One group's history in the transaction log, and sentences about what the log lacks."""

    history: History
    files: int
    transactions: int
    problems: tuple[str, ...]


def read_log(folder: Path, group: str, chroot: str = "") -> Log:
    """The group's history from all ``log.*`` files of ``version-2`` (or of a folder that holds one).

    Raises `Rejected` when there is no such file, `Broken` when one is damaged before its end.
    """
    inner = folder / "version-2"
    where = inner if inner.is_dir() else folder
    paths = sorted(path for path in where.glob("log.*") if path.is_file())
    if not paths:
        raise Rejected(f"there is no ZooKeeper transaction log (log.*) in {where}; give its version-2 folder")
    files = [txnlog.parse(_bytes(path), path.name) for path in paths]
    transactions = txnlog.merge(files)
    history = ownership.history(transactions, group, chroot)
    holes = [
        f"transactions {one + 1:#x} to {other - 1:#x} are missing"
        for one, other in txnlog.missing(transactions)
    ]
    if transactions and transactions[0].zxid & 0xFFFFFFFF != 1:
        holes.insert(0, f"the log begins at {transactions[0].zxid:#x}: what was before is unknown")
    return Log(
        history=history,
        files=len(paths),
        transactions=len(transactions),
        problems=(*holes, *history.problems),
    )


def _row(one: Interval | OffsetWrite) -> dict[str, Any]:
    """The fields of an interval or a write by their names, with topic and number of its partition."""
    columns = {each.name: getattr(one, each.name) for each in fields(one)}
    return {**columns, "topic": one.partition.topic, "partition": one.partition.partition}


def write_history(history: History, output: Path, until_ms: int) -> tuple[Path, Path]:
    """Owner intervals and offset writes up to `until_ms` as Parquet files below `output`."""
    intervals, writes = output / "intervals.parquet", output / "offset_writes.parquet"
    owned = [
        {
            **_row(one),
            "member": one.member_id,
            "kind": history.kinds.get(one.member_id, MemberKind.ZOOKEEPER),
            "end_ms": STILL_HELD_MS if one.end_ms is None else one.end_ms,
        }
        for one in history.intervals
        if one.start_ms <= until_ms
    ]
    write_parquet(intervals, owned, _INTERVALS)
    write_parquet(writes, [_row(one) for one in history.offset_writes if one.at_ms <= until_ms], _WRITES)
    return intervals, writes


def torn_ledgers(folder: Path) -> tuple[str, ...]:
    """Names of ledgers whose last line is incomplete, as a member killed while writing leaves it.

    Raises `Rejected` when the folder is not there.
    """
    if not folder.is_dir():
        raise Rejected(f"the folder of ledgers {folder} does not exist; give --ledgers an existing folder")
    torn = []
    for path in sorted(_ledgers(folder)):
        last = _bytes(path, _LAST_LINE).rpartition(b"\n")[2]
        try:
            if last:
                load_json(last, "it", at_most=_LAST_LINE)
        except Rejected:
            torn.append(path.name)
    return tuple(torn)


def _ledgers(folder: Path) -> Iterator[Path]:
    """Without what a desktop left beside them; Spark passes such names by, too."""
    return (path for path in folder.glob("*.jsonl") if not is_beside(path.name))


def _bytes(path: Path, last: int | None = None) -> bytes:
    """A file, or its ``last`` bytes. Raises `Broken` for what cannot be read: a pipe would be waited for."""
    try:
        with opened(path) as file:
            if last is not None:
                file.seek(max(0, file.seek(0, SEEK_END) - last))
            return file.read()
    except OSError as wrong:
        raise Broken(f"{path} cannot be read ({wrong.strerror or wrong}): look at its folder") from wrong


def read_ledgers(spark: SparkSession, folder: Path, torn: Sequence[str]) -> DataFrame:
    """Every delivery of every ``*.jsonl`` of the folder; the last line of `torn` ledgers is left out.

    Raises `Broken`, naming the file and the line, when any other line is no delivery.
    """
    if not any(_ledgers(folder)):
        return spark.createDataFrame([], _LEDGER)
    reader = spark.read.schema(_LEDGER).option("mode", "PERMISSIVE")
    lines = (
        reader.option("columnNameOfCorruptRecord", "broken")
        .json(str(folder / "*.jsonl"))
        .withColumn("file", F.element_at(F.split(F.input_file_name(), "/"), -1))
        .cache()
    )
    wanted = ("member", "topic", "partition", "offset", "at_ms")
    empty = " or ".join(f"{name} is null" for name in wanted)
    bad = lines.where(F.col("broken").isNotNull() | F.expr(empty)).select("file", "broken").collect()
    forgiven = set(torn)
    for row in bad:
        if row["file"] not in forgiven:
            raise Broken(f"ledger {row['file']} has the line {row['broken']!r}, which is no delivery")
        forgiven.discard(row["file"])
    return lines.where(F.col("broken").isNull()).drop("broken", "file")


def register(
    spark: SparkSession,
    ledgers: DataFrame,
    history: tuple[Path, Path],
    kinds: Mapping[str, MemberKind],
    window: Window,
) -> None:
    """Register the source views and the derived ones, each cached, for several others read it; deliveries
    after the window are left out.

    A member that ZooKeeper never saw below ``ids`` is a plain Kafka consumer.
    """
    known = F.lit(MemberKind.PLAIN.value)
    for member, kind in kinds.items():
        known = F.when(F.col("member") == member, kind.value).otherwise(known)
    deliveries = (
        ledgers.where(F.col("at_ms") <= window.to_ms)
        .withColumn("kind", known)
        .withColumn("delivery", F.monotonically_increasing_id())
        .cache()
    )
    deliveries.createOrReplaceTempView("deliveries")
    for name, path in zip(("intervals", "offset_writes"), history, strict=True):
        spark.read.parquet(str(path)).cache().createOrReplaceTempView(name)
    for name in _DERIVED:
        frame = queried(spark, statement("consumption", name), {"tolerance_ms": window.tolerance_ms})
        frame.cache().createOrReplaceTempView(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What counts: events from ``from_ms`` to ``to_ms`` (epoch). ``tolerance_ms`` is how late the stamp
    of a delivery by an old member may be: it is taken by a recorder behind a pipe."""

    from_ms: int
    to_ms: int
    tolerance_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the queries found, as rows; times are epoch milliseconds. ``duplicates``, ``unexplained`` and
    ``hand_overs`` are those within the window, ``owners`` and ``plain`` are overlaps of either sort. ``lost``
    are offsets delivered to nobody; of those that the log was asked about the ones where it holds records
    (``records``), while ``unproven`` are those of which it cannot tell, and ``empty`` those where it holds
    nothing for their reader."""

    lost: Rows
    duplicates: Rows
    unexplained: Rows
    hand_overs: Rows
    outside: Rows
    owners: Rows
    plain: Rows
    partitions: Rows
    members: Rows
    unproven: Rows = ()
    empty: Rows = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was measured, what the log holds, and the findings."""

    group: str
    window: Window
    log: Log
    torn: tuple[str, ...]
    measured: Measured

    @property
    def results(self) -> tuple[Ruled, ...]:
        """Every finding, passed ones too, in order of their rules."""
        return judge(self.measured, self.log, self.window)

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings."""
        return worst(result.finding.verdict for result in self.results)

    @property
    def totals(self) -> dict[str, int]:
        """The figures of the whole window: deliveries, records that were delivered to nobody (offsets, where
        the log was not asked), deliveries beyond the first of their record, overlaps of owner intervals, of
        plain consumers and of deliveries while another owned, ranges delivered again that no hand-over
        explains, and the longest time that any partition was without owner between two tenures."""
        measured = self.measured
        delivered = sum(row["overlapping"] for row in measured.outside)
        return {
            "deliveries": sum(row["deliveries"] for row in measured.partitions),
            "lost": lost_of(measured.lost),
            "duplicates": sum(row["records"] for row in measured.duplicates),
            "overlaps": len(measured.owners) + len(measured.plain) + int(delivered),
            "unexplained": sum(row["objection"] is not None for row in measured.duplicates),
            "longest_unowned_ms": max((row["longest_unowned_ms"] for row in measured.partitions), default=0),
        }


def lost_of(rows: Rows) -> int:
    """How many records these ranges stand for."""
    return sum(row.get("records", row["to_offset"] - row["from_offset"] + 1) for row in rows)


Ask = Callable[[Sequence[Gap]], Sequence[GapRead]]


def _answered(rows: Rows, ask: Ask, isolation: Isolation) -> dict[LogAnswer, list[Mapping[str, Any]]]:
    """Ranges that nobody was given, by what the log says about them; without an answer they are lost."""
    gaps = [
        Gap(
            partition=TopicPartition(row["topic"], row["partition"]),
            start=row["from_offset"],
            end=row["to_offset"] + 1,
            isolation=isolation_of((MemberKind(kind) for kind in row["kinds"] or () if kind), isolation),
        )
        for row in rows
    ]
    answers = ask(gaps) if gaps else ()
    by_answer: dict[LogAnswer, list[Mapping[str, Any]]] = {each: [] for each in LogAnswer}
    for row, read in zip_longest(rows, answers):
        said = {name: value for name, value in row.items() if name != "kinds"}
        if read is not None:
            said["reason"] = f"{row['reason']}: {read.reason}"
        if read is not None and read.answer is LogAnswer.LOST:
            said["records"] = read.records
        by_answer[LogAnswer.LOST if read is None else read.answer].append(said)
    return by_answer


def measure(spark: SparkSession, window: Window, *, ask: Ask, isolation: Isolation) -> Measured:
    """Run every query on the registered views (see `register`). ``ask`` asks the log
    about ranges that were delivered to nobody; ``isolation`` is the level of all but old members."""

    def rows(text: str, until_ms: int = window.to_ms) -> list[dict[str, Any]]:
        within = {"from_ms": window.from_ms, "to_ms": until_ms}
        return [row.asDict() for row in queried(spark, text, within).collect()]

    def check(name: str) -> list[dict[str, Any]]:
        return rows(statement("checks/consumption", name), window.to_ms - window.tolerance_ms)

    answers = _answered(check("lost"), ask, isolation)
    partitions = rows(statement("consumption", "partitions"))
    for total in partitions:
        at = total["topic"], total["partition"]
        lost_here = [row for row in answers[LogAnswer.LOST] if (row["topic"], row["partition"]) == at]
        total["lost"] = lost_of(lost_here)
    return Measured(
        lost=answers[LogAnswer.LOST],
        duplicates=rows(
            "SELECT * FROM duplicates WHERE first_ms BETWEEN :from_ms AND :to_ms "
            "ORDER BY topic, partition, from_offset"
        ),
        unexplained=rows(statement("checks/consumption", "unexplained_duplicates")),
        hand_overs=rows(
            "SELECT * FROM hand_overs WHERE end_ms >= :from_ms AND start_ms <= :to_ms "
            "ORDER BY topic, partition, number"
        ),
        outside=check("outside_ownership"),
        owners=check("owner_overlap"),
        plain=check("plain_overlap"),
        partitions=partitions,
        members=rows(statement("consumption", "members")),
        unproven=answers[LogAnswer.NOT_PROVEN],
        empty=answers[LogAnswer.NOTHING],
    )


_LOG_HINT = "give every log file of the ZooKeeper server since the group began"
_LEDGERS = "look at the members' ledgers"
_LOST = "find out who committed past these offsets; the records are still in the log of the partition"
_UNPROVEN = "the log no longer has these offsets, or cannot tell yet: ask the owners of the application"
_DUPLICATES = "the former owner was not stopped, or the taker did not start at the committed offset"
_OUTSIDE = "a member delivered a partition that was not its own: a fence did not hold"


def judge(measured: Measured, log: Log, window: Window) -> tuple[Ruled, ...]:
    """The findings A01 to A08. Pure."""
    members, partitions, again = measured.members, measured.partitions, measured.duplicates
    whole = f"ZooKeeper's log is whole: {log.transactions} transactions in {log.files} files"
    holes = [Offence(reason=problem) for problem in log.problems]
    total = sum(row["deliveries"] for row in partitions)
    delivered = f"{total} deliveries of {len(partitions)} partitions by {len(members)} members"
    nothing = [] if partitions else [Offence(reason="the ledgers hold no delivery: nothing can be proven")]
    none_lost = "no record is missing between the first and the last delivered"
    if passed := sum(row["to_offset"] - row["from_offset"] + 1 for row in measured.empty):
        none_lost += f": the log holds nothing for their readers at {passed} offsets that nobody was given"
    once = "no record was delivered twice"
    if again:
        records = sum(row["records"] for row in again)
        once = f"all {len(again)} ranges delivered again ({records} records) are explained by their hand-over"
    inside = "every delivery of a member with owner nodes lies within its ownership"
    if late := max((row["latest_stamp_ms"] for row in members), default=0):
        inside += f"; the latest stamp behind a pipe came {late} ms after (allowed: {window.tolerance_ms} ms)"
    apart = "owner intervals of a partition never overlap"
    plain = sum(row["kind"] == "plain" for row in members)
    if measured.plain or plain:
        alone = f"{plain} plain consumers never overlapped another member"
        overlapped = ruled("A07", alone, offences(measured.plain), hint=_OUTSIDE)
    else:
        overlapped = not_asked("A07", "no plain consumer overlapped another member", "there was none")
    proven = "of every offset that nobody was given the log tells whether it held a record"
    open_ = Verdict.INCONCLUSIVE
    if (
        measured.unproven or measured.empty
    ):  # where the log no longer has a range it is neither lost nor proven
        answered = ruled("A08", proven, offences(measured.unproven), verdict=open_, hint=_UNPROVEN)
    else:
        answered = not_asked("A08", proven, "the log did not have to be asked")
    return (
        ruled("A01", whole, holes, verdict=open_, hint=_LOG_HINT),
        ruled("A02", delivered, nothing, verdict=Verdict.ERROR, hint=_LEDGERS),
        ruled("A03", none_lost, offences(measured.lost), hint=_LOST),
        ruled("A04", once, offences(measured.unexplained), hint=_DUPLICATES),
        ruled("A05", inside, offences(measured.outside), hint=_OUTSIDE),
        ruled("A06", apart, offences(measured.owners), hint=_LOG_HINT),
        overlapped,
        answered,
    )
