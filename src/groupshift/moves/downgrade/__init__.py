"""A downgrade of brokers: to an older release, or to the old group coordinator (KIP-848, KIP-915)."""
