"""Command line: parse, call one use case, render."""
