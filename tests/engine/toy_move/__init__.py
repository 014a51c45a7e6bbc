"""A move that changes one SQLite file, with one step of each kind that the engine has to drive."""
