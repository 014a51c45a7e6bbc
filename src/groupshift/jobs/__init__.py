"""Spark entry points, one ``main`` each."""
