"""The moves, a package each; none imports another one."""
