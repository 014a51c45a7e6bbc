-- Held until the transaction ends: of several tools that open an old database one brings it up to date.
-- SQLite needs none: its writers begin with the one lock there is.
SELECT pg_advisory_xact_lock(hashtext('groupshift.schema_version'));
