"""Adapters: one folder a technology; client libraries appear only here."""
