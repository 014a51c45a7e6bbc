"""The journal through SQLAlchemy (SQLite, PostgreSQL)."""
