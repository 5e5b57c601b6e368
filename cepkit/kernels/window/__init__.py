"""Kernels of windows and joins: exact sums and extremes of ranges of rows, and partners of rows."""
