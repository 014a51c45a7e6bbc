"""Expanding ``__consumer_offsets`` from N to M partitions: who moves, what brokers count, what the log says.

Pure. Source: specs/group-coordinator.md §§2 and 3 (KIP-895, which Kafka never adopted: brokers read the count
when they start, and only then).
"""
