"""A move that changes one SQLite file. It has one step of each kind that the engine has to be able to drive."""
