-- As its migration's.
ALTER TABLE migration_step
    ALTER COLUMN migration TYPE TEXT COLLATE "C";
