"""The parallel engines, as values that run on real threads or in virtual time."""
