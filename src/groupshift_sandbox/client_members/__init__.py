"""Members of groups: real clients of several releases, each a process that tells what happens to it."""
