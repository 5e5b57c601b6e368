"""Kernels of load shedding: evaluation trees, and the queue of a server."""
