"""The three-way audit of committed offsets in Spark: the same rules as in the process, for large clusters."""
