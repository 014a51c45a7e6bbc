"""An expansion of the offsets topic: more partitions, without an offset lost (KIP-895)."""
