"""Proof jobs through spark-submit."""
