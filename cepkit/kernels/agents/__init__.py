"""Kernels of the hybrid protocol: the steps of agents, their arrays, and calls of functions of a query."""
