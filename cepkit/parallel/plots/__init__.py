"""Plots of parallel runs, threads and allocations."""
