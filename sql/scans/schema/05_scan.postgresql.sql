-- Names in the order of their code points.
ALTER TABLE scan
    ALTER COLUMN ensemble TYPE TEXT COLLATE "C";
