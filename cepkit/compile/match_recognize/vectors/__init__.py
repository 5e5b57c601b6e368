"""Expressions of MATCH_RECOGNIZE at many places at once, with the values of `compile_value`."""
