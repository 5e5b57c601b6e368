"""Queries as Arrow tasks of Spark."""
