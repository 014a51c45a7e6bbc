"""Spark jobs and what they share."""
