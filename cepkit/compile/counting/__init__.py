"""Compilation for the counting engine: the branches that it can run, and the source of its kernels."""
