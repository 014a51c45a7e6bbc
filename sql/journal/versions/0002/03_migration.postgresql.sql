-- Names of any length, in the order of their code points, whatever the database's language says: as SQLite has it.
ALTER TABLE migration
    ALTER COLUMN migration TYPE TEXT COLLATE "C",
    ALTER COLUMN group_id  TYPE TEXT COLLATE "C",
    ALTER COLUMN run       TYPE TEXT COLLATE "C";
