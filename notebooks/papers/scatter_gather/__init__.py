"""Scatter-gather: its figures, tables and claims."""
