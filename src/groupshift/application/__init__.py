"""Use cases: observe, decide, act. One use case a file."""
