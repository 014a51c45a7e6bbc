"""Moves a group from ZooKeeper to Kafka coordination (KIP-125), and back.

What is looked at and asked before and around an act lies in `groupshift.domain`, as long as the former engine
needs it there. Sources: docs/reference/zookeeper-coordination.md §9 (path and rollback), §8.10 (F6, F7).
"""
