-- Names in the order of their code points: the pages of a scan follow it.
ALTER TABLE scan_state
    ALTER COLUMN ensemble TYPE TEXT COLLATE "C",
    ALTER COLUMN group_id TYPE TEXT COLLATE "C";
