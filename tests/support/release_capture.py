"""A story told on a real broker of a release, and everything about it that is compared afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from groupshift.adapters.spark_submit.java import java_home
from groupshift.log import Decoded, LogRecord, decode
from groupshift.log.group_states import GroupFamily, State, materialise
from groupshift.spark.batches.coordinator_records import COLUMNS, cell
from groupshift.spark.batches.transactions import NONE
from groupshift.spark.broker_source import Brokers, fetched
from groupshift.spark.coordinator_log import decoded, groups, winners
from groupshift.spark.segments import read_segments, scan_segments
from groupshift.spark.session import local_session
from groupshift_sandbox.home import Home
from support.release_answers import Answer, answers, expected
from support.release_broker import PARTITIONS, TOPIC, Release, ReleaseBroker, broker_of, dumped
from support.release_dump import Line, lines, shape_of
from support.release_story import Story, is_generation, told

_FIRST_FETCHED = (0, 11)
"""Fetching by ourselves is for brokers that keep record batches of format 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """``answered`` by the broker and ``decoded`` out of its log, of every group; ``state`` is our decoding's;
    ``records`` are all that are in the segment files, ``text`` their dump; ``fetched`` the visible ones by
    our fetches (None: not for this release), ``visible`` the same from the files; ``generations`` says of
    each classic group with members whether the coordinator takes the decoded one, and the next; ``rows`` and
    ``columns`` are all records as Spark and as the domain decodes them, column by column."""

    release: Release
    answered: dict[str, Answer]
    decoded: dict[str, Answer]
    state: State
    in_spark: dict[str, tuple[str, int | None, list[str], int]]
    records: dict[tuple[int, int], Decoded]
    text: list[Line]
    visible: list[LogRecord]
    fetched: list[LogRecord] | None
    generations: dict[str, tuple[bool, bool]]
    rows: dict[tuple[int, int], dict[str, Any]]
    columns: dict[tuple[int, int], dict[str, Any]]


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session on the Java that the brokers run on."""
    os.environ["JAVA_HOME"] = str(java_home())
    session = local_session("groupshift logs of releases")
    try:
        yield session
    finally:
        session.stop()


def capture(spark: SparkSession, folder: Path, release: Release) -> Captured:
    """Start the broker, tell the story, and read everything while nothing changes. Ends the broker."""
    with broker_of(Home(folder / "home").create(), release) as broker, told(broker) as story:
        answered, copy = _at_rest(broker, story, folder)
        log = scan_segments(spark, str(copy))
        whole = replace(log, partitions=tuple(replace(each, transactions=NONE) for each in log.partitions))
        visible = _rows(read_segments(spark, log))
        state = materialise(decode(one, partitions=PARTITIONS) for one in visible)
        known = groups(winners(read_segments(spark, log)), PARTITIONS)
        every = _rows(read_segments(spark, whole))
        records = {(one.partition, one.offset): decode(one, partitions=PARTITIONS) for one in every}
        new = release.numbers >= _FIRST_FETCHED
        text = dumped(broker.home, release, sorted(copy.glob(f"{TOPIC}-*/*.log")))
        return Captured(
            release=release,
            answered=answered,
            decoded=expected(state, story.broker),
            state=state,
            in_spark={
                row.group_id: (row.family, row.epoch, sorted(row.members), row.live_commits)
                for row in known.collect()
            },
            records=records,
            text=list(lines(text, shape_of(release.numbers))),
            visible=visible,
            fetched=_fetched(spark, broker, every) if new else None,
            generations=_generations(story, state),
            rows=_decoded(read_segments(spark, whole)),
            columns={at: {name: cell(one, name) for name in COLUMNS} for at, one in records.items()},
        )


def _fetched(spark: SparkSession, broker: ReleaseBroker, copied: list[LogRecord]) -> list[LogRecord]:
    """What our fetches give of the part of the log that was copied."""
    last = {one.partition: one.offset for one in copied}
    brokers = Brokers(bootstrap_servers=broker.bootstrap)
    rows = _rows(fetched(spark, brokers))
    return [one for one in rows if one.offset <= last.get(one.partition, -1)]


def _at_rest(broker: ReleaseBroker, story: Story, folder: Path) -> tuple[dict[str, Answer], Path]:
    """Answers and a copy of the segment files between two equal looks at both."""
    found: list[tuple[dict[str, Answer], Path]] = []

    def look() -> tuple[dict[str, Answer], list[int]]:
        return answers(story.broker), [path.stat().st_size for path in broker.segments()]

    def still() -> bool:
        before = look()
        copy = folder / f"copy-{len(found)}"
        for path in broker.segments():
            (copy / path.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy / path.parent.name)
        story.beat()
        found.append((before[0], copy))
        return look() == before

    story.until(still, "nothing changes any more")
    return found[-1]


def _rows(frame: DataFrame) -> list[LogRecord]:
    rows = [
        LogRecord(
            partition=row.partition,
            offset=row.offset,
            timestamp_ms=row.timestamp_ms,
            key=_bytes(row.key),
            value=_bytes(row.value),
        )
        for row in frame.collect()
    ]
    return sorted(rows, key=lambda one: (one.partition, one.offset))


def _decoded(frame: DataFrame) -> dict[tuple[int, int], dict[str, Any]]:
    """The columns of each record as the Spark jobs decode it."""
    found = {}
    for row in decoded(frame, PARTITIONS).collect():
        told = row.asDict()
        told |= {name: _bytes(told[name]) for name in ("raw_key", "raw_value")}
        found[row.src_partition, row.src_offset] = told | {"unknown_tags": list(row.unknown_tags.items())}
    return found


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _generations(story: Story, state: State) -> dict[str, tuple[bool, bool]]:
    found = {}
    for name, group in state.groups.items():
        if group.family is GroupFamily.CLASSIC and group.members:
            epoch = -1 if group.epoch is None else group.epoch
            now, following = (is_generation(story, name, group.members[0], epoch + n) for n in (0, 1))
            found[name] = (now, following)
    return found
