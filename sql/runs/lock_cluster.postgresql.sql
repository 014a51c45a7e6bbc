-- Held until the transaction ends: whoever opens a run of this cluster, or of a group in it, waits here, so
-- that what is in the way does not change between the look and the write. SQLite needs none.
SELECT pg_advisory_xact_lock(hashtext('groupshift.cluster'), hashtext(:cluster));
