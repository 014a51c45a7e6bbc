-- As its migration's.
ALTER TABLE claim
    ALTER COLUMN migration TYPE TEXT COLLATE "C",
    ALTER COLUMN run       TYPE TEXT COLLATE "C";
