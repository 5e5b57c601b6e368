"""Queries on streaming Spark frames: buckets of keys with saved state, and their results."""
