"""Spark job: prove from ledgers and ZooKeeper's transaction log what a group really consumed.

``spark-submit audit_consumption.py --ledgers DIR --zookeeper-log DIR --group G --output DIR
[--from-ms N] [--to-ms N] [--chroot PATH] [--tolerance-ms N]
[--brokers HOST:PORT,... [--properties FILE] [--isolation-level LEVEL]]``

Offsets that nobody was given may hold no record (transaction markers, aborted records, compaction). With
``--brokers`` the log is asked about these ranges, as a consumer of the members' isolation level is given
them; without, all of them count as lost. ``--properties`` names a JSON object of librdkafka's security keys.

Writes ``audit.json``, ``intervals.parquet``, ``offset_writes.parquet``, ``hand_overs.parquet``,
``duplicates.parquet`` and ``report.html``. Exit code 0 when a verdict was reached, 5 when the evidence is
damaged, 2 when an argument cannot be used. ZooKeeper's log is read before the ledgers, and what the
ledgers hold beyond that moment is left out, so a group may go on consuming meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from groupshift.adapters.kafka.record_log import KafkaRecordLog
from groupshift.domain.modes import Isolation
from groupshift.domain.verdict import Verdict
from groupshift.errors import GroupshiftError
from groupshift.jobs import ended
from groupshift.ports.log import NobodyAsksTheLog, RecordLog
from groupshift.spark import consumption
from groupshift.spark import consumption_report as report
from groupshift.spark.checks import to_json
from groupshift.spark.consumption import Audit, Window, measure
from groupshift.spark.output import fresh, properties_of, write_parquet, write_text
from groupshift.spark.session import local_session

VERDICT, REPORT = "audit.json", "report.html"
TABLES = ("hand_overs", "duplicates")
DEFAULT_TOLERANCE_MS = 2000
"""How late a recorder may stamp what an old member printed: it shares the machine with everything else."""


def _consumption_audit(arguments: argparse.Namespace) -> Audit:
    """Read both sources, measure, and leave the tables. Raises `Rejected` and `Broken`."""
    kafka_log: RecordLog = NobodyAsksTheLog()
    if arguments.brokers is not None:
        kafka_log = KafkaRecordLog(arguments.brokers, properties_of(arguments.properties))
    now_ms = time.time_ns() // 1_000_000
    window = Window(
        from_ms=arguments.from_ms,
        to_ms=now_ms if arguments.to_ms is None else arguments.to_ms,
        tolerance_ms=arguments.tolerance_ms,
    )
    log = consumption.read_log(arguments.zookeeper_log, arguments.group, arguments.chroot)
    torn = consumption.torn_ledgers(arguments.ledgers)
    spark = local_session(f"groupshift audit {arguments.group}")
    files = consumption.write_history(log.history, arguments.output, window.to_ms)
    ledgers = consumption.read_ledgers(spark, arguments.ledgers, torn)
    ours = ledgers.where(ledgers["member"].startswith(f"{arguments.group}_"))
    consumption.register(spark, ours, files, log.history.kinds, window)
    measured = measure(spark, window, ask=kafka_log.read, isolation=Isolation(arguments.isolation_level))
    for name in TABLES:
        types = ", ".join(f"{column} {kind}" for column, kind in spark.table(name).dtypes)
        write_parquet(arguments.output / f"{name}.parquet", getattr(measured, name), types)
    return Audit(group=arguments.group, window=window, log=log, torn=torn, measured=measured)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the audit; returns the exit code (see the module text). Ends the process with
    code 2 for arguments that cannot be used."""
    parser = argparse.ArgumentParser(prog="audit_consumption", description="Audit what a group consumed.")
    parser.add_argument("--ledgers", type=Path, required=True, help="folder of *.jsonl ledgers")
    parser.add_argument("--zookeeper-log", type=Path, required=True, help="the server's version-2 folder")
    parser.add_argument("--group", required=True)
    parser.add_argument("--output", type=Path, required=True, help="folder that gets audit.json and report")
    parser.add_argument("--from-ms", type=int, default=0, help="events before are context only (epoch ms)")
    parser.add_argument("--to-ms", type=int, help="nothing after counts (epoch ms); default: now")
    parser.add_argument("--chroot", default="", help="chroot of the consumers' zookeeper.connect")
    parser.add_argument("--tolerance-ms", type=int, default=DEFAULT_TOLERANCE_MS, help="for old members only")
    parser.add_argument("--brokers", help="bootstrap servers: ask the log about what nobody was given")
    parser.add_argument("--properties", type=Path, help="JSON: security keys for --brokers")
    levels = [each.value for each in Isolation]
    parser.add_argument(
        "--isolation-level", choices=levels, default=levels[0], help="of Kafka members; old ones have none"
    )
    arguments = parser.parse_args(argv)
    output: Path = arguments.output
    fresh(output, (VERDICT, REPORT, *(f"{name}.parquet" for name in TABLES)))

    def run() -> str:
        try:
            audit = _consumption_audit(arguments)
        except GroupshiftError as error:
            data = {"version": report.AUDIT_VERSION, "group": arguments.group, "verdict": Verdict.FAIL.value}
            write_text(output / VERDICT, to_json({**data, "error": str(error)}))
            raise
        write_text(output / REPORT, report.render(audit))
        write_text(output / VERDICT, to_json(report.to_data(audit)))
        return f"{audit.verdict}; report at {output / REPORT}"

    return ended("audit", run)


if __name__ == "__main__":
    sys.exit(main())
