"""Kernels of row patterns: find the matches, and the rows and totals that their measures mean."""
