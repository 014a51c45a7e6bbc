"""Moves a group between the two rebalance protocols: that of JoinGroup (classic) and KIP-848's (consumer).

``facts`` is what is asked for and what is looked at, ``rules`` which rules are asked when, ``plan`` the
phases and what undoes them, ``steps`` how its approval is asked, ``liveness`` who is missing or stands still
afterwards, ``report`` what people read, ``move`` what the engine asks of all this. What brokers answer on the
way, and the rules about it, lie in `groupshift.domain.protocol`: they are true whoever moves the group.

Sources: KIP-848; docs/reference/group-coordinator.md §5.
"""
