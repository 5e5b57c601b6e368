"""Queries for interpretation: conditions as columns or as instructions, with no code to compile."""
