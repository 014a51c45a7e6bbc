-- Names in the order of their code points: the pages of a scan follow it.
ALTER TABLE scan_change
    ALTER COLUMN ensemble TYPE TEXT COLLATE "C",
    ALTER COLUMN group_id TYPE TEXT COLLATE "C",
    ALTER COLUMN aspect   TYPE TEXT COLLATE "C";
