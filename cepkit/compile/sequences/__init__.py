"""Sequence queries: program and the sources of the search kernels."""
