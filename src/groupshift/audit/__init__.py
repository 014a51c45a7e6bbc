"""Committed offsets and consumption, audited: what is known, which rules speak, what to do."""
