"""What a replication link between two clusters is, and how offsets are translated across it."""
