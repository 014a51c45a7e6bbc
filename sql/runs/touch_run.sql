-- The first statement of every write: it serialises the writers of one run on its row.
UPDATE run
SET updated_at_ms = :at_ms
WHERE run = :run;
