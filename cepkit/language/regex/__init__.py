"""Regex queries: patterns over named predicates."""
