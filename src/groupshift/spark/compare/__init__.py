"""Equality of two cluster snapshots at any scale: checksums first, then only the rows that differ."""
