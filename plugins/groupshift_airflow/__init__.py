"""Groupshift's operators, sensors, gates and pages for Airflow: each one call of one use case."""
