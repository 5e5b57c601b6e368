"""The engine that searches depth first. It runs every sequence query."""
