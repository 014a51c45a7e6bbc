"""Kafka's record batches (formats 0, 1 and 2) turned into Arrow columns by compiled loops."""
