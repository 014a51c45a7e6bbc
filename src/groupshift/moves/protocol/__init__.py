"""Moves a group between the two rebalance protocols: that of JoinGroup (classic) and KIP-848's (consumer).

What is looked at and asked before a move lies in `groupshift.domain.protocol`, as long as the former engine
needs it there. Sources: KIP-848; docs/reference/group-coordinator.md §5.
"""
