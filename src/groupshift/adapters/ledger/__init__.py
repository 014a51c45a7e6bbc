"""Ledgers as files: what members delivered."""
