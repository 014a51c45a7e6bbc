"""The packaged rules of the audit, by number."""

from groupshift.audit.rules import KAFKA_RULES, STORE_RULES

BY_NUMBER = {rule.number: rule for rule in (*KAFKA_RULES, *STORE_RULES)}
FACTS = frozenset(fact for rule in BY_NUMBER.values() for fact in (*rule.when, *rule.unless))
"""Every question about the three sources that a rule asks, by the name of its column."""
