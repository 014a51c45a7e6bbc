"""Records of ``__consumer_offsets``: read, written, and what they add up to.

`decode` and `encode_key` / `encode_value` go both ways over one table of layouts (`types`, `values`,
`values_new`); pure and of the standard library only, for it runs on Spark's executors.
Source: specs/group-coordinator.md §§1 and 2.
"""

from groupshift.domain.coordinator_log.decoding import commit_place, decode
from groupshift.domain.coordinator_log.records import Decoded, DecodeStatus, LogRecord
from groupshift.domain.coordinator_log.writing import encode_key, encode_value

__all__ = ["DecodeStatus", "Decoded", "LogRecord", "commit_place", "decode", "encode_key", "encode_value"]
