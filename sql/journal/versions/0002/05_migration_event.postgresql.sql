-- As its migration's.
ALTER TABLE migration_event
    ALTER COLUMN migration TYPE TEXT COLLATE "C";
