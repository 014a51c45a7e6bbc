"""The move ``downgrade``: is the way of a cluster's brokers to an older release open (KIP-915), and what
opens it.

`releases` and `groupshift.domain.versions` are what releases can read, `path` decides on features and the
log, `preflight` asks the numbered rules, `steps` is the ordered plan. Source: specs/group-coordinator.md §§4,
5.5, 6, 8.2, 8.4.
"""
