"""The engine that searches depth first; it takes every sequence query."""
