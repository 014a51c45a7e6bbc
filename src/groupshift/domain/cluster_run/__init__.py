"""Runs that change a whole cluster: their steps as data, and what comes next. Whatever the move."""
