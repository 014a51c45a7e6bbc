"""``__consumer_offsets`` read from segment files that were copied from a broker, in this process.

No Spark session and no cluster: `groupshift.ports.log.OffsetsLog`. Larger copies go through
`segments`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from groupshift.log import LogRecord
from groupshift.log.decode import Position
from groupshift.ports.log import LogProgress
from groupshift.spark.batches.files import filesystem, read_parts
from groupshift.spark.batches.inflation import Origin
from groupshift.spark.batches.records import read_records
from groupshift.spark.batches.transactions import Visible, visible
from groupshift.spark.direct_log import log_records
from groupshift.spark.segment_folders import find_replicas
from groupshift.spark.segment_scan import ReplicaFacts, replica_facts
from groupshift.spark.segments import OFFSETS_TOPIC, longest, raw_rows


class CopiedLog:
    """The copy below ``uri``; of several copies of a partition the longest. Raises as `segments`."""

    def __init__(self, uri: str, topic: str = OFFSETS_TOPIC) -> None:
        self._uri = uri
        self._topic = topic

    def position(self) -> Position:
        """See the port."""
        return {number: each.log_end for number, each in self._replicas.items()}

    def read(
        self, up_to: Position, partitions: Collection[int] | None = None, told: LogProgress | None = None
    ) -> Iterator[LogRecord]:
        """See the port."""
        wanted = sorted(number for number in up_to if partitions is None or number in partitions)
        total = sum(up_to[number] for number in wanted)
        done = 0
        for number in wanted:
            for record in self._records(self._replicas[number]):
                if record.offset < up_to[number]:
                    yield record
            done += up_to[number]
            if told is not None:
                told(done, total)

    @cached_property
    def _replicas(self) -> Mapping[int, ReplicaFacts]:
        """Every file is read once: headers and checksums."""
        store, _ = filesystem(self._uri)
        found = find_replicas(self._uri, self._topic)
        facts = [replica_facts(store, replica) for each in found.values() for replica in each]
        return {each.replica.partition: each for each in longest(found, facts)}

    def _records(self, replica: ReplicaFacts) -> Iterator[LogRecord]:
        store, _ = filesystem(self._uri)
        for file, facts in zip(replica.replica.files, replica.facts, strict=True):
            for part in read_parts(store, file.path, 0, facts.end, check=False):
                table = visible(part.headers.table, replica.transactions, Visible.DECIDED)
                for records in read_records(part.data, table, Origin(name=file.path, position=part.position)):
                    yield from log_records(
                        replica.replica.partition, raw_rows(replica.replica.partition, records)
                    )
