"""Moves a group from ZooKeeper to Kafka coordination (KIP-125), and back, member by member.

``facts`` is what is asked for and what is looked at, ``rules`` which rules are asked when, ``plan`` the
phases and what undoes them, ``steps`` how each kind of step is done, ``report`` what people read, ``move``
what the engine asks of all this. ``repair_leftover_offsets`` is about the offsets that a rollback leaves
in Kafka. Rules, plan and report are pure: only steps act, and only `facts.look` and the checks of steps
observe.

Sources: docs/reference/zookeeper-coordination.md §9 (path and rollback), §8.10 (F6, F7).
"""
