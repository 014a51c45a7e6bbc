"""Records of ``__consumer_offsets``: read, and what they add up to.

`decode` reads by one table of layouts (`schema`); pure and of the standard library only, for it runs on
Spark's executors. Source: docs/reference/group-coordinator.md §§1 and 2.
"""

from groupshift.log.decode import Decoded, DecodeStatus, LogRecord, commit_place, decode

__all__ = ["DecodeStatus", "Decoded", "LogRecord", "commit_place", "decode"]
