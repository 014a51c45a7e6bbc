-- Names in the order of their code points.
ALTER TABLE scan_toggle
    ALTER COLUMN ensemble  TYPE TEXT COLLATE "C",
    ALTER COLUMN group_id  TYPE TEXT COLLATE "C",
    ALTER COLUMN run       TYPE TEXT COLLATE "C";
