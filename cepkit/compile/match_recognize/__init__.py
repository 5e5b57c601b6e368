"""Row patterns as automata with preferences, and expressions of SQL as functions."""
