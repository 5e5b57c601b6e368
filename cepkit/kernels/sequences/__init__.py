"""Kernels that find the matches of sequences and sort them."""
