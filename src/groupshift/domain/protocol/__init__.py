"""Moving a group between the two rebalance protocols: that of JoinGroup (classic) and KIP-848's (consumer).

`groupshift.domain.group_protocol` is what is looked at, `answers` what a coordinator will answer,
`preflight` the rules before a move, `settled` those that a sensor waits for.

Sources: KIP-848; docs/reference/group-coordinator.md §5; docs/reference/coordinator-on-real-brokers.md §C.
"""
