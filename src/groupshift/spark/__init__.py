"""Spark jobs and what they share. Importing this package imports nothing else."""
