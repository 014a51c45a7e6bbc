"""Records of ``__consumer_offsets``: read, written, and what they add up to.

`decode` and `encode_key` / `encode_value` go both ways over one table of layouts (`schema`); pure
and of the standard library only, for it runs on Spark's executors.
Source: docs/reference/group-coordinator.md §§1 and 2.
"""

from groupshift.log.codec import encode_key, encode_value
from groupshift.log.decode import Decoded, DecodeStatus, LogRecord, commit_place, decode

__all__ = ["DecodeStatus", "Decoded", "LogRecord", "commit_place", "decode", "encode_key", "encode_value"]
