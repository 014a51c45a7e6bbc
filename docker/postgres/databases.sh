#!/bin/bash
# Runs once, when PostgreSQL's volume is empty: the database of Airflow beside that of the journal.
set -euo pipefail
createdb --username "$POSTGRES_USER" airflow
