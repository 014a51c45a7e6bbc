-- Held until the transaction ends: of several tools that open an empty database one makes the tables.
-- SQLite needs none: its writers begin with the one lock there is.
SELECT pg_advisory_xact_lock(hashtext('groupshift.scan_schema'));
