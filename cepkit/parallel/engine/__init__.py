"""The parallel engines as values, on real threads."""
