"""What a replication link between two clusters is, and how offsets are translated across it.

`translate` answers for one group what its offsets are on the other cluster.
"""

from groupshift.links.sync import translate

__all__ = ["translate"]
